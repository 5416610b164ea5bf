"""An answer with all its parts, from rehearsals that return the history of a simulated loop."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgmo.cards import Card, find
from pgmo.fit import ask, largest
from pgmo.fit.answer import Answer
from pgmo.fit.ask import Question
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.what_if import alternatives
from pgmo.rehearsal.library import TorchBuild
from tests.unit.fit.loops import evidence, job


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace rehearsals by the simulated loop of `loops`, which no change alters."""

    def collect(
        _: Job,
        card: Card,
        *,
        value: int = 4,
        way: Any = "default",
        change: str | None = None,
        work: bool = True,
    ) -> Evidence:
        return evidence(value, way=way, usable=card.usable, change=change)

    for module in (alternatives, ask, largest):
        monkeypatch.setattr(module, "collect", collect)
    build = TorchBuild("python", Path("torch"), "2.11.0+cu130")
    monkeypatch.setattr(ask, "find_torch_build", lambda _: build)


def answer(monkeypatch: pytest.MonkeyPatch, usable: int = 1 << 30, **question: Any) -> Answer:
    """Return the answer about the simulated loop on a card of `usable` bytes."""
    pretend(monkeypatch)
    card = replace(find("L4"), name="small <L4>", memory=usable, usable=usable)
    return ask.ask(job(), card, Question(**question))
