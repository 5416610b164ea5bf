"""Answers about the simulated loop of `loops`, whose rehearsals need no process."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pgmo.cards import Card, find
from pgmo.fit import ask, largest, two_values
from pgmo.fit.answer import Answer
from pgmo.fit.ask import Question
from pgmo.fit.evidence import Evidence, Job
from pgmo.fit.next_plan import choice
from pgmo.fit.what_if import alternatives
from pgmo.rehearsal import library
from pgmo.rehearsal.library import TorchBuild
from tests.unit.fit.loops import evidence, job


def rehearse_loop(
    _: Job, card: Card, *, value: int = 4, way: Any = "default", **__: Any
) -> Evidence:
    """Return the evidence of the loop, which no change alters."""
    return evidence(value, way=way, usable=card.usable)


def pretend(
    monkeypatch: pytest.MonkeyPatch, rehearse: Callable[..., Evidence] = rehearse_loop
) -> list[Evidence]:
    """Replace rehearsals by a function, and return a list of the evidence of those made."""
    made: list[Evidence] = []

    def collect(job: Job, card: Card, **options: Any) -> Evidence:
        found = rehearse(job, card, **options)
        made.append(replace(found, change=options.get("change")))
        return made[-1]

    for module in (alternatives, ask, choice, largest, two_values):
        monkeypatch.setattr(module, "collect", collect)
    build = TorchBuild("python", Path("torch"), "2.11.0+cu130")
    for name in ("pgmo.fit.ask", "pgmo.fit.call", library.__name__):
        monkeypatch.setattr(f"{name}.find_torch_build", lambda _: build)
    return made


def answer(
    monkeypatch: pytest.MonkeyPatch,
    usable: int = 1 << 30,
    rehearse: Callable[..., Evidence] = rehearse_loop,
    **question: Any,
) -> Answer:
    """Return the answer about the simulated loop on a card of `usable` bytes."""
    pretend(monkeypatch, rehearse)
    card = replace(find("L4"), name="small <L4>", memory=usable, usable=usable)
    return ask.ask(job(), card, Question(**question))
