"""The run folder: written whole, read strictly, named by the inventory alone."""

import pytest

from auditor import runs
from auditor.errors import UserError
from auditor.order import Order


def write_run(folder):
    """A small run of two servers, one of which never started."""
    runs.write(
        folder / "run.json", runs.RunInfo("20261201T031500Z", "provider_a", "quick", "0.1.0", "2026-12-01T03:15:00Z")
    )
    runs.write(folder / "orders.json", {"gpu-01": Order(gpus=1, gpu="H200"), "gpu-02": None})
    runs.write(folder / "servers/gpu-01/state.json", runs.State("done"))
    return folder


def test_what_was_written_is_read(tmp_path):
    """Orders and states come back; a server without a state was never started and still has a row."""
    run = runs.open_run(write_run(tmp_path))
    assert run.orders["gpu-01"] == Order(gpus=1, gpu="H200") and run.orders["gpu-02"] is None
    assert run.states["gpu-01"].phase == "done"
    assert (run.states["gpu-02"].phase, run.states["gpu-02"].reason) == ("reach", "never_started")


def test_nothing_half_written_stays(tmp_path):
    """The temporary file is renamed, not left."""
    write_run(tmp_path)
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.parametrize("name", ["", "../x", "-oProxyCommand=x", "a;b", "a\nb", "x" * 64, "гпу", ".hidden"])
def test_C07_a_name_that_could_be_something_else_is_refused(name):
    """Names of servers become folders and rows, so their form is narrow."""
    with pytest.raises(UserError, match="audit_label"):
        runs.check_name(name)


def test_a_folder_that_is_no_run_says_so(tmp_path):
    """The sentence names the file and what a run folder is."""
    with pytest.raises(UserError, match="run folder"):
        runs.open_run(tmp_path)


def test_a_damaged_run_names_the_file(tmp_path):
    """A file that was edited into nonsense is refused by name."""
    for orders in ('{"gpu-01": {"gpus": "x"}}', '{"gpu-01": {"gpus": -5, "gpu": "H200"}}'):
        (write_run(tmp_path) / "orders.json").write_text(orders)
        with pytest.raises(UserError, match="orders.json"):
            runs.open_run(tmp_path)


def test_a_name_smuggled_into_a_run_is_refused(tmp_path):
    """A run folder from elsewhere cannot name a path outside itself."""
    (write_run(tmp_path) / "orders.json").write_text('{"../../x": null}')
    with pytest.raises(UserError, match="refused"):
        runs.open_run(tmp_path)
