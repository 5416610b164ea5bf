"""Settings of Dynamo under which a captured graph gives the same bits as the plain model.

Libraries behave differently during a compilation: transformers, for example, omits masks, so
attention uses another kernel.
"""

import functools
import itertools
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import CodeType, FunctionType, MethodType
from typing import Any
from unittest.mock import patch

import torch
import torch._dynamo as dynamo
from torch import nn
from torch._C._dynamo.eval_frame import reset_code
from torch._dynamo import guards, trace_rules
from torch._dynamo.convert_frame import register_bytecode_hook
from torch._dynamo.utils import counters, get_compilation_metrics
from torch._dynamo.variables import torch as functions
from torch._guards import TracingContext
from torch.fx import _symbolic_trace as symbolic_trace

from pgmo.recompute.capture.eager import with_grouped_products
from pgmo.recompute.capture.quiet import SharedChange, hide_warnings
from pgmo.recompute.compiled.dynamo.changing import changing_numbers_break_graphs

_UNLIMITED = 1 << 20  # Dynamo's limits would count the graphs of all models of a class.

_CONFIG: dict[str, Any] = {
    "recompile_limit": _UNLIMITED,
    "accumulated_recompile_limit": _UNLIMITED,
    "fail_on_recompile_limit_hit": True,
    "allow_rnn": True,  # With False, Dynamo skips functions that call recurrent layers.
    "assume_static_by_default": True,
    "automatic_dynamic_shapes": False,
    "skip_nnmodule_hook_guards": False,
    "optimize_ddp": False,  # True would split graphs at gradient buckets.
    "run_gc_after_compile": False,
    "trace_numpy": False,  # With True, PyTorch would draw NumPy's random numbers.
}

_COMPILATION_CHECKS = (
    "torch._dynamo.external_utils.is_compiling",
    "torch._utils.is_compiling",
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch.compiler.is_exporting",
    "torch.cuda.is_current_stream_capturing",
    "torch.xpu.is_current_stream_capturing",
)
"""Functions with which libraries check for a compilation or a capture. Captures see False."""

_COLLECTORS = "transformers.utils.output_capturing"
"""Module whose context variable collects hidden states. Dynamo cannot set context variables, so
transformers uses a global variable in a compilation, with the same results."""


class _Scope(threading.local):
    """Nesting depth of `as_plain_model` on a thread, and the code captured in it."""

    def __init__(self) -> None:
        self.depth = 0
        self.codes: set[CodeType] = set()


_scope = _Scope()


def is_within() -> bool:
    """Return whether this thread runs a recomputing model."""
    return _scope.depth > 0


def _patch_tracing(stack: ExitStack) -> None:
    """Patch Dynamo; compilation checks change only on threads within `as_plain_model`."""
    constants = functions.tracing_state_functions
    checks = dict.fromkeys(_existing_checks(), False)

    def changed() -> dict[Callable[[], Any], bool | None]:
        return {**constants(), **checks} if _scope.depth else {**checks, **constants()}

    kind = functions.TorchInGraphFunctionVariable
    handlers, rules = kind._get_handlers(), trace_rules.get_torch_obj_rule_map()
    handler = handlers[torch.compiler.is_compiling]
    stack.enter_context(patch.object(functions, "tracing_state_functions", changed))
    stack.enter_context(patch.dict(handlers, dict.fromkeys(checks, handler)))
    stack.enter_context(patch.dict(rules, dict.fromkeys(checks, kind)))
    stack.enter_context(with_grouped_products())
    stack.enter_context(changing_numbers_break_graphs())
    stack.enter_context(patch.object(torch._logging, "hide_warnings", hide_warnings))
    stack.enter_context(patch.object(guards, "profile_guard_manager", _no_latency))
    stack.callback(register_bytecode_hook(_note_code).remove)
    for layer, forward in (*_uncaptured_layers(), *_capturable_containers()):
        stack.enter_context(patch.object(layer, "forward", forward))
    collector = getattr(sys.modules.get(_COLLECTORS), "CompileableContextVar", None)
    if collector is not None:
        stack.enter_context(patch.object(collector, "set", _set_global))


@functools.cache
def _uncaptured_layers() -> tuple[tuple[type[nn.Module], Callable[..., Any]], ...]:
    """Return recurrent layers, each with a forward method that runs between graphs.

    A capture would decompose these layers, and their dropout would draw other numbers.
    """
    kinds = (nn.RNN, nn.LSTM, nn.GRU)
    disable: Any = dynamo.disable
    return tuple((one, disable(one.forward)) for one in kinds)


@functools.cache
def _capturable_containers() -> tuple[tuple[type[nn.Module], Callable[..., Any]], ...]:
    """Return PyTorch's containers, each with a forward method in which a graph can begin.

    Dynamo begins no graph in PyTorch's files. So it would skip a container whose caller it cannot
    capture, such as a loop with a graph break.
    """
    kinds = (
        *(nn.Sequential, nn.MultiheadAttention, nn.Transformer),
        *(nn.TransformerEncoder, nn.TransformerEncoderLayer),
        *(nn.TransformerDecoder, nn.TransformerDecoderLayer),
    )
    return tuple((one, _in_this_file(one.forward)) for one in kinds)


