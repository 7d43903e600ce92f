"""`python -m auditor` is the `auditor` command, where the script itself is not on the PATH."""

from auditor.cli import main

main()
