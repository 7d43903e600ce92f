"""sudo's words, and Ansible's about it, become a sentence with the next step."""

from __future__ import annotations

import pytest

from auditor.transport import sudo_trouble


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("Missing sudo password", "pass --ask-become-pass"),
        ("sudo: a password is required", "pass --ask-become-pass"),
        ("sudo: a terminal is required to read the password; either use the -S option", "pass --ask-become-pass"),
        ("Incorrect sudo password", "did not take the password"),
        ("Incorrect su password", "did not take the password"),
        ("sudo: 1 incorrect password attempt", "did not take the password"),
        ("ubuntu is not in the sudoers file.", "may not use sudo"),
        ("Sorry, user ubuntu is not allowed to execute '/bin/sh -c x' as root on gpu-01.", "may not use sudo"),
        ("Sorry, user ubuntu may not run sudo on gpu-01.", "may not use sudo"),
        ("/bin/sh: 1: sudo: not found", "there is no sudo there"),
        ("bash: line 1: sudo: command not found", "there is no sudo there"),
        ("sudo: sorry, you must have a tty to run sudo", "remove requiretty"),
    ],
)
def test_every_refusal_has_its_sentence(said: str, words: str) -> None:
    """Missing, wrong, forbidden and absent are told apart, each with what to do."""
    assert words in str(sudo_trouble.explain(said))


@pytest.mark.parametrize("said", ["", "Permission denied (publickey,password).", "/usr/bin/python3: not found"])
def test_other_words_are_not_sudos(said: str) -> None:
    """What sudo did not say is explained elsewhere."""
    assert sudo_trouble.explain(said) is None