def _in_this_file(forward: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(forward)
    def run(*arguments: Any, **keywords: Any) -> Any:
        return forward(*arguments, **keywords)

    return run


def _options() -> dict[str, Any]:
    """Return Dynamo's settings.

    Methods that libraries add to `logging.Logger`, such as `warning_once`, do nothing in a graph.
    A plain forward pass before the first capture logs the messages of these methods.
    """
    once = {method for name, method in vars(logging.Logger).items() if name.endswith("_once")}
    ignored = dynamo.config.ignore_logging_functions | once
    return {**_CONFIG, "ignore_logging_functions": ignored}


def _configure(stack: ExitStack) -> None:
    stack.enter_context(dynamo.config.patch(**_options()))


_patched, _configured = SharedChange(_patch_tracing), SharedChange(_configure)


def _set_global(variable: Any, value: object) -> None:
    variable.global_var, variable.compiling = value, True


def _no_latency(*_arguments: object) -> float:
    """Return 0 for the duration of guards, which Dynamo measures only for its log."""
    return 0.0


def _note_code(code: CodeType, new_code: CodeType) -> None:
    if _scope.depth:
        _scope.codes.add(code)


@contextmanager
def as_plain_model(codes: set[CodeType]) -> Iterator[None]:
    """Run a block in which captured code cannot detect the capture; add this code to `codes`."""
    own = dynamo.config.patch(**_options()) if _has_settings_by_thread() else _configured
    with _patched, own:
        before, _scope.codes = _scope.codes, codes
        _scope.depth += 1
        try:
            yield
        finally:
            _scope.depth -= 1
            _scope.codes = before


def capture_anew(codes: set[CodeType], error: BaseException | None) -> None:
    """Discard Dynamo's graphs of `codes`, so that Dynamo captures this code again; clear `codes`.

    Dynamo would skip code whose capture failed. The frames of `error` name that code.
    """
    trace = None if error is None else error.__traceback__
    while trace is not None:
        failed = getattr(trace.tb_frame.f_locals.get("frame"), "f_code", None)
        if isinstance(failed, CodeType):
            codes.add(failed)
        trace = trace.tb_next
    for code in codes:
        reset_code(code)
    codes.clear()


def compiled(function: Callable[..., Any], backend: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled by Dynamo, even while another thread traces with fx."""
    with patch.object(symbolic_trace, "is_fx_symbolic_tracing", lambda: False):
        return torch.compile(_with_own_code(function), backend=backend, dynamic=False)


def _with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method with a code object that other models of its class do not share.

    Dynamo stores captured graphs, and which code to skip, by code object.
    """
    method = getattr(function, "__func__", function)
    if not isinstance(method, FunctionType):
        return function
    code = method.__code__
    code = code.replace(co_consts=(*code.co_consts, f"pgmo {next(_numbers)}"))
    made = FunctionType(
        code, method.__globals__, method.__name__, method.__defaults__, method.__closure__
    )
    made.__kwdefaults__, made.__qualname__ = method.__kwdefaults__, method.__qualname__
    vars(made).update(vars(method))
    return made if method is function else MethodType(made, getattr(function, "__self__", None))


_numbers = itertools.count()  # Constants that make code objects differ.


def frames_that_failed() -> int:
    """Return the number of functions that Dynamo has failed to capture so far."""
    frames = counters["frames"]
    return frames["total"] - frames["ok"]


def reason_of_capture() -> str:
    """Return the guard whose failure caused Dynamo's latest recompilation, else "unknown"."""
    for one in reversed(get_compilation_metrics()):
        if one.recompile_reason:
            return one.recompile_reason.partition(": ")[2].partition("#")[0].strip()
    return "unknown"


@dynamo.assume_constant_result  # type: ignore[untyped-decorator]
def is_traced() -> bool:
    """Return whether Dynamo traces the calling function, for pgmo or another user of Dynamo."""
    return torch.compiler.is_compiling() or TracingContext.try_get() is not None


@functools.cache
def _has_settings_by_thread() -> bool:
    """Return whether Dynamo's settings are per thread, as from PyTorch 2.12 on."""
    found: list[int] = []
    with dynamo.config.patch(recompile_limit=_UNLIMITED + 1):
        thread = threading.Thread(target=lambda: found.append(dynamo.config.recompile_limit))
        thread.start()
        thread.join()
    return found != [_UNLIMITED + 1]


def _existing_checks() -> list[Callable[[], Any]]:
    found = []
    for path in _COMPILATION_CHECKS:
        holder: Any = torch
        for name in path.split(".")[1:]:
            holder = getattr(holder, name, None)
        if holder is not None:
            found.append(holder)
    return found
