"""Detects where a training loop begins, where its optimizers step, and where it evaluates.

    Optimizer.__init__      parameters will be trained
    first forward pass      of a module in training mode, with gradients: the loop begins
    Optimizer.step          possible end of an iteration (see step_pattern)
    GradScaler.step         possible end of an iteration, if it skips the optimizer's step
    DeepSpeed's engine      its step is a possible end; steps of its optimizers do not count
    model.eval()            evaluation: a pause, until the model is trained again

Forward passes have a hook only while the watcher waits for a forward pass. Compilers never see this
hook (`pgmo.profiler.tagging.dynamo`). While the watcher waits, a call of compiled code counts as a
forward pass. A compiled step of an optimizer is detected by the parameters that it has changed.

Several threads may train at once. Calls of the listener are serialised. Each thread has a step
pattern for its optimizers.
"""

import sys
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pgmo.allocator.session.threads.boundary import exclusive
from pgmo.imports import after_import
from pgmo.profiler.tagging import dynamo
from pgmo.runner.compiled_calls import CompiledCalls
from pgmo.runner.forward_hook import add_forward_hook
from pgmo.runner.step_pattern import StepPattern
from pgmo.serving.interception import intercepted

if TYPE_CHECKING:
    from pgmo.runner.supervision import Supervision


class _Thread(threading.local):
    """State of one thread."""

    def __init__(self) -> None:
        self.pattern = StepPattern()  # steps of the optimizers that this thread stepped first
        self.steps = 0
        self.switching = False  # inside Module.train, which calls itself for each child
        self.of_engine = False  # inside a step of DeepSpeed, which steps other optimizers


