"""Pytest plugin for memory tests. Where pgmo is installed, pytest imports this module at its start.

@pytest.mark.max_memory("300 MiB")       the test fails if its live bytes exceed this
def test_step(): ...

def test_step(pgmo_profile):             records a part of the test as a profile
    with pgmo_profile() as recorded:
        train_step()
    assert recorded.peak < 300 * 2**20

pytest --pgmo-save new                   saves the profiles, for `pgmo check new --against base`
pytest --pgmo-base base                  failures also name what has grown since
"""

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pgmo.integrations.pytest_plugin.recording import Recordings

_MARKER = "max_memory"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the command line and of the configuration file."""
    group = parser.getgroup("pgmo", "memory as a test")
    group.addoption(
        "--pgmo-save",
        metavar="DIR",
        help="save the profile of each test that records memory, for pgmo check --against",
    )
    group.addoption(
        "--pgmo-base",
        metavar="DIR",
        help="folder with profiles of an earlier state; a test above its limit then lists "
        "what has grown",
    )
    parser.addini("pgmo_base", "folder with profiles of an earlier state; see --pgmo-base")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{_MARKER}(size, device=None): fail the test if the live bytes that PyTorch allocates "
        'on the device exceed the size, as in max_memory("300 MiB")',
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Record a marked test. The test fails if it exceeds its limit or cannot be recorded."""
    marker = item.get_closest_marker(_MARKER)
    if marker is None:
        return (yield)
    from pgmo.integrations.pytest_plugin.limit import Limit

    with Limit.of(marker, item).kept():
        return (yield)


@pytest.fixture
def pgmo_profile(request: pytest.FixtureRequest) -> "Recordings":
    """Return a function for `with` blocks that record the memory of parts of a test.

    A call may name a part and a device: `with pgmo_profile("step", device="cpu") as recorded:`.
    After the block, `recorded.peak` is the peak of the live bytes, and `recorded.profile` is the
    `pgmo.Profile`, or None without requests.
    """
    from pgmo.integrations.pytest_plugin.recording import Recordings

    return Recordings(request.node)
