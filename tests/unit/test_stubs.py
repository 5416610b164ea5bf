import importlib.util

import pytest

from tests.stubs import STUB, generate


@pytest.mark.skipif(not importlib.util.find_spec("pybind11_stubgen"), reason="needs pgmo[dev]")
def test_stub_of_the_native_module_is_current():
    assert STUB.read_text() == generate(), "the native module has changed: run `make stubs`"
