"""What sudo said when it would not let the audit become root, turned into a sentence with the next step."""

from __future__ import annotations

import re

REASON = "sudo_refused"
_WITHOUT = "or audit without become: what needs root is then named as not measured"
_SIGNS = (
    (r"Incorrect \w+ password|incorrect password attempt",
     "sudo did not take the password: check ansible_become_password, or what was typed for --ask-become-pass"),
    (r"Missing \w+ password|a password is required|terminal is required to read the password",
     f"sudo asks for a password: pass --ask-become-pass, set ansible_become_password in a vault, {_WITHOUT}"),
    (r"not in the sudoers file|not allowed to (?:execute|run sudo)|may not run sudo",
     f"this user may not use sudo: log in as root, have the user added to sudoers, {_WITHOUT}"),
    (r"sudo: (?:command )?not found", f"there is no sudo there: log in as root, {_WITHOUT}"),
    (r"you must have a tty", f"its sudo wants a terminal: remove requiretty there, log in as root, {_WITHOUT}"),
)  # fmt: skip


def explain(said: str) -> str | None:
    """The sentence; None where it was not sudo that said this."""
    return next((sentence for pattern, sentence in _SIGNS if re.search(pattern, said)), None)
