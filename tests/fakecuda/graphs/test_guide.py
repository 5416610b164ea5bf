"""The programs of the guide on graphs and pools end with the sentences that it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documentation.examples import skipped_code
from tests.fakecuda.programs import ROOT

PAGE = (ROOT / "docs/guides/graphs_and_pools.md").read_text()
COMMAND = re.compile(
    r"^    \$ (?P<settings>(\w+=\w+ )*)pgmo run (?P<script>\S+)\n    (?P<end>.*)$", re.MULTILINE
)


@pytest.mark.parametrize("number", [0, 1])
def test_a_program_of_the_guide(tmp_path: Path, number: int) -> None:
    shown = list(COMMAND.finditer(PAGE))[number]
    (tmp_path / shown["script"]).write_text(list(skipped_code(PAGE))[number])
    settings = dict(one.split("=") for one in shown["settings"].split())
    environment = os.environ | settings | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "pgmo", "run", shown["script"]]
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert shown["end"] in ended.stderr
