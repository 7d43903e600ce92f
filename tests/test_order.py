"""Orders: the three forms say the same, and every contradiction is a sentence a person can act on."""

import pytest

from auditor import order
from auditor.errors import UserError
from auditor.order import Nics, Order

FULL = Order(gpus=8, gpu="A100-SXM4-80GB", interconnect="nvswitch", bare_metal=True)


def test_the_short_form_reads_like_a_shop_window():
    """Words after the model may stand in any order."""
    for text in (
        "8x A100-SXM4-80GB nvswitch bare-metal",
        "8 x A100-SXM4-80GB bare_metal nvswitch",
        "8× A100-SXM4-80GB nvswitch baremetal",
    ):
        assert order.parse(text, "here") == FULL


def test_a_model_of_several_words_stays_whole():
    """Marketing names have blanks."""
    assert order.parse("1x RTX PRO 6000 vm", "here") == Order(gpus=1, gpu="RTX PRO 6000", bare_metal=False)


def test_the_mapping_form_is_the_inventory_form():
    """audit_order of an inventory, nested NICs included."""
    got = order.parse(
        {"gpu": "H200", "gpus": 1, "nics": {"count": 8, "gbps": 400}, "price_per_hour": 3.5, "currency": "USD"}, "x"
    )
    assert got.nics == Nics(8, 400) and got.price_per_hour == 3.5


def test_a_file_gives_defaults_and_servers(tmp_path):
    """A server's own order wins over the default; both forms may stand in the file."""
    path = tmp_path / "ORDER.yml"
    path.write_text("default: 8x H200 nvswitch\nservers:\n  odd: {gpu: H200, gpus: 4}\n")
    orders = order.load(str(path))
    assert orders.for_server("odd") == Order(gpus=4, gpu="H200")
    assert orders.for_server("else") == Order(gpus=8, gpu="H200", interconnect="nvswitch")


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        ({"gpu": "H200", "gpus": 1, "colour": "red"}, "colour"),
        ({"gpu": "H200", "gpus": "8"}, "gpus"),
        ({"gpu": "H200"}, "`gpus` is missing."),
        ({"gpus": 1, "gpu": "H200", "nics": {}}, "`count` is missing - at `$.nics`"),
        ({"gpus": 8}, "gpu"),
        ({"gpus": 0, "gpu": "H200"}, "contradict"),
        ({"gpus": -1}, "-1"),
        ({"gpus": 1, "gpu": "H200", "interconnect": "nvswitch"}, "2 GPUs"),
        ({"gpus": 1, "gpu": "H200", "interconnect": "rope"}, "rope"),
        ({"gpus": 1, "gpu": "H200", "price_per_hour": 1}, "currency"),
        ({"gpus": 1, "gpu": "H200", "ram_gb": -2}, "ram_gb"),
        ({"gpus": 8, "gpu": "A100-SXM4-80GB", "memory_gb": 40}, "80GB and memory_gb: 40 contradict each other"),
        ("H200 please", "COUNT x MODEL"),
        ("8x A100 nvswitch pcie", "two interconnects"),
        ("8x A100 vm bare-metal", "both"),
        ({"gpus": 1, "gpu": "H200", "nics": {"count": -1}}, "nics"),
        ({"gpus": 1, "gpu": "H200", "memory_gb": float("inf")}, "memory_gb"),
        ([1], "audit_order"),
        (None, "audit_order"),
    ],
)
def test_a_wrong_order_names_the_server_and_the_word(raw, word):
    """The sentence holds where it stands and what is wrong."""
    with pytest.raises(UserError) as caught:
        order.parse(raw, "host gpu-01")
    assert "gpu-01" in str(caught.value) and word in str(caught.value)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a: [", "YAML"),
        ("x: 2026-13-45", "YAML"),
        ("default: " + "[" * 5000, ""),
        ("default: 1x H200\ndefault: 8x H200", "twice"),
        ("- 1", "default"),
        ("colour: 1", "colour"),
        ("servers: [1]", "servers"),
    ],
)
def test_a_wrong_file_names_itself(tmp_path, text, word):
    """An order file that is none is refused with its path."""
    path = tmp_path / "ORDER.yml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        order.load(str(path))
    assert str(path) in str(caught.value) and word in str(caught.value)


def test_a_file_that_is_not_there_shows_the_short_form(tmp_path):
    """The person learns both ways to give an order."""
    with pytest.raises(UserError, match="8x A100"):
        order.load(str(tmp_path / "absent.yml"))


@pytest.mark.parametrize("text", ["8 H200", "many GPUs", "H200", "H200 " * 100])
def test_a_text_that_is_neither_order_nor_file_is_told_the_short_form(text):
    """Nobody who wrote an order reads about a file that does not exist."""
    with pytest.raises(UserError) as caught:
        order.load(text)
    assert f'--order: "{text}" is no order. Write COUNT x MODEL' in str(caught.value)
    assert "Errno" not in str(caught.value)


def test_a_folder_or_foreign_bytes_for_an_order_are_a_sentence(tmp_path):
    """The reason is in words, without numbers of the system."""
    (tmp_path / "x.yml").write_bytes(b"\xff\xfe\x00")
    for path, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "x.yml", "not UTF-8"),
        (tmp_path / "y", "No such file"),
    ):
        with pytest.raises(UserError) as caught:
            order.load(str(path))
        assert f"({why}" in str(caught.value) or f"(it is {why}" in str(caught.value)


def test_an_empty_order_is_no_missing_order():
    """A script whose variable is unset must not audit against nothing in silence."""
    with pytest.raises(UserError, match="empty"):
        order.load(" ")


def test_an_order_in_words():
    """Every key that was given, as it is written; what was not given is not said."""
    got = order.parse({"gpu": "H200", "gpus": 8, "nics": {"count": 8, "gbps": 400}, "bare_metal": False}, "x")
    assert order.shown(got) == "8 x H200; bare_metal: false; nics: count 8, gbps 400.0"
    assert order.shown(order.parse({"gpus": 0}, "x")) == "gpus: 0"
