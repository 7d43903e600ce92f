"""ssh's words become a reason and a sentence with the next step."""

from __future__ import annotations

import pytest

from auditor.transport import ssh_trouble
from auditor.transport.ssh_trouble import HostKey


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        ("ssh: connect to host 192.0.2.1 port 22: Connection refused", "unreachable", "check ansible_port"),
        ("Connection timed out during banner exchange", "unreachable", "no SSH server speaks: check ansible_port"),
        ("ssh: connect to host 192.0.2.1 port 22: Connection timed out", "unreachable", "does its firewall let"),
        ("ssh: connect to host x port 22: No route to host", "unreachable", "no way to this address from here"),
        ("ssh: connect to host x port 22: Network is unreachable", "unreachable", "private address needs a jump host"),
        ("ssh: Could not resolve hostname x: Name or service not known", "unreachable", "check ansible_host, and that"),
        ("channel 0: open failed: connect failed: Connection refused\nstdio forwarding failed", "unreachable",
         "the jump host could not"),
        ("Connection closed by UNKNOWN port 65535", "unreachable", "the jump host could not"),
        ("root@192.0.2.1: Permission denied (publickey).", "login_refused", "this server takes no password"),
        ("root@192.0.2.1: Permission denied (publickey,password).", "login_refused", "--ask-pass"),
        ("to use the password_mechanism=sshpass, you must install the sshpass program", "ssh_config",
         "apt-get install sshpass"),
        ("No ED25519 host key is known for [x]:2222 and you have requested strict checking.", "host_key_unknown", ""),
        ("@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.", "host_key_changed",
         "ssh-keygen -R"),
        ("Data could not be sent to remote host", "unreachable", "broke off"),
        ("kex_exchange_identification: \x1b[31mgo away", "unreachable", "\\x1b[31mgo away"),
        ("", "unreachable", "ssh said nothing"),
    ],
)  # fmt: skip
def test_every_trouble_has_its_sentence(said: str, reason: str, words: str) -> None:
    """The reason is a fixed word, the sentence never carries control characters."""
    trouble = ssh_trouble.explain(said)
    assert trouble.reason == reason and words in trouble.sentence
    assert "\x1b" not in trouble.sentence


def test_the_key_is_read_from_sshs_own_words() -> None:
    """Type, fingerprint, and whether it was stored just now."""
    said = "debug1: Server host key: ssh-ed25519 SHA256:" + "A" * 43 + "\nWarning: Permanently added 'x' (ED25519) to"
    assert ssh_trouble.host_key(said) == HostKey("ssh-ed25519", "SHA256:" + "A" * 43, True)
    assert ssh_trouble.host_key("Server host key: none") is None


@pytest.mark.parametrize(
    ("port", "words"), [(None, "accept-new root@x true"), (2222, "accept-new -p 2222 root@x true")]
)
def test_how_to_accept_names_command_and_fingerprint(port: int | None, words: str) -> None:
    """A person can copy the command after having compared the fingerprint."""
    sentence = ssh_trouble.how_to_accept("root@x", port, HostKey("ssh-ed25519", "SHA256:abc", False))
    assert words in sentence and "SHA256:abc" in sentence and "provider's console" in sentence