class Watcher:
    """Hooks in torch, attached once and kept until the process ends.

    Args:
        listener: its methods are called when training begins, with the devices ("cpu", "cuda:0",
            "mps:0", ...), when an iteration ends, and when an evaluation begins or ends.
    """

    def __init__(self, listener: "Supervision") -> None:
        self._listener = listener
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._patterns: weakref.WeakKeyDictionary[Any, StepPattern] = weakref.WeakKeyDictionary()
        self._thread = _Thread()
        self._attached = self._began = False
        self._waiting = False  # for a forward pass of a training loop
        self._forward_hook: Any = None
        self._compiled = CompiledCalls()
        self._evaluated: Any = None  # model whose evaluation caused the pause
        self._watches_modes = True

    def attach(self) -> None:
        """Start to watch; `torch.optim.optimizer` must be imported."""
        from torch.optim.optimizer import Optimizer

        hooked = Optimizer.profile_hook_step

        def outside_of_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
            return intercepted(hooked(step), self._on_step)

        # Torch wraps the `step` of each class in this function, which calls step hooks. Inside a
        # step hook, a session could not add or remove hooks, as it does between iterations.
        Optimizer.profile_hook_step = staticmethod(outside_of_hooks)  # type: ignore[assignment]
        _wrap(Optimizer, "__init__", self._on_optimizer_init)
        after_import("deepspeed.runtime.engine", self._attach_to_deepspeed)
        dynamo.register(self)

    def _attach_to_deepspeed(self) -> None:
        """Watch the step of DeepSpeed's engine, in which the engine steps its optimizers."""
        engine = sys.modules["deepspeed.runtime.engine"].DeepSpeedEngine
        if hasattr(engine, "_take_model_step"):
            _wrap(engine, "_take_model_step", self._engine_step)

    # --- the beginning --------------------------------------------------------------------------

    def _on_optimizer_init(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        with exclusive():
            self._optimizers.add(args[0])
            if not self._attached:
                # Do this no earlier, because torch is incomplete while torch.optim is imported.
                self._attached = True
                from torch import nn
                from torch.amp.grad_scaler import GradScaler

                _wrap(GradScaler, "step", self._scaled_step)
                _wrap(nn.Module, "train", self._switched)
                self._await_training()

    def _await_training(self) -> None:
        self._waiting = True
        self._hook()

    def _hook(self) -> None:
        """Add the forward hook if it is needed; remove it if not."""
        if self._waiting and not self._compiled.threads and self._forward_hook is None:
            self._forward_hook = add_forward_hook(self._forward)
        elif self._forward_hook is not None and (self._compiled.threads or not self._waiting):
            self._forward_hook.remove()
            self._forward_hook = None

    def _forward(self, module: Any, _args: object) -> None:
        del _args  # otherwise the traceback of an error would keep them alive
        if self._trains(module):
            self._forward_pass(module)

    def _trains(self, module: Any) -> bool:
        """Return whether a call of the module (None if unknown) belongs to a training loop."""
        import torch

        if module is None and self._evaluated is not None:
            module = self._evaluated()
        return torch.is_grad_enabled() and (module is None or module.training)

    def _forward_pass(self, module: Any = None) -> None:
        with exclusive():
            self._end_wait()
            if not self._began:
                self._begin(module)

    def _end_wait(self) -> None:
        self._waiting = False
        self._hook()
        if self._evaluated is not None:
            self._evaluated = None
            self._listener.resume()

    def _begin(self, module: Any = None) -> None:
        self._began = True
        parameters = [one for optimizer in self._optimizers for one in _parameters(optimizer)]
        if not parameters and module is not None:
            parameters = list(module.parameters())  # DeepSpeed's optimizers may have no parameters
        devices = {str(one.device).replace("cpu:0", "cpu") for one in parameters}
        self._listener.begin(sorted(devices))

    # --- compiled code --------------------------------------------------------------------------

    def suspend(self) -> None:
        """Handle the start of a compiled call; see `dynamo.Observer`."""
        if self._waiting and self._trains(None):
            self._forward_pass()
        with exclusive():
            self._compiled.enter(self._optimizers)
            self._hook()

    def resume(self) -> None:
        """Handle the end of a compiled call; see `dynamo.Observer`."""
        with exclusive():
            stepped = self._compiled.leave()
            self._hook()
        for optimizer in stepped:
            self._stepped(optimizer)

    def compiling(self) -> None:
        """Do nothing; see `dynamo.Observer`."""

    # --- iterations -----------------------------------------------------------------------------

    def _on_step(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        self._compiled.seen(args[0])
        self._stepped(args[0])
        return result

    def _engine_step(
        self, original: Callable[..., Any], engine: Any, *args: Any, **kwargs: Any
    ) -> Any:
        self._thread.of_engine = True
        try:
            result = original(engine, *args, **kwargs)
        finally:
            self._thread.of_engine = False
        with exclusive():  # no step pattern must wait for the engine's optimizers
            for name in ("optimizer", "basic_optimizer"):
                if (inner := getattr(engine, name, None)) is not None:
                    self._optimizers.discard(inner)
        self._stepped(engine)
        return result

    def _stepped(self, optimizer: Any) -> None:
        self._thread.steps += 1
        if self._thread.of_engine:
            return
        with exclusive():
            self._count(optimizer)

    def _count(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)  # copied or unpickled optimizers were never constructed
        pattern = self._patterns.setdefault(optimizer, self._thread.pattern)
        existing = {
            id(one) for one in self._optimizers if self._patterns.get(one, pattern) is pattern
        }
        ends = pattern.ends_iteration(id(optimizer), existing)
        if self._evaluated is not None and self._evaluated() is not None:
            # The program has switched the model's parts one by one, or trains it in evaluation
            # mode.
            self._watches_modes = self._evaluated().training
        self._end_wait()
        if not self._began:
            self._begin()  # the session begins with the next iteration
        elif ends:
            self._listener.end_iteration()

    def _scaled_step(
        self, original: Callable[..., Any], scaler: Any, optimizer: Any, *args: Any, **kwargs: Any
    ) -> Any:
        before = self._thread.steps
        result = original(scaler, optimizer, *args, **kwargs)
        if self._thread.steps == before:  # gradients were not finite, so the step was skipped
            self._stepped(optimizer)
        return result

    # --- evaluation -----------------------------------------------------------------------------

    def _switched(
        self, original: Callable[..., Any], module: Any, *args: Any, **kwargs: Any
    ) -> Any:
        if self._thread.switching:
            return original(module, *args, **kwargs)
        self._thread.switching = True
        try:
            result = original(module, *args, **kwargs)
        finally:
            self._thread.switching = False
        with exclusive():
            self._has_switched(module)
        return result

    def _has_switched(self, module: Any) -> None:
        if self._began and self._watches_modes:
            if module.training:
                if self._evaluated is not None and self._evaluated() is module:
                    self._end_wait()
            elif self._evaluated is None and self._is_trained(module):
                self._evaluated = weakref.ref(module)
                self._listener.pause()
                self._await_training()

    def _is_trained(self, module: Any) -> bool:
        """Return whether a module is a trained model, not a part that stays in eval mode."""
        own = {id(parameter) for parameter in module.parameters()}
        return any(
            own.issuperset(id(parameter) for parameter in _parameters(optimizer))
            for optimizer in self._optimizers
        )


def _parameters(optimizer: Any) -> list[Any]:
    groups = getattr(optimizer, "param_groups", ())
    return [parameter for group in groups for parameter in group["params"]]


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    setattr(owner, name, intercepted(getattr(owner, name), around))
