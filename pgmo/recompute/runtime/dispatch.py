"""The forward method of a model that recomputes: captured steps for each kind of call.

kind of call      shapes, types, modes: `signature`
variants of one   other attributes, other values that Python code reads of tensors
no variant fits   one more is captured
no single graph   parts of it; so are calls with too many variants, or the model runs as it is
"""

import inspect
from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.error_frames import clear_frames, clears_frames
from pgmo.errors import BudgetError, GraphError
from pgmo.recompute.capture.compat import flatten, is_capturing
from pgmo.recompute.capture.flat import Forward, distinct, signature
from pgmo.recompute.capture.joint_graph import refuse_recurrent
from pgmo.recompute.frozen.hooks import refuse_global_hooks, refuse_hooks
from pgmo.recompute.frozen.values import DiffersError
from pgmo.recompute.parts.divided import DividedCall
from pgmo.recompute.planners.shapes import Shapes
from pgmo.recompute.runtime.call import (
    CAPTURING,
    NOTHING,
    CapturedCall,
    NothingToPlanError,
    reason_of,
)
from pgmo.recompute.runtime.decide import Settings
from pgmo.recompute.runtime.pending import Pending
from pgmo.recompute.runtime.randomness import Randomness
from pgmo.user_warnings import warn_user

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Step = CapturedCall | DividedCall

VARIANTS = 8
"""Captures of one kind of call, for different attributes and values."""


