"""Traces one of several blocks that are alike, and lets operators stand for the others.

    looked at   layers.0 runs            the others are compared with it: inputs, values read
    traced      operators stand for all  the last one runs, as its derivative comes first
    expanded    the last one's nodes for each of them

A block that is not like the others is traced by itself. Where the graph does not bear out that they
are alike, the step is traced as it is.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn

from pgmo.recompute.capture.compat import Spec, flatten, traced_graph, unflatten, without_tracing
from pgmo.recompute.capture.repeated import stand_in
from pgmo.recompute.capture.repeated.alike import (
    LEAST,
    add_reads,
    given,
    groups,
    owned,
    reads_alike,
)
from pgmo.recompute.capture.repeated.expand import expand
from pgmo.recompute.capture.repeated.template import Look, NotAlikeError, Template
from pgmo.recompute.frozen.modes import modes
from pgmo.recompute.frozen.reads import Read, Reads

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(slots=True)
class _Kind:
    """Blocks of one group that were called alike."""

    look: object
    reads: list[tuple[str, Read]]
    spec: Spec
    leaves: list[Any]  # of the results
    tensor_places: list[int]  # where tensors stand among them
    results: tuple[Look, ...]
    members: list[nn.Module]
    template: Template = field(default_factory=Template)


class RepeatedBlocks:
    """The repeated blocks of a model, for the time that its call is captured.

    Args:
        model: whose blocks.
        is_plain: whether something that is no tensor may be given to a block, or returned.

    Attributes:
        differ: whether it turned out while the step was traced that blocks are not alike.
    """

    def __init__(self, model: nn.Module, is_plain: Callable[[object], bool]) -> None:
        self.differ = False
        self._is_plain = is_plain
        self._groups: dict[int, int] = {}
        self._paths: dict[int, str] = {}
        self._blocks: list[nn.Module] = []
        for number, group in enumerate(groups(model)):
            for path, block in group:
                self._groups[id(block)], self._paths[id(block)] = number, path
                self._blocks.append(block)
        self._kinds: list[tuple[int, _Kind]] = []
        self._called: dict[int, _Kind | None] = {}
        self._reads: Reads | None = None

    def __bool__(self) -> bool:
        return bool(self._blocks) and not self.differ

    def expand(self, joint: fx.GraphModule) -> fx.GraphModule:
        """Writes what operators stand for into a traced graph.

        Raises:
            NotAlikeError: the blocks are not alike.
        """
        with self._noting_difference(), without_tracing():
            expand(joint)
        return joint

    @contextmanager
    def _noting_difference(self) -> Iterator[None]:
        try:
            yield
        except NotAlikeError:
            self.differ = True
            raise

    @contextmanager
    def standing_in(self, reads: Reads) -> Iterator[None]:
        """Inside, a forward pass that is traced, or looked at before, runs few of the blocks."""
        if not self:
            yield
            return
        traced = traced_graph() is not None
        if not traced:
            self._kinds.clear()
        self._called, self._reads = {}, reads
        try:
            for block in self._blocks:
                vars(block)["forward"] = self._instead_of(block, block.forward, traced)
            yield
            if traced:
                self._note_reads(reads)
        finally:
            for block in self._blocks:
                vars(block).pop("forward", None)
            self._reads = None

    def _instead_of(
        self, block: nn.Module, run: Callable[..., Any], traced: bool
    ) -> Callable[..., Any]:
        call = self._trace if traced else self._look_at

        def forward(*arguments: Any, **keywords: Any) -> Any:
            with self._noting_difference():
                return call(block, run, (arguments, keywords))

        return forward

    def _look_at(self, block: nn.Module, run: Callable[..., Any], arguments: Arguments) -> Any:
        group = self._groups[id(block)]
        if id(block) in self._called:
            self._kinds[:] = [one for one in self._kinds if one[0] != group]
            self._groups[id(block)] = -1 - group  # called again: traced by itself
            group = self._groups[id(block)]
        look = self._look(block, arguments)
        if group < 0 or look is None:
            return run(*arguments[0], **arguments[1])
        for number, kind in self._kinds:
            if (number, kind.look) == (group, look) and reads_alike(
                kind.members[0], kind.reads, block
            ):
                kind.members.append(block)
                self._called[id(block)] = kind
                return self._stand_in(kind, block, arguments)
        result = run(*arguments[0], **arguments[1])
        self._called[id(block)] = None
        leaves, spec = flatten(result)
        tensors = [one for one in leaves if isinstance(one, Tensor)]
        others = [None if isinstance(one, Tensor) else one for one in leaves]
        if all(map(self._is_plain, others)) and _are_results(
            tensors, self._given(block, arguments)
        ):
            assert self._reads is not None
            results = tuple(Look.of(one) for one in tensors)
            read = owned(self._reads, block)
            places = [place for place, one in enumerate(leaves) if isinstance(one, Tensor)]
            kind = _Kind(look, read, spec, others, places, results, [block])
            self._kinds.append((group, kind))
        return result

    def _trace(self, block: nn.Module, run: Callable[..., Any], arguments: Arguments) -> Any:
        kind = self._kind_of(block)
        if kind is None:
            return run(*arguments[0], **arguments[1])
        if id(block) in self._called:
            raise NotAlikeError(f"{self._paths[id(block)]} is called twice")
        self._called[id(block)] = kind
        if self._look(block, arguments) != kind.look:
            raise NotAlikeError(f"{self._paths[id(block)]} is called in another way")
        if block is not kind.members[-1]:
            return self._stand_in(kind, block, arguments)
        found: list[Any] = []

        def traced() -> list[Tensor]:
            found.append(run(*arguments[0], **arguments[1]))
            return [one for one in flatten(found[0])[0] if isinstance(one, Tensor)]

        kind.template.trace(self._paths[id(block)], self._given(block, arguments), traced)
        leaves, _ = flatten(found[0])
        looks = tuple(Look.of(one) for one in leaves if isinstance(one, Tensor))
        if looks != kind.results:
            raise NotAlikeError(f"{self._paths[id(block)]} returns something else")
        return found[0]

    def _kind_of(self, block: nn.Module) -> _Kind | None:
        for _, kind in self._kinds:
            if any(one is block for one in kind.members):
                return kind if len(kind.members) >= LEAST else None
        return None

    def _stand_in(self, kind: _Kind, block: nn.Module, arguments: Arguments) -> Any:
        one = stand_in.StandIn(kind.template, self._paths[id(block)], kind.results)
        results = iter(stand_in.call(one, self._given(block, arguments)))
        leaves = list(kind.leaves)
        for place in kind.tensor_places:
            leaves[place] = next(results)
        return unflatten(leaves, kind.spec)

    def _given(self, block: nn.Module, arguments: Arguments) -> list[Tensor]:
        leaves = [one for one in flatten(arguments)[0] if isinstance(one, Tensor)]
        return [*{id(one): one for one in leaves}.values(), *given(block)]

    def _look(self, block: nn.Module, arguments: Arguments) -> object:
        """Equal for calls of blocks that are alike; None if none can be like it."""
        leaves, spec = flatten(arguments)
        if not all(isinstance(one, Tensor) or self._is_plain(one) for one in leaves):
            return None
        numbers: dict[int, int] = {}
        rows: list[object] = [str(spec), torch.is_grad_enabled(), modes()]
        for one in leaves:
            if isinstance(one, Tensor):
                rows.append((numbers.setdefault(id(one), len(numbers)), Look.of(one)))
            else:
                rows.append((type(one), repr(one)))
        rows += [Look.of(one) for one in given(block)]
        if not any(isinstance(one, Look) and one.requires_grad for one in rows):
            return None
        return tuple(rows)

    def _note_reads(self, reads: Reads) -> None:
        """What was read of the block that ran counts for the others, too."""
        for _, kind in self._kinds:
            if len(kind.members) < LEAST:
                continue
            first = owned(reads, kind.members[-1])
            for block in kind.members[:-1]:
                add_reads(reads, first, block)


def _are_results(tensors: list[Tensor], given: list[Tensor]) -> bool:
    """Whether a block returns tensors of its own, at least one of which can be differentiated."""
    names = {id(one) for one in given}
    distinct = len({id(one) for one in tensors}) == len(tensors)
    own = distinct and not any(id(one) in names for one in tensors)
    return own and any(one.requires_grad for one in tensors)
