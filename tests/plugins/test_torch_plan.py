"""Which torch a driver, its GPUs and a Python can run."""

import pytest
from ansible.module_utils.torch_plan import choose


@pytest.mark.parametrize(
    ("python", "driver", "generations", "version", "index"),
    [
        ((3, 12), 580, ["hopper"], "2.13.0", None),
        ((3, 10), 550, ["ampere"], "2.10.0", None),
        ((3, 9), 550, ["ampere"], "2.8.0", None),
        ((3, 8), 535, ["ampere"], "2.4.1", None),
        ((3, 12), 580, ["volta"], "2.10.0", "cu126"),
        ((3, 12), 580, ["blackwell"], "2.13.0", None),
        ((3, 12), 570, ["blackwell"], "2.10.0", None),
        ((3, 11), None, [], "2.13.0", "cpu"),
    ],
)
def test_the_build_fits(python, driver, generations, version, index):
    """CUDA 13 builds need driver 580, Volta needs CUDA 12.6, old Pythons old builds."""
    got = choose(python, driver, generations)
    assert (got.version, got.index, got.reason) == (version, index, None)


@pytest.mark.parametrize(
    ("python", "driver", "generations", "words"),
    [
        ((3, 12), 470, ["ampere"], "470"),
        ((3, 12), 550, ["blackwell"], "Blackwell"),
        ((3, 7), 580, ["hopper"], "Python 3.7"),
        ((3, 8), 580, ["hopper"], "Python 3.8"),
    ],
)
def test_no_build_has_a_reason(python, driver, generations, words):
    """Nothing is installed that cannot run, and the reason names what is too old."""
    got = choose(python, driver, generations)
    assert got.version is None and words in got.reason
