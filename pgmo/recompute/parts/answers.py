"""What is called in the place of submodules, while their model runs in one thread.

    model.forward      Python code as it is
      self.block(x)    answer(block, x): a captured part, or the block as it is

Other threads, and whoever calls a submodule when the model does not run, find the module's own.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from pgmo.error_frames import clears_frames
from pgmo.locks import new_lock

Answer = Callable[[nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called with a submodule, its own forward method, and the arguments of the call."""

_MISSING = object()


class Answers:
    """Forward methods of submodules that ask somebody else.

    Args:
        modules: whose forward methods; those of TorchScript stay.
        answer: is asked.

    Example:
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> answers = Answers([model[1]], lambda module, forward, given, keywords: "asked")
        >>> with answers.answering():
        ...     model(torch.ones(2))
        'asked'
    """

    def __init__(self, modules: Sequence[nn.Module], answer: Answer) -> None:
        scripted = torch.jit.ScriptModule
        self._modules = [one for one in modules if not isinstance(one, scripted)]
        self._answer, self._ours = answer, threading.local()
        self._lock, self._count = new_lock(), 0
        self._before: dict[nn.Module, object] = {}
        self._asking: dict[nn.Module, Callable[..., Any]] = {}

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Inside, this thread's calls of the modules are answered."""
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._put()
        depth = getattr(self._ours, "depth", 0)
        self._ours.depth = depth + 1
        try:
            yield
        finally:
            self._ours.depth = depth
            with self._lock:
                self._count -= 1
                if self._count == 0:
                    self._put_back(self._before)

    @contextmanager
    def away(self, module: nn.Module) -> Iterator[None]:
        """Inside, a module and all that is in it are as without answers."""
        gone = [one for one in module.modules() if one in self._before]
        self._put_back(gone)
        try:
            yield
        finally:
            for one in gone:
                vars(one)["forward"] = self._asking[one]

    def _put(self) -> None:
        self._before = {one: vars(one).get("forward", _MISSING) for one in self._modules}
        self._asking = {one: self._asking_method(one, one.forward) for one in self._modules}
        for one, asking in self._asking.items():
            vars(one)["forward"] = asking

    def _put_back(self, modules: Any) -> None:
        for one in modules:
            if self._before[one] is _MISSING:
                vars(one).pop("forward", None)
            else:
                vars(one)["forward"] = self._before[one]

    def _asking_method(self, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        @clears_frames
        def asking(*arguments: Any, **keywords: Any) -> Any:
            if not getattr(self._ours, "depth", 0):
                return forward(*arguments, **keywords)
            return self._answer(module, forward, arguments, keywords)

        return asking
