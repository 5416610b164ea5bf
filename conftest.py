"""The examples of docstrings, which `pytest --doctest-modules pgmo` runs, and the plug-in."""

import pytest

pytest_plugins = ("pgmo.integrations.pytest_plugin",)
"""An environment that was made before the plug-in was does not announce it."""


@pytest.fixture(autouse=True)
def folder_of_its_own(request: pytest.FixtureRequest) -> None:
    """Some examples write files."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
