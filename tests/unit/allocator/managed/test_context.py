"""`pgmo.managed` without a device. Tests with a device are in tests/fakecuda."""

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
