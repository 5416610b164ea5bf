"""`pgmo.wrap`, which makes each call of a model an iteration, for inference and servers."""

import inspect
import sys
import weakref
from collections.abc import Iterable
from typing import Any, TypeVar, Unpack

from pgmo.allocator.optimize import CommonFields
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import Session
from pgmo.allocator.session.threads.boundary import when_free
from pgmo.errors import OptionError
from pgmo.locks import new_lock
from pgmo.removed import check_options
from pgmo.serving import interception
from pgmo.serving.devices import Devices
from pgmo.serving.service import Leave, Service
from pgmo.user_warnings import warn_user

T = TypeVar("T")

_TRAINING = (
    "pgmo: a wrapped model is called in training mode with gradients. pgmo does not plan calls in "
    "training, because their activations live until the backward pass: put pgmo.optimize() "
    "around the training loop, or call model.eval() and use torch.inference_mode()"
)


class WrapFields(CommonFields, total=False):
    """Options of `wrap`, for type checkers."""

    plan: Any


_lock = new_lock()
_services: dict[str, Service] = {}
"""Services by device. At least one wrapped object uses each service."""


class _Calls:
    """Calls of one wrapped object, without a reference to the object."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.devices = Devices(options.get("device"))
        self.services: dict[str, Service] = {}
        self.ended = self._warned = False

    def __call__(self, method: Any, called: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the method. In inference, the call is an iteration on each device that serves it."""
        if self.ended or not self._is_inference(called):
            return method(called, *args, **kwargs)
        leaves: list[Leave] = []
        for device in self.devices.of(called):
            service = self.services.get(device) or self._join(device)
            leave = service.enter()
            if leave is not None:
                leaves.append(leave)
        complete = False
        try:
            result = method(called, *args, **kwargs)
            complete = True
        finally:
            for leave in leaves:
                leave(complete)
        return result

    def end(self) -> None:
        """End the wrapping, and close the sessions that no other object uses."""
        self.ended = True
        with _lock:
            for service in self.services.values():
                service.users.discard(self)
            unused = [one for one in self.services.values() if not one.users]
            for service in unused:
                _services.pop(service.device, None)
        for service in unused:
            service.close()

    def _is_inference(self, called: Any) -> bool:
        torch: Any = sys.modules.get("torch")
        if torch is None or not (torch.is_grad_enabled() and getattr(called, "training", False)):
            return True
        if not self._warned:
            self._warned = True
            warn_user(_TRAINING)
        return False

    def _join(self, device: str) -> Service:
        with _lock:
            service = _services.setdefault(device, Service(device, self.options))
            if not self.ended:
                service.users.add(self)
            self.services[device] = service
        if self.options and service.options != self.options:
            warn_user(
                f"pgmo: the session on {device} has the options of another wrapped model; the "
                "options of this model are ignored"
            )
        return service


def wrap(model: T, methods: str | Iterable[str] = "__call__", **options: Unpack[WrapFields]) -> T:
    """Make each call of a model an iteration, for inference. Each structure of calls gets a plan.

    Only the object's class is replaced, by a subclass. `isinstance`, `state_dict`, hooks, `.to()`,
    `.eval()`, `generate()`, saving and pickling work as before, and copies are not wrapped. Nested
    calls are part of the outer call. Any thread may call the model. One call at a time is planned
    and served. A simultaneous call uses the framework's allocator, or pages, without waiting.

    Calls in training mode with gradients bypass pgmo: use `pgmo.optimize` for training. Inside
    another session of the program, a call is a part of that session's iterations.

    Args:
        model: a module, or a callable object with modules, such as a pipeline of diffusers.
        methods: names of the methods whose calls are iterations. By default the call of the object
            itself, so each forward pass within `generate()` is an iteration.
        options: options of `pgmo.optimize`, for the sessions that the first call opens on the
            model's devices. Models on one device share a session, which has the options of the
            first model.

    Returns:
        The same object.

    Raises:
        OptionError: if an option is invalid, a method is missing, the model is a function, a class
            or not callable, the model is wrapped already, or its class cannot be changed.

    Example:
        >>> model = pgmo.wrap(model.eval())  # doctest: +SKIP
        >>> with torch.inference_mode():  # doctest: +SKIP
        ...     answer = model(question)
        >>> print(pgmo.session_of(model).summary())  # doctest: +SKIP
    """
    check_options(options, ["methods", *WrapFields.__annotations__], "pgmo.wrap()")
    Options(**options)
    if interception.interceptor_of(model) is not None:
        raise OptionError("this object is wrapped already; call pgmo.unwrap() first")
    if inspect.isroutine(model) or isinstance(model, type) or not callable(model):
        raise OptionError(
            f"{model!r} is not an object whose calls can be wrapped; for functions, use "
            "@pgmo.optimize()"
        )
    names = [methods] if isinstance(methods, str) else list(methods)
    calls = _Calls(dict(options))
    interception.intercept_calls(model, names, calls)
    finalizer = weakref.finalize(model, when_free, calls.end)
    finalizer.atexit = False  # at exit nothing is closed, because the driver may be gone
    return model


def unwrap(model: T) -> T:
    """Restore the class of a wrapped object; do nothing for other objects.

    The session is closed if no other wrapped object uses it. Tensors stay valid, and running calls
    continue.

    Args:
        model: object that `wrap` has wrapped, or any other.

    Returns:
        The same object.

    Example:
        >>> unwrap("never wrapped")
        'never wrapped'
    """
    calls = interception.interceptor_of(model)
    interception.restore_class(model)
    if isinstance(calls, _Calls):
        calls.end()
    return model


def session_of(model: object) -> Session | None:
    """Return the session around a wrapped object's calls on the object's first device, or None.

    Use the session for the summary, the history, the plan and pauses. The result is None before the
    first call, and for objects that are not wrapped.

    Args:
        model: object that `wrap` has wrapped, or any other.

    Example:
        >>> session_of("never wrapped")
    """
    calls = interception.interceptor_of(model)
    services = list(calls.services.values()) if isinstance(calls, _Calls) else []
    return services[0].session if services else None
