"""The first lines of ours that run: hear a stop, then read only the part of the program that this process is.

The file that goes to a server holds no compiled code (any Python from 3.8 runs it), so what is read is compiled
first: for a process that only watches or works, reading the whole engine would be most of its start.
"""

from __future__ import annotations

from . import stop


def enter(arguments: list[str]) -> int:
    """Be the audit, or the role that it gave this process (`--as ROLE SOCKET PARENT`); gives the exit code."""
    if arguments[:1] == ["--as"]:
        return _serve(arguments[1], int(arguments[2]), int(arguments[3]))
    stop.listen()
    from .command_line import main

    return main(arguments)


def _serve(role: str, fileno: int, parent: int) -> int:
    from . import kernel_calls

    kernel_calls.die_with_parent(parent)
    if role == "watcher":
        from . import watcher as part
    elif role == "cuda":
        from . import cuda_door as part  # type: ignore[no-redef]
    else:
        from . import worker as part  # type: ignore[no-redef]
    return part.main(fileno)
