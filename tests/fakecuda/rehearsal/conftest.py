"""Rehearsals of tests' scripts, each in a process with its own stub."""

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

import pgmo.cards
from pgmo.rehearsal import Rehearsal, rehearse

CARD = "RTX 4090"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that rehearses the text of a script, and returns the answer."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")

    def rehearsed(code: str, *arguments: str, card: str = CARD, **options) -> Rehearsal:
        script = tmp_path / "train.py"
        script.write_text(textwrap.dedent(code))
        return rehearse(
            [str(script), *arguments],
            card=pgmo.cards.find(card),
            timeout=280,
            **{"way": "default", **options},
        )

    return rehearsed


RUN_ALL = """
import io, json, sys, traceback
with open(sys.argv[1]) as file:
    scripts = json.load(file)
found = {}
for name, code in scripts.items():
    output = io.StringIO()
    try:
        exec(compile(code, f"{name}.py", "exec"), {"__name__": name, "output": output})
    except BaseException:
        output.write(traceback.format_exc())
    found[name] = output.getvalue()
with open(sys.argv[2], "w") as file:
    json.dump(found, file)
"""


def outputs_of(folder: Path, scripts: Mapping[str, str], **options) -> dict[str, str]:
    """Rehearse several scripts in one process, so that torch is imported only once.

    Args:
        folder: folder for files.
        scripts: code by name. Each script writes to the file `output`.
        options: options of `rehearse`.

    Returns:
        The text that each script wrote, or its traceback.
    """
    code, given, target = folder / "all.py", folder / "given.json", folder / "outputs.json"
    code.write_text(RUN_ALL)
    given.write_text(json.dumps({name: textwrap.dedent(one) for name, one in scripts.items()}))
    options = {"card": CARD, "way": "default", "environment": {"HF_HUB_OFFLINE": "1"}, **options}
    card = pgmo.cards.find(options.pop("card"))
    answer = rehearse([str(code), str(given), str(target)], card=card, timeout=280, **options)
    assert answer.fits, answer.error
    outputs: dict[str, str] = json.loads(target.read_text())
    return outputs


@pytest.fixture
def output_of(run, tmp_path):
    """Return a function that rehearses a script, and returns the text written to `output`."""

    def asked(code: str, **options) -> str:
        target = Path(tmp_path, "output.txt")
        head = "import sys\noutput = open(sys.argv[1], 'w')\n"
        answer = run(head + textwrap.dedent(code) + "\noutput.close()\n", str(target), **options)
        assert answer.fits, answer.error
        return target.read_text()

    return asked
