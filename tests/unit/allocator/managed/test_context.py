"""`pgmo.managed` where nothing is opened; with a device: tests/fakecuda."""

import pytest

import pgmo
from pgmo.errors import OptionError


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": "cpu"}, "unified memory is for CUDA devices"),
        ({"device": "mps"}, "device='mps' is not supported"),
        ({"framework": "cupy"}, r"was removed; use CuPy's own: cupy\.cuda\.set_allocator"),
    ],
)
def test_options_that_cannot_be_used(options, message):
    with pytest.raises(OptionError, match=message):
        pgmo.managed(**options).__enter__()


def test_a_session_over_cupy_has_cupys_unified_memory():
    with pytest.raises(OptionError, match=r"cupy\.cuda\.malloc_managed"):
        pgmo.optimize(framework="cupy", memory="managed")
