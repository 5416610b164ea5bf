"""A stretch of a program that runs on a fake card, and what was seen of it."""

from contextlib import ExitStack
from typing import Any, Self

import torch

from pgmo.cards.card import Card
from pgmo.fit.estimate.calls import Calls
from pgmo.fit.estimate.card_calls import pretended
from pgmo.fit.estimate.device_guard import ensure_guard
from pgmo.fit.estimate.fake_card import FakeCard
from pgmo.fit.estimate.kernels.table import Kernels
from pgmo.fit.estimate.ledger import Ledger
from pgmo.fit.estimate.modules import adapted, registered
from pgmo.profiler.tagging.tags import Tagger


class FakeRun:
    def __init__(self, card: Card) -> None:
        self.card = card
        self.ledger = Ledger()
        self.kernels = Kernels(self.ledger, card)
        self.mode = FakeCard(self.ledger, self.kernels)
        self.tagger = Tagger(self._tag)
        self._undo = ExitStack()

    def _tag(self, number: int) -> None:
        if number >= 0:
            self.ledger.tag = number

    def __enter__(self) -> Self:
        ensure_guard()
        with ExitStack() as undo:
            undo.enter_context(torch.autograd.set_multithreading_enabled(False))
            undo.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
            torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") copies
            undo.enter_context(pretended(self.card, self.ledger))
            undo.enter_context(adapted(self.mode.fake, self.ledger))
            undo.enter_context(registered())
            undo.enter_context(self.tagger)
            undo.enter_context(self.mode)
            undo.enter_context(Calls(self.mode, self.card.capability))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._undo.close()
