"""fleet: throw-away "rented machines" on one Linux box, with a real sshd each, for testing what talks SSH.

Needs root, Linux with overlayfs, and the Debian packages openssh-server and sudo. README.md tells more.
"""

from tests.fleet.client import Fleet, why_not
from tests.fleet.faults import FAULTS

__all__ = ["FAULTS", "Fleet", "why_not"]
