"""The examples of docstrings, which `pytest --doctest-modules` runs, and the plug-in."""

from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule

pytest_plugins = ("pgmo.integrations.pytest_plugin",)
"""An environment that was made before the plug-in was does not announce it."""


PACKAGE = Path(__file__).parent / "pgmo"


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path,
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Look for examples in the package alone, so that one run has them and the tests."""
    collectors = yield
    if file_path.is_relative_to(PACKAGE):
        return collectors
    return [one for one in collectors if not isinstance(one, DoctestModule)]


@pytest.fixture(autouse=True)
def folder_of_its_own(request: pytest.FixtureRequest) -> None:
    """Some examples write files."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
