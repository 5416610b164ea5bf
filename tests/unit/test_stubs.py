import shutil

import pytest

from tests.stubs import STUB, generate


@pytest.mark.skipif(not shutil.which("ruff"), reason="ruff is not on the path")
def test_stub_of_the_native_module_is_current():
    assert STUB.read_text() == generate(), "the native module has changed: run `make stubs`"
