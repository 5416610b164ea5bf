"""Rehearsals from within tests: each script runs in a process of its own, on a stub of its own."""

import textwrap
from pathlib import Path

import pytest

import pgmo.cards
from pgmo.rehearsal import Rehearsal, rehearse

CARD = "RTX 4090"


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """What is compiled once for all of these tests."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run(cache, tmp_path, monkeypatch):
    """Rehearses a script's text; the answer has what it printed in `printed`."""
    monkeypatch.setenv("PGMO_CACHE_DIR", str(cache))
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
