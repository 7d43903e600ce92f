"""What a person may write for a server."""

from __future__ import annotations

import pytest

from auditor.errors import UserError
from auditor.quick.target import parse


@pytest.mark.parametrize(
    ("text", "user", "host", "port", "name"),
    [
        ("192.0.2.10", None, "192.0.2.10", None, "192.0.2.10"),
        ("root@192.0.2.10", "root", "192.0.2.10", None, "192.0.2.10"),
        ("root@192.0.2.10:22022", "root", "192.0.2.10", 22022, "192.0.2.10-22022"),
        ("ssh://root@gpu.example.com:22022/", "root", "gpu.example.com", 22022, "gpu.example.com-22022"),
        ("root@[::1]", "root", "::1", None, "ip6-1"),
        ("root@[2001:db8::1]:22022", "root", "2001:db8::1", 22022, "ip6-2001-db8-1-22022"),
        ("2001:db8::1", None, "2001:db8::1", None, "ip6-2001-db8-1"),
        ("gpu-01", None, "gpu-01", None, "gpu-01"),
        ("first@last@gpu-01", "first@last", "gpu-01", None, "gpu-01"),
    ],
)
def test_every_way_to_write_a_server(text: str, user: str | None, host: str, port: int | None, name: str) -> None:
    """User, host, port and the row's name come out of each way to write a server."""
    (target,) = parse([text])
    assert (target.user, target.host, target.port, target.name) == (user, host, port, name)


def test_port_and_user_of_the_command_line_fill_what_is_not_written() -> None:
    """-p and -l count for servers that name none themselves."""
    own, filled = parse(["a@one:1022", "two"], port=22022, user="root")
    assert (own.user, own.port, filled.user, filled.port) == ("a", 1022, "root", 22022)


def test_two_containers_of_one_address_are_two_rows() -> None:
    """Providers put many containers behind one address; their ports tell them apart."""
    names = [target.name for target in parse(["root@192.0.2.10:22022", "root@192.0.2.10:22023", "root@192.0.2.10"])]
    assert names == ["192.0.2.10-22022", "192.0.2.10-22023", "192.0.2.10-22"]


@pytest.mark.parametrize(
    "text",
    ["", "root@", "-oProxyCommand=x", "root@-oProxyCommand=x", "a;b", "a b", "a\nb", "root@[::1", "host:0",
     "host:99999", "host:ssh", "a..b", "$(id)@host", "../../etc"],
)  # fmt: skip
def test_C07_what_is_no_server_is_refused_by_name(text: str) -> None:
    """A word that could become an option, a command or a path is refused before anything sees it."""
    with pytest.raises(UserError, match=r"no server name|no port|no user name"):
        parse([text])


def test_the_same_server_twice_is_refused() -> None:
    """Two rows of one server would overwrite each other."""
    with pytest.raises(UserError, match="named twice"):
        parse(["root@gpu-01", "root@gpu-01"])
