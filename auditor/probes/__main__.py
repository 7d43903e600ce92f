"""`python -m auditor.probes` and the pyz start here, also as a worker."""

import sys

from auditor.probes.engine.entrance import enter

if __name__ == "__main__":
    sys.exit(enter(sys.argv[1:]))
