"""`python -m auditor.probes` and the pyz start here, also as a worker."""

import sys

from auditor.probes.engine.command_line import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
