"""A stretch of a program that runs on a fake card, and what was seen of it."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any, Self

import torch

from pgmo.cards import Card
from pgmo.errors import AdapterError
from pgmo.fit.estimate.calls import CardFunctionMode, own_attention
from pgmo.fit.estimate.card_calls import pretended
from pgmo.fit.estimate.device_guard import ensure_guard
from pgmo.fit.estimate.fake_card import FakeCard
from pgmo.fit.estimate.kernels.table import Kernels
from pgmo.fit.estimate.ledger import Ledger
from pgmo.fit.estimate.modules import adapted, registered
from pgmo.profiler.tagging.tags import Tagger
from pgmo.profiler.trace import Trace

_COMPILED = (
    "torch.compile was left out: an estimate is of operators one by one, and compiled code mostly "
    "takes less; a rehearsal compiles"
)

_RECURRENT = (
    "recurrent networks are estimated as without cuDNN, which takes much less in training: "
    "rehearse for a figure"
)


class FakeRun:
    """A context in which this thread's CUDA tensors are fake, and every block is noted.

    Args:
        card: that the program finds.

    Attributes:
        ledger: the blocks.
        assumed: what the program read from the card, in words, with how often.

    Raises:
        AdapterError: on entering, when this torch is a CUDA build, which can be rehearsed.

    Example:
        >>> from pgmo.cards import find
        >>> with FakeRun(find("A100-40GB")) as run:
        ...     x = torch.ones(512, device="cuda") + 1
        >>> run.trace().requests
        2
    """

    def __init__(self, card: Card) -> None:
        self.card = card
        self.ledger = Ledger()
        self._mode = FakeCard(self.ledger, Kernels(self.ledger, card))
        self._tagger = Tagger(self._tag)
        self._undo = ExitStack()

    @property
    def assumed(self) -> dict[str, int]:
        """What was read from the card, in words, with how often."""
        return self._mode.assumed

    def __enter__(self) -> Self:
        if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
            raise AdapterError(
                f"torch {torch.__version__} is a CUDA build, whose own allocator tells more than "
                "an estimate: use `pgmo rehearse` or pgmo.rehearsal.rehearse()"
            )
        ensure_guard()
        with ExitStack() as undo:
            # On threads of autograd's own, which it has for cards, the modes would be missing.
            undo.enter_context(torch.autograd.set_multithreading_enabled(False))
            undo.callback(torch._C._set_only_lift_cpu_tensors, torch._C._only_lift_cpu_tensors())
            torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device="cuda") copies
            undo.enter_context(pretended(self.card, self.ledger))
            undo.enter_context(adapted(self._mode.fake, self.ledger))
            undo.enter_context(registered())
            undo.enter_context(own_attention(self.card.capability))
            undo.enter_context(_compilation_noted(self._mode.assumed))
            undo.enter_context(_recurrence_noted(self._mode.assumed))
            undo.enter_context(self._tagger)
            undo.enter_context(self._mode)
            undo.enter_context(CardFunctionMode(self._mode, self.card.capability))
            self._undo = undo.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._undo.close()

    def trace(self) -> Trace:
        """All that was noted, with who asked for each block."""
        return self.ledger.trace(self._tagger.tags)

    def _tag(self, number: int) -> None:
        """Keeps the last origin: it is taken back before an operator's blocks are noted."""
        if number >= 0:
            self.ledger.tag = number


@contextmanager
def _compilation_noted(assumed: dict[str, int]) -> Iterator[None]:
    """In the block it is noted that something is to be compiled, which the modes keep from it."""
    original = torch.compile

    @wraps(original)
    def compile_(*args: Any, **kwargs: Any) -> Any:
        assumed[_COMPILED] = 1
        return original(*args, **kwargs)

    torch.compile = compile_
    try:
        yield
    finally:
        torch.compile = original


@contextmanager
def _recurrence_noted(assumed: dict[str, int]) -> Iterator[None]:
    """In the block it is noted that a recurrent network runs, whose kernels have no rules."""
    kind: Any = torch.nn.RNNBase
    original = kind.check_input

    @wraps(original)
    def check_input(self: Any, given: Any, *args: Any) -> None:
        if given.is_cuda:
            assumed[_RECURRENT] = 1
        original(self, given, *args)

    kind.check_input = check_input
    try:
        yield
    finally:
        kind.check_input = original
