"""A step of a model in parts on disk: what was decided, and the captured steps of the parts.

What lies between the parts runs as it is in each process. Which submodules are parts was found for
that code, so what it has read of Python is compared before anything is used, as for a single graph.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Protocol

from torch import nn

from pgmo.errors import GraphError
from pgmo.recompute.frozen.guard import Guard
from pgmo.recompute.kept import store
from pgmo.recompute.kept.call import BROKEN, Arguments
from pgmo.recompute.kept.plan_data import plan_data
from pgmo.recompute.kept.reads import described, restored
from pgmo.recompute.kept.surroundings import check_files, files, key
from pgmo.recompute.kept.unfit import UnfitError
from pgmo.recompute.parts.decided import Decided, Decision
from pgmo.recompute.runtime.decide import PlannedStep, Settings


class Part(Protocol):
    """What runs in the place of a submodule's forward method.

    Attributes:
        calls: that were captured, by their signatures.
        steps: what is written of its steps once they have settled, by their keys.
        codes: the code that they were captured of.
        is_settled: whether all of its steps have, or cannot be kept.
    """

    calls: dict[tuple[object, ...], Any]
    steps: dict[str, Any]
    codes: set[CodeType]

    @property
    def is_settled(self) -> bool: ...  # noqa: D102

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Calls the submodule."""


@dataclass(frozen=True, eq=False)
class MadePart:
    """A part that runs.

    Args:
        path: of its module.
        flags: which of its results have a gradient; None for all.
        planner: gives what was decided for it.
        run: is called in the place of the module.
    """

    path: str
    flags: tuple[bool, ...] | None
    planner: Decided
    run: Part

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "path": self.path,
            "flags": self.flags,
            "structure": self.planner.structure,
            "decision": self.planner.decision.as_data(),
            "steps": self.run.steps,
        }


def planner_of(data: Any) -> Decided:
    """What was decided for a part, of `MadePart.as_data`."""
    return Decided(data["structure"], Decision.of_data(data["decision"]))


def look_between(guard: Guard, model: nn.Module) -> list[Any] | str:
    """What code between the parts has read, as data; or why another process could not find it."""
    try:
        return described(guard, model)
    except (UnfitError, GraphError) as error:
        return str(error)


def write(
    model: nn.Module,
    arguments: Arguments,
    settings: Settings,
    planned: PlannedStep,
    calls: dict[tuple[str, int], MadePart],
    reads: list[Any] | str,
    more: dict[str, Any],
    codes: Iterable[CodeType],
) -> str | None:
    """Keeps a step; why not, if it cannot be.

    Args:
        model: the whole one.
        arguments: positional and keyword arguments of the call.
        settings: how it was planned.
        planned: what was decided.
        calls: of parts, by path and number of the call.
        reads: see `look_between`.
        more: entries beside these.
        codes: that ran between the parts.
    """
    if isinstance(reads, str):
        return reads
    made = list(dict.fromkeys(calls.values()))
    ran = {*codes, *(code for one in made for code in one.run.codes)}
    try:
        data = {
            **more,
            "reads": reads,
            "files": files(model, ran),
            "parts": [one.as_data() for one in made],
            "calls": [[*place, made.index(one)] for place, one in calls.items()],
            "plan": json.dumps(plan_data(planned), separators=(",", ":")),
        }
        name = _key(model, arguments, settings)
    except BROKEN as error:
        return str(error)
    store.write(name, data)
    return None


def read(model: nn.Module, arguments: Arguments, settings: Settings) -> Any:
    """What was kept of such a call, as data, if everything is as it was; else None."""
    try:
        data = store.read(_key(model, arguments, settings))
        if data is not None:
            check_files(data["files"])
            restored(data["reads"], model)
    except BROKEN:
        return None
    return data


def _key(model: nn.Module, arguments: Arguments, settings: Settings) -> str:
    return key(model, arguments, ("parts", *settings.identity()))
