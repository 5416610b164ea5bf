import pytest

from pgmo.allocator.compile import find_compiler
from pgmo.errors import AdapterError
from tests.unit.allocator.plugin.machine import Libraries, PluginFramework


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    try:
        find_compiler("a test")
    except AdapterError:
        pytest.skip("needs a C++20 compiler")
    return Libraries(tmp_path_factory.mktemp("plugin"))


@pytest.fixture
def machine(libraries):
    machine = libraries.device()
    yield machine
    assert machine.violations() == ""
    assert libraries.cuda.fake_contexts() == 0  # the thread's device is what it was


@pytest.fixture
def framework(machine):
    return PluginFramework(machine)
