"""Dispatch mode that provides values after each operator, below all modes of the script."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pgmo.error_frames import clear_frames, clears_frames
from pgmo.imports import after_import
from pgmo.profiler.tagging import dynamo
from pgmo.rehearsal.values import mode_stack
from pgmo.rehearsal.values.host_libraries import HostLibraries
from pgmo.rehearsal.values.known import KnownStorages, covers, on_host, readable
from pgmo.rehearsal.values.made_up import MadeUp
from pgmo.rehearsal.values.offloading import is_packing
from pgmo.rehearsal.values.operators import on_card, operator
from pgmo.rehearsal.values.plain import keep_backward_plain, keep_linear_plain
from pgmo.rehearsal.values.printing import print_from_host
from pgmo.rehearsal.values.replay import Replay
from pgmo.rehearsal.values.sized import Sized

_COPIED = int(os.environ.get("FAKECUDA_COPY_LIMIT", 1 << 62))
"""Maximum bytes of a copy that the stub executes."""

_ZEROED = 256 << 20
"""Maximum bytes of a host copy of unknown values that is zeroed. Larger copies stay unwritten."""


class Values:
    """Provider of values on the thread of `begin`, and in Python code of backward passes."""

    def __init__(self) -> None:
        self.known = KnownStorages()
        self.made_up = MadeUp(self.known)
        self._mode: Any = None
        self._replay = Replay(self.known, self.made_up)
        self._sized = Sized(self.known, self.made_up, self._run)
        self.libraries = HostLibraries(self.known, self._run)
        aten = torch.ops.aten
        self._rules: dict[Any, Any] = {
            **self._sized.rules,
            **self.libraries.rules,
            aten._local_scalar_dense.default: self._read_one,
            aten.lift_fresh.default: self._lifted,
            aten._amp_foreach_non_finite_check_and_unscale_.default: self._unscale,
        }
        self._copies: dict[Any, Any] = {
            aten._to_copy.default: self._to_copy,
            aten.copy_.default: self._copy_,
        }

    def begin(self) -> None:
        """Enable the mode on this thread, except in backward passes and linear layers."""
        self._mode = self._made_mode()
        self._sized.begin()
        self.libraries.begin()
        mode_stack.insert(self._mode)
        print_from_host(self._filled)
        keep_linear_plain(self.without_mode)
        keep_backward_plain(self.without_mode, self.with_mode, self.made_up.repeated)

    @contextmanager
    def without_mode(self) -> Iterator[None]:
        """Disable the mode on this thread inside the block."""
        there = mode_stack.remove(self._mode)
        try:
            yield
        finally:
            if there:
                mode_stack.insert(self._mode)

    @contextmanager
    def with_mode(self) -> Iterator[None]:
        """Enable the mode on this thread inside the block."""
        if self._mode in mode_stack.stack():
            yield
            return
        mode_stack.insert(self._mode)
        try:
            yield
        finally:
            mode_stack.remove(self._mode)

    def _made_mode(self) -> Any:
        from torch._subclasses.fake_tensor import FakeTensor
        from torch._subclasses.functional_tensor import FunctionalTensor

        values, plain = self, Tensor.__torch_dispatch__

        class ValueDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
            supports_higher_order_operators = True

            @classmethod
            def ignore_compile_internals(cls) -> bool:
                return True

        def dispatch(_mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            others = [one for one in types if one.__torch_dispatch__ is not plain]
            if any(issubclass(one, (FakeTensor, FunctionalTensor)) for one in others):
                return func(*args, **(kwargs or {}))
            if others:
                return NotImplemented  # the tensor subclass unwraps and calls again
            return values.around(func, args, kwargs or {})

        # The method is set outside of the class body, because torch wraps methods of the body in a
        # call that imports TorchDynamo. The import costs seconds and 60 MiB in programs that
        # compile nothing.
        ValueDispatchMode.__torch_dispatch__ = clears_frames(dispatch)  # type: ignore[method-assign, arg-type]
        after_import("torch._dynamo.eval_frame", lambda: _hide_from_dynamo(ValueDispatchMode))
        return ValueDispatchMode()  # type: ignore[no-untyped-call]

    def around(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator and provide its values."""
        copy = self._copies.get(func)
        if copy is not None:
            return copy(func, *args, **kwargs)
        rule = self._rules.get(func)
        if rule is not None and any(True for _ in on_card((*args, *kwargs.values()))):
            return rule(func, *args, **kwargs)
        return self._run(func, args, kwargs)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        out = func(*args, **kwargs)
        if not isinstance(func, torch._ops.OpOverload):
            return out
        op = operator(func)
        if not op.is_view:
            self._replay.after(func, op, args, kwargs, out)
        return out

    # --- rules ----------------------------------------------------------------------------------

    def _read_one(self, func: Any, one: Tensor) -> Any:
        """Fill an unknown scalar that `item()`, `float()`, `if tensor:` and similar calls read."""
        if readable(one) and one not in self.known:
            self.made_up.fill(one, "item")
        return func(one)

    def _lifted(self, func: Any, one: Tensor) -> Any:
        """Mark the data of `torch.tensor` as known: PyTorch copies it with all modes disabled."""
        if one.nbytes <= _COPIED:
            self.known.add(one)
        return func(one)

    def _unscale(self, func: Any, grads: Any, found_inf: Tensor, inverse: Tensor) -> Any:
        """Leave `found_inf` unchanged, as if all gradients were finite."""
        func(grads, found_inf, inverse)
        for one in grads:
            self.known.forget(one)

    def _to_copy(self, func: Any, source: Tensor, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        leaves = source.is_cuda and device is not None and torch.device(device).type == "cpu"
        empty = leaves and not self._filled(source)
        made = func(source, **kwargs)
        self._has_copied(func, (source,), kwargs, source, made, empty=empty)
        return made

    def _copy_(self, func: Any, target: Tensor, source: Tensor, *args: Any, **kwargs: Any) -> Any:
        empty = source.is_cuda and not target.is_cuda and not self._filled(source)
        given = target, source, *args
        made = func(*given, **kwargs)
        self._has_copied(func, given, kwargs, source, target, empty=empty)
        return made

    def _filled(self, source: Tensor) -> bool:
        """Make up the source's values if they are unknown; return False if there are too many.

        Values of a tensor that is not `readable` stay as they are.
        """
        if source in self.known or not readable(source):
            return True
        if is_packing():
            return self.made_up.fill_offloaded(source)
        return self.made_up.fill(source, "copy to the host")

    def _has_copied(
        self, func: Any, args: Any, kwargs: Any, source: Tensor, target: Tensor, *, empty: bool
    ) -> None:
        offloaded = self.made_up.offloaded
        if not target.is_cuda:
            if source in offloaded:
                offloaded.add(target)
            if empty and target.nbytes <= _ZEROED:
                target.zero_()
            elif source.is_cuda and not empty and not source.is_contiguous() and readable(source):
                target.copy_(on_host(source))  # a kernel would have gathered it
            return
        if not source.is_cuda and source in offloaded:
            self.known.forget(target)
        elif not source.is_cuda and _whole_copy(source, target):
            self.known.add(target)
        else:
            self._replay.after(func, operator(func), args, kwargs, target)


def _hide_from_dynamo(mode: Any) -> None:
    """Disable Dynamo inside the mode, because it would trace the mode in compiled code."""
    from torch._C._dynamo.eval_frame import set_eval_frame

    dispatch = mode.__torch_dispatch__

    def hidden(*args: Any, **kwargs: Any) -> Any:
        callback = set_eval_frame(None)
        try:
            return dispatch(*args, **kwargs)
        except BaseException as error:
            clear_frames(error)
            del args, kwargs
            raise
        finally:
            set_eval_frame(callback)

    mode.__torch_dispatch__ = hidden
    dynamo.skip(hidden)


def _whole_copy(source: Tensor, target: Tensor) -> bool:
    """Return whether the stub has executed the copy, and the copy fills the target's storage."""
    return (
        source.dtype == target.dtype
        and target.nbytes <= _COPIED
        and source.is_contiguous()
        and target.is_contiguous()
        and covers(target)
    )
