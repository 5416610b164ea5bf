"""One half of a captured step as data, and as a function again.

    fx.Graph    sum_1 = aten.sum.dim_IntList(mul, [0])
    program     ["aten.sum.dim_IntList", [{"n": 7}, {"l": [0]}], {}, origin]
    function    v8 = f3(v7, c2); v7 = None

Nothing in it is code: operators are names that PyTorch knows, or transfers to and from the host.
All arguments are numbers, words, and results of earlier steps.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from pgmo.profiler.tagging import origin
from pgmo.recompute.capture.compat import Runner, is_fake, mark_boxed
from pgmo.recompute.frozen.values import compare
from pgmo.recompute.kept.unfit import UnfitError
from pgmo.recompute.runtime.announce import ORIGIN
from pgmo.recompute.runtime.offload.host import Host

_FUNCTIONS: dict[str, Callable[..., Any]] = {"getitem": operator.getitem, "compare": compare}
_NAMES = {function: name for name, function in _FUNCTIONS.items()}

_TRANSFERS = ("lend", "send", "sent", "fetch", "arrived")
_HOST = "host."
"""Before the name of a method of a `Host`."""

_CONSTANT = 1 << 16
"""Bytes of the largest tensor that a program holds itself; they are made by `torch.tensor(...)`."""


@dataclass(frozen=True)
class SerializedProgram:
    """Sequence of operators that can be stored as JSON.

    Args:
        inputs: number of tensors that it is given.
        steps: each the name of a function, its arguments and keywords, and the number of an origin;
            a step's result has the number of the step plus `inputs`.
        results: what it returns, as an argument.
        origins: module and phase, of steps.
    """

    inputs: int
    steps: list[Any]
    results: Any
    origins: list[list[str]]

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "inputs": self.inputs,
            "steps": self.steps,
            "results": self.results,
            "origins": self.origins,
        }

    @classmethod
    def of_data(cls, data: Any) -> "SerializedProgram":
        """From `as_data`."""
        return cls(int(data["inputs"]), data["steps"], data["results"], data["origins"])


def written(module: fx.GraphModule) -> SerializedProgram:
    """The program of a graph module.

    Raises:
        UnfitError: it has something that is no operator, number or word.
    """
    number: dict[fx.Node, int] = {}
    places = module.graph.find_nodes(op="placeholder")
    for node in places:
        number[node] = len(number)
    steps: list[Any] = []
    origins: dict[tuple[str, str], int] = {}
    results: Any = None
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        if node.op == "output":
            results = argument(node.args[0], number)
            continue
        place = origins.setdefault(node.meta.get(ORIGIN, ("", "")), len(origins))
        if node.op == "get_attr":
            steps.append(["constant", [_constant(module, str(node.target))], {}, place])
        elif node.op == "call_function":
            keywords = {name: argument(one, number) for name, one in node.kwargs.items()}
            arguments = [argument(one, number) for one in node.args]
            steps.append([_name(node.target), arguments, keywords, place])
        else:
            raise UnfitError(f"a graph with {node.op}")
        number[node] = len(number)
    return SerializedProgram(len(places), steps, results, [list(one) for one in origins])


def _name(target: Any) -> str:
    if target in _NAMES:
        return _NAMES[target]
    if isinstance(getattr(target, "__self__", None), Host) and target.__name__ in _TRANSFERS:
        return f"{_HOST}{target.__name__}"
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    raise UnfitError(f"{target} is no operator of PyTorch's")


def _constant(module: fx.GraphModule, name: str) -> dict[str, Any]:
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    small = isinstance(value, Tensor) and value.device.type == "cpu" and not is_fake(value)
    if not small or value.numel() * value.element_size() > _CONSTANT or value.requires_grad:
        raise UnfitError("a graph that holds a tensor")
    if not value.is_contiguous() or value.is_complex():
        raise UnfitError("a graph that holds a tensor")
    values = value.double() if value.is_floating_point() else value
    return {
        "tensor": [argument(one, {}) for one in values.flatten().tolist()],
        "shape": list(value.shape),
        "type": str(value.dtype).removeprefix("torch."),
    }


def argument(one: Any, number: dict[fx.Node, int]) -> Any:
    """An argument for JSON: what is no number, word or None is a dictionary of one entry.

    Args:
        one: as it stands in a graph.
        number: of the nodes so far.

    Raises:
        UnfitError: it is something else.
    """
    if isinstance(one, fx.Node):
        return {"n": number[one]}
    if one is None or isinstance(one, (bool, str)) or type(one) is int:
        return one
    if isinstance(one, float):
        return one if math.isfinite(one) else {"f": repr(one)}
    if isinstance(one, (list, tuple)):
        return {"t" if isinstance(one, tuple) else "l": [argument(each, number) for each in one]}
    if isinstance(one, (torch.dtype, torch.layout, torch.memory_format)):
        return {"a": str(one).removeprefix("torch.")}
    if isinstance(one, torch.device):
        return {"d": str(one)}
    if isinstance(one, slice):
        return {"s": [argument(each, number) for each in (one.start, one.stop, one.step)]}
    raise UnfitError(f"an argument that is a {type(one).__name__}")


class Compiled:
    """A program as a function.

    Args:
        program: as it was read.
        host: where values wait that it sends there.

    Attributes:
        run: takes the inputs as a list, which it empties; values die with their last use.

    Raises:
        UnfitError: it names what is not there.
    """

    def __init__(self, program: SerializedProgram, host: Host) -> None:
        self._program = program
        self._functions = [_function(step, host) for step in program.steps]
        self._run = _compiled(program, self._functions)
        self.run: Runner = mark_boxed(host.guarded(self._run_once))

    def _run_once(self, given: list[Any]) -> Any:
        if origin.listening():
            return self._announced(given)
        return self._run(given)

    def _announced(self, given: list[Any]) -> Any:
        """Step by step, saying before each whose it is."""
        program = self._program
        values: dict[int, Any] = dict(enumerate(given))
        given.clear()
        frees = _last_uses(program)
        for index, (step, function) in enumerate(zip(program.steps, self._functions, strict=True)):
            arguments = [valued(one, values) for one in step[1]]
            keywords = {name: valued(one, values) for name, one in step[2].items()}
            with origin.said_of(*program.origins[step[3]]):
                values[program.inputs + index] = function(*arguments, **keywords)
            del arguments, keywords
            for dead in frees.get(index, ()):
                del values[dead]
        return valued(program.results, values)


def _function(step: Any, host: Host) -> Callable[..., Any]:
    name = step[0]
    if name.startswith(_HOST) and name.removeprefix(_HOST) in _TRANSFERS:
        transfer: Callable[..., Any] = getattr(host, name.removeprefix(_HOST))
        return transfer
    if name == "constant":
        return _made
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    parts = name.split(".")
    if len(parts) != 3 or not all(part.isidentifier() for part in parts):
        raise UnfitError(f"{name} is no operator")
    found: Any = torch.ops
    try:
        for part in parts:
            found = getattr(found, part)
    except (AttributeError, RuntimeError) as error:
        raise UnfitError(f"{name} is not there") from error
    if not isinstance(found, torch._ops.OpOverload):
        raise UnfitError(f"{name} is no operator")
    return found


def _made(constant: dict[str, Any]) -> Tensor:
    values = [valued(one, {}) for one in constant["tensor"]]
    kind = _attribute(constant["type"])
    return torch.tensor(values, dtype=kind).reshape(constant["shape"])


def valued(one: Any, values: dict[int, Any]) -> Any:
    """What an argument stands for.

    Args:
        one: of a program.
        values: the results so far, by their numbers.

    Raises:
        UnfitError: it is nothing that `argument` makes.
    """
    if not isinstance(one, dict):
        return one
    if "tensor" in one:
        return one
    ((kind, held),) = one.items()
    match kind:
        case "n":
            return values[held]
        case "f":
            return float(held)
        case "l":
            return [valued(each, values) for each in held]
        case "t":
            return tuple(valued(each, values) for each in held)
        case "a":
            return _attribute(held)
        case "d":
            return torch.device(held)
        case "s":
            return slice(*(valued(each, values) for each in held))
    raise UnfitError(f"an argument of the kind {kind}")


def _attribute(name: str) -> Any:
    found = getattr(torch, name, None)
    if not isinstance(found, (torch.dtype, torch.layout, torch.memory_format)):
        raise UnfitError(f"torch.{name} is no type or layout")
    return found


def nodes(one: Any) -> list[int]:
    """The numbers of the results that an argument reads."""
    if not isinstance(one, dict) or "tensor" in one:
        return []
    ((kind, held),) = one.items()
    if kind == "n":
        return [held]
    return [each for inner in held for each in nodes(inner)] if kind in "lt" else []


def _reads(step: Any) -> list[int]:
    return [each for one in (*step[1], *step[2].values()) for each in nodes(one)]


def _last_uses(program: SerializedProgram) -> dict[int, list[int]]:
    """What is not needed any more after each step; before the first of them, under -1."""
    last = dict.fromkeys(range(program.inputs), -1)
    for index, step in enumerate(program.steps):
        last[program.inputs + index] = index
        for one in _reads(step):
            if not 0 <= one < program.inputs + index:
                raise UnfitError(f"step {index} reads a result that is not there")
            last[one] = index
    for one in nodes(program.results):
        last[one] = len(program.steps)
    frees: dict[int, list[int]] = {}
    for one, index in last.items():
        frees.setdefault(index, []).append(one)
    return frees


def _compiled(
    program: SerializedProgram, functions: Sequence[Callable[..., Any]]
) -> Callable[..., Any]:
    """Python code of names that are numbered here, and of nothing that was read."""
    names: dict[str, Any] = {}
    known: dict[Any, str] = {}

    def named(kind: str, value: Any, key: Any) -> str:
        if key not in known:
            known[key] = f"{kind}{len(known)}"
            names[known[key]] = value
        return known[key]

    def text(one: Any) -> str:
        if one is None or isinstance(one, (bool, int)):
            return repr(one)
        if isinstance(one, dict) and "tensor" not in one:
            ((kind, held),) = one.items()
            if kind == "n":
                return f"v{int(held)}"
            if kind in "lt":
                inner = "".join(f"{text(each)}, " for each in held)
                return f"[{inner}]" if kind == "l" else f"({inner})"
        return named("c", valued(one, {}), repr(one))

    def keyword(name: str, one: Any) -> str:
        if not name.isidentifier():
            raise UnfitError(f"a keyword that is called {name}")
        return f"{name}={text(one)}"

    frees = _last_uses(program)
    lines = ["def run(given):"]
    if program.inputs:
        lines.append(f"    {''.join(f'v{one}, ' for one in range(program.inputs))}= given")
    lines.append("    given.clear()")

    def free(index: int) -> str:
        dead = frees.get(index)
        return "" if not dead else f"; {' = '.join(f'v{one}' for one in dead)} = None"

    lines.append(f"    pass{free(-1)}")
    for index, (step, function) in enumerate(zip(program.steps, functions, strict=True)):
        given = [text(one) for one in step[1]]
        given += [keyword(name, one) for name, one in step[2].items()]
        call = f"{named('f', function, (step[0],))}({', '.join(given)})"
        lines.append(f"    v{program.inputs + index} = {call}{free(index)}")
    lines.append(f"    return {text(program.results)}")
    exec(compile("\n".join(lines), "<pgmo: a kept step>", "exec"), names)
    run: Callable[..., Any] = names["run"]
    return run
