"""One file a command of `auditor`; each holds a click command named `command`."""