class Recomputing:
    """Stands in the place of a model's forward method.

    Calls without gradients, and calls inside another capture, go to the model as it is. Each kind
    of other call (shapes, types, modes) is captured and planned when it first comes, and again
    where attributes or values that it depends on are others.

    Attributes:
        calls: by their signatures; None where there is nothing to plan.
        first: the one that was captured first; None before.
        settings: how its steps are planned.

    Args:
        module: the model.
        settings: how its steps are planned.
        is_part: it is a submodule of a model that is no single graph, and is never refused.
    """

    def __init__(self, module: nn.Module, settings: Settings, is_part: bool = False) -> None:
        self._module, self.settings = module, settings
        self._pending, self._is_part = Pending(), is_part
        self._pending.told = is_part  # it is called as often as the model likes
        self._indivisible: set[tuple[object, ...]] = set()
        self.calls: dict[tuple[object, ...], list[Step] | None] = {}
        self.first: Step | None = None
        self._told: set[str] = set()
        with suppress(TypeError, ValueError):
            self.__signature__ = inspect.signature(module.forward)

    @property
    def plain(self) -> Forward:
        """The model's own forward method."""
        return self._module.forward

    @clears_frames
    def capture(self, *arguments: Any, **keywords: Any) -> Step:
        """Captures and plans a call, unless one like it was before.

        Raises:
            GraphError: it cannot be captured.
        """
        with CAPTURING:
            for call in self._variants(arguments, keywords):
                if _objection(call) is None:
                    return call
            return self._capture(arguments, keywords)

    def _variants(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Step]:
        """The last one that ran comes first.

        Raises:
            NothingToPlanError: there is nothing to plan in such a call.
        """
        found = self.calls.get(signature(self._module, (arguments, keywords)), ())
        if found is None:
            raise NothingToPlanError(NOTHING)
        return list(found)

    def _capture(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Step:
        with CAPTURING:
            made: Step | None = None
            with suppress(NothingToPlanError):
                made = self._made((arguments, keywords))
            # PyTorch settles things when they are first used, such as the order of kernels.
            key = signature(self._module, (arguments, keywords))
            if made is None:
                self.calls[key] = None
                raise NothingToPlanError(NOTHING)
            made.release()
            self.first = self.first or made
            self.calls[key] = [made, *(self.calls.get(key) or ())]
            return made

    def _made(self, arguments: Arguments) -> Step:
        """What can be captured of a call: all of it, or parts."""
        try:
            refuse_hooks(self._module)
            refuse_recurrent(self._module)
            made = CapturedCall(self._module, self.plain, arguments, self.settings, self._pending)
            refuse_hooks(self._module)
        except NothingToPlanError:
            raise
        except GraphError as error:
            if self.settings.whole or self._is_part:
                raise
            return self._divided(arguments, error)
        return made

    def _divided(self, arguments: Arguments, error: GraphError) -> DividedCall:
        """Captures parts of what is no single graph.

        Raises:
            BudgetError: the budget cannot be met.
            GraphError: the one given, as there is nothing to be captured.
        """
        reason = reason_of(error)
        try:
            made = DividedCall(self._module, arguments, self.settings, reason, _part)
        except (BudgetError, torch.OutOfMemoryError):
            raise
        except Exception:
            raise error.with_traceback(None) from error.__cause__
        paths = made.planned.parts
        self._tell(
            f"the forward pass is no single graph: {made.reason}. {len(paths)} "
            f"{'parts of it are' if len(paths) > 1 else 'part of it is'} captured "
            f"({_list(paths)}) under one budget; all else runs as it is, and keeps what it keeps. "
            "whole=True makes this an error"
        )
        return made

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the model."""
        plain = self.plain
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or is_capturing():
            return plain(*arguments, **keywords)
        try:
            return self._recomputed(arguments, keywords)
        except BaseException as error:
            clear_frames(error)
            del arguments, keywords
            raise

    def _recomputed(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        tensors = distinct(flatten((arguments, keywords))[0])
        if not self._is_trained(tensors):
            return self.plain(*arguments, **keywords)
        refuse_global_hooks()
        try:
            return self._run(arguments, keywords, tensors)
        except NothingToPlanError:
            pass
        return self.plain(*arguments, **keywords)

    def _run(
        self, arguments: tuple[Any, ...], keywords: dict[str, Any], tensors: list[Tensor]
    ) -> Any:
        """Runs the variant that fits, or one that is captured now."""
        variants = self._variants(arguments, keywords)
        if self._is_part and not variants and len(self.calls) >= VARIANTS:
            self._tell(
                f"{type(self._module).__name__} is called with other shapes again and again: it "
                f"runs without recomputation for all but the first {VARIANTS}"
            )
            return self.plain(*arguments, **keywords)
        objection: Exception | None = None
        for call in variants:
            if isinstance(call, DividedCall):
                return call.run((arguments, keywords))
            found = _objection(call)
            if found is None:
                try:
                    result = self._attempt(call, tensors)
                except DiffersError as error:
                    found = error
            if found is not None:
                objection = objection or found
                continue
            self._to_front(call)
            return result
        if len(variants) >= VARIANTS:
            divided = self._divided_after_all((arguments, keywords), objection)
            if divided is not None:
                return divided.run((arguments, keywords))
            self._tell(
                "the model runs without recomputation from now on wherever it would have to be "
                f"captured for the {VARIANTS + 1}th time: {objection}"
            )
            return self.plain(*arguments, **keywords)
        if isinstance(objection, GraphError):
            self._tell(f"the step is captured again: {objection}")
        try:
            made = self._capture(arguments, keywords)
        except NothingToPlanError:
            raise
        except GraphError as error:
            if not self._is_part:
                raise
            self._tell(f"{type(self._module).__name__} runs without recomputation: {error}")
            return self.plain(*arguments, **keywords)
        if isinstance(made, DividedCall):
            return made.run((arguments, keywords))
        try:
            return self._attempt(made, tensors)
        except DiffersError as error:  # such as a sum that is another one each time
            self._tell(f"the model runs without recomputation this time: {error}")
            return self.plain(*arguments, **keywords)

    def _divided_after_all(
        self, arguments: Arguments, objection: Exception | None
    ) -> DividedCall | None:
        """Parts of a call that was captured for many values, and has others each time."""
        key = signature(self._module, arguments)
        if self.settings.whole or self._is_part or key in self._indivisible:
            return None
        with CAPTURING:
            try:
                made = self._divided(arguments, GraphError(str(objection)))
            except GraphError:
                self._indivisible.add(key)
                return None
            if self.first in (self.calls.get(key) or ()):
                self.first = made
            self.calls[key] = [made]
            return made

    @staticmethod
    def _attempt(call: CapturedCall, tensors: list[Tensor]) -> Any:
        """Runs a variant; where it does not fit, it has drawn no random numbers."""
        if not call.has_checks:
            return call(tensors)
        before = Randomness(call.devices)
        try:
            return call(tensors)
        except DiffersError:
            before.put_back()
            raise

    def _to_front(self, call: Step) -> None:
        for variants in self.calls.values():
            if variants and variants[0] is not call and call in variants:
                variants.remove(call)
                variants.insert(0, call)

    def _tell(self, message: str) -> None:
        if message not in self._told:
            self._told.add(message)
            warn_user(message)

    def _is_trained(self, tensors: list[Tensor]) -> bool:
        given = (*tensors, *self._module.parameters(), *self._module.buffers())
        return any(one.requires_grad for one in given)


def _part(module: nn.Module, settings: Settings) -> Recomputing:
    return Recomputing(module, replace(settings, shapes=Shapes()), is_part=True)


def _list(paths: tuple[str, ...]) -> str:
    shown = ", ".join(paths[:3])
    return f"{shown}, ..." if len(paths) > 3 else shown


def _objection(call: Step) -> Exception | None:
    """Why a variant does not fit, as far as attributes tell."""
    try:
        call.check()
    except GraphError as error:
        return error
    return None
