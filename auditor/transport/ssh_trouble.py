"""What ssh said when a server could not be reached, turned into a reason and a sentence with the next step."""

from __future__ import annotations

import re
from typing import NamedTuple

from auditor.showing import show

_KEY = re.compile(r"Server host key: (\S+) (SHA256:[A-Za-z0-9+/=]{20,60})")
_ADDED = re.compile(r"Permanently added '[^']+' \(([A-Z0-9-]+)\)")


class Trouble(NamedTuple):
    """`reason` is a fixed word of the run folder's states."""

    reason: str
    sentence: str


class HostKey(NamedTuple):
    """The key a server showed: its type, its fingerprint, and whether it was stored just now."""

    kind: str
    fingerprint: str
    first_use: bool


_SIGNS: tuple[tuple[str, str, str], ...] = (
    (r"REMOTE HOST IDENTIFICATION HAS CHANGED", "host_key_changed",
     "the server shows another host key than the one you trusted before: it was not audited. Ask the provider whether "
     "the machine was replaced; if so, remove the old key with `ssh-keygen -R` and audit again"),
    (r"No \S+ host key is known|Host key verification failed", "host_key_unknown", "its host key is not known here"),
    (r"Permission denied \([^)]*(password|keyboard-interactive)|Invalid/incorrect password", "login_refused",
     "the login was refused: check ansible_user, and the key or the password (--ask-pass, or ansible_password in a "
     "vault)"),
    (r"Permission denied|Too many authentication failures", "login_refused",
     "the login was refused: check ansible_user and the key (this server takes no password)"),
    (r"stdio forwarding failed|open failed: (connect failed|administratively prohibited)|UNKNOWN port 65535",
     "unreachable", "the jump host could not be reached, or could not reach it: try ssh to both, one after the other"),
    (r"Could not resolve hostname|Name or service not known", "unreachable",
     "its name cannot be resolved: check ansible_host, and that your DNS or VPN knows the name"),
    (r"Connection refused", "unreachable",
     "the connection was refused: the address answers, but no SSH server listens at this port: check ansible_port "
     "with the provider's page, and whether the machine is still booting"),
    (r"No route to host|Network is unreachable|Host is down", "unreachable",
     "there is no way to this address from here: check ansible_host and your VPN; a private address needs a jump host"),
    (r"during banner exchange", "unreachable",
     "it did not answer in time: the port is open, but no SSH server speaks: check ansible_port, or reboot it"),
    (r"[Tt]imed out", "unreachable",
     "it did not answer in time: is it running, and does its firewall let this address of yours in?"),
    (r"Data could not be sent|Connection reset|Connection closed|Broken pipe", "unreachable",
     "the connection broke off"),
    (r"Bad configuration option|no argument after keyword|Can't open user config file", "ssh_config",
     "the local ssh does not accept its configuration"),
    (r"sshpass", "ssh_config",
     "the program sshpass is missing here: apt-get install sshpass, or leave ansible_ssh_password_mechanism at "
     "ssh_askpass, which needs no program, or use a key"),
    (r"ssh-askpass", "login_refused", "a password is asked for: pass --ask-pass or use a key"),
)  # fmt: skip


def explain(said: str) -> Trouble:
    """The trouble behind ssh's words; the words themselves stand behind the sentence, made fit to show."""
    for pattern, reason, sentence in _SIGNS:
        if re.search(pattern, said):
            return Trouble(reason, sentence)
    return Trouble("unreachable", f"the connection broke: {_last_line(said)}")


def host_key(verbose: str) -> HostKey | None:
    """The key the server showed, from what `ssh -v` wrote."""
    match = _KEY.search(verbose)
    return HostKey(match[1], match[2], bool(_ADDED.search(verbose))) if match else None


def how_to_accept(destination: str, port: int | None, key: HostKey) -> str:
    """The sentence for a person who must decide whether to trust a key."""
    where = f"-p {port} {destination}" if port and port != 22 else destination
    return (
        f"its host key is not known here ({key.kind} {key.fingerprint}). Compare it with the provider's console, then "
        f"accept it with: ssh -o StrictHostKeyChecking=accept-new {where} true "
        "(or audit with -e audit_accept_new_host_keys=true, which records it as first use)"
    )


def _last_line(said: str) -> str:
    lines = [line for line in said.splitlines() if line.strip()]
    return show(lines[-1] if lines else "ssh said nothing", 160)
