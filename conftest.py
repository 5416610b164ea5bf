"""Collection of the examples in docstrings, for `pytest --doctest-modules`, and the plug-in."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

pytest_plugins = ("pgmo.integrations.pytest_plugin",)
"""pgmo's plug-in, for environments that were installed before it had an entry point."""


PACKAGE = Path(__file__).parent / "pgmo"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Collect examples only from the package, so that one run can have examples and tests."""
    collectors = yield
    if file_path.is_relative_to(PACKAGE):
        return collectors
    return [one for one in collectors if not isinstance(one, DoctestModule)]


@pytest.fixture(autouse=True)
def folder_of_its_own(request: pytest.FixtureRequest) -> None:
    """Run each example in a temporary folder, because some examples write files."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
