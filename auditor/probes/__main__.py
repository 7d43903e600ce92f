"""`python -m auditor.probes` and the pyz start here, also as a worker."""

import sys

from auditor.probes.engine import stop

if __name__ == "__main__":
    stop.listen(sys.argv[1:])
    from auditor.probes.engine.command_line import main

    sys.exit(main(sys.argv[1:]))
