"""Rehearsals from within tests: scripts run in processes of their own, on a stub of their own."""

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
    """Rehearses a script's text; the answer has what it printed in `printed`."""
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


TELL_ALL = """
import io, json, sys, traceback
with open(sys.argv[1]) as file:
    scripts = json.load(file)
found = {}
for name, code in scripts.items():
    tell = io.StringIO()
    try:
        exec(compile(code, f"{name}.py", "exec"), {"__name__": name, "tell": tell})
    except BaseException:
        tell.write(traceback.format_exc())
    found[name] = tell.getvalue()
with open(sys.argv[2], "w") as file:
    json.dump(found, file)
"""


def tell_all(folder: Path, scripts: Mapping[str, str], **options) -> dict[str, str]:
    """Rehearse scripts one after the other in one process, as each begins by importing torch.

    Args:
        folder: for files.
        scripts: code by name. It writes to `tell`.
        options: of `rehearse`.

    Returns:
        What each script told, or its traceback.
    """
    code, given, target = folder / "all.py", folder / "given.json", folder / "told.json"
    code.write_text(TELL_ALL)
    given.write_text(json.dumps({name: textwrap.dedent(one) for name, one in scripts.items()}))
    options = {"card": CARD, "way": "default", "environment": {"HF_HUB_OFFLINE": "1"}, **options}
    card = pgmo.cards.find(options.pop("card"))
    answer = rehearse([str(code), str(given), str(target)], card=card, timeout=280, **options)
    assert answer.fits, answer.error
    told: dict[str, str] = json.loads(target.read_text())
    return told


@pytest.fixture
def told(run, tmp_path):
    """What a script writes to the file that is its first argument."""

    def asked(code: str, **options) -> str:
        target = Path(tmp_path, "told.txt")
        head = "import sys\ntell = open(sys.argv[1], 'w')\n"
        answer = run(head + textwrap.dedent(code) + "\ntell.close()\n", str(target), **options)
        assert answer.fits, answer.error
        return target.read_text()

    return asked
