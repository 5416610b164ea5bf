"""Changes of a job whose bytes are computed: another optimizer, adapters, more ranks.

Each change turns the curves of a job into the curves of the changed job:

          forward    backward   optimizer step
    STATE ----------------------------------------   bytes that the optimizer keeps
    TEMPORARY                   ####                 bytes that only the optimizer's step uses
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.fit.categories import GRADIENT, NAMES, PARAMETER, STATE
from pgmo.fit.laws.load import Load

Curves = NDArray[np.int64]
"""Bytes by category after each request, then two more rows; shape (categories + 2, ticks)."""

TEMPORARY, STEPPING = len(NAMES), len(NAMES) + 1
"""Rows after the categories: the optimizer's temporary bytes; 1 during its steps, else 0."""

RANK = 8
"""Rank of the adapters in the LoRA alternatives."""

RANKS = (2, 4, 8)
"""Numbers of cards over which a job is sharded."""

_QUANTISED_BLOCK, _NF4_BLOCK, _LEAST_QUANTISED = 256, 64, 4096
"""Constants of bitsandbytes 0.45 (Dettmers and others, 2022), in elements: the block sizes of 8-bit
states and of 4-bit weights, and the smallest state that is kept in 8 bits."""


@dataclass(frozen=True)
class Model:
    """Parameters of a job.

    Args:
        shapes: shape of each parameter, bytes per element, whether it is trained, and whether it
            is the weight of a linear layer.
        block: bytes of the largest module in a list of modules; of the whole model if it has no
            list.
        outside: bytes of the parameters that are in no list of modules.
    """

    shapes: Sequence[Sequence[Any]]
    block: int
    outside: int

    @classmethod
    def of(cls, known: dict[str, Any]) -> "Model":
        """Return the model of the observer's record, made by `pgmo.fit.observer.census`."""
        shapes = known.get("shapes", [])
        whole = sum(math.prod(shape) * size for shape, size, *_ in shapes)
        blocks = known.get("blocks") or [whole]
        return cls(shapes, int(blocks[0]), known.get("outside", 0))

    @property
    def trained(self) -> list[tuple[list[int], int]]:
        """Shapes and bytes per element of the trained parameters."""
        return [(shape, size) for shape, size, trained, _ in self.shapes if trained]

    @property
    def bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(math.prod(shape) * size for shape, size, *_ in self.shapes)

    @property
    def largest(self) -> int:
        """Elements of the largest trained parameter."""
        return max((math.prod(shape) for shape, _ in self.trained), default=0)

    @property
    def linear(self) -> list[tuple[list[int], int]]:
        """Shapes and bytes per element of the weights of linear layers."""
        return [(shape, size) for shape, size, _, linear in self.shapes if linear]


OfShape = Callable[[list[int]], int]
OfModel = Callable[[Model], int]


def curves_of(load: Load) -> Curves:
    """Return a load's curves; activations and workspaces of optimizer steps are temporary."""
    found = np.zeros((len(NAMES) + 2, load.profile.ticks), np.int64)
    found[: len(NAMES)] = load.curves
    for begin, end in load.stepping():
        found[STEPPING, begin:end] = 1
        born = (load.profile.start >= begin) & (load.profile.end <= end)
        inside = born & ~np.isin(load.category, (PARAMETER, GRADIENT, STATE))
        for row in np.flatnonzero(inside):
            alive = slice(load.profile.start[row], load.profile.end[row])
            found[load.category[row], alive] -= load.profile.size[row]
            found[TEMPORARY, alive] += load.profile.size[row]
    return found


def with_optimizer(
    curves: Curves, model: Model, state_bytes: OfShape, temporary_bytes: OfModel
) -> Curves:
    """Return the curves with another optimizer, given its state per shape and temporary bytes."""
    changed = _scaled(curves, STATE, sum(state_bytes(shape) for shape, _ in model.trained))
    changed[TEMPORARY] = temporary_bytes(model) * curves[STEPPING]
    return changed


def adam_bytes(shape: list[int]) -> int:
    """Return the bytes of Adam's two moments in float32."""
    return 8 * math.prod(shape)


def adafactor_bytes(shape: list[int]) -> int:
    """Return the bytes of row and column sums, or of a vector's second moment, in float32.

    Source: Shazeer and Stern, 2018.
    """
    if len(shape) < 2:
        return 4 * math.prod(shape)
    return 4 * (math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1])


def adam_8bit_bytes(shape: list[int]) -> int:
    """Return the bytes of two moments in 8 bits with scales; small moments stay in float32."""
    count = math.prod(shape)
    if count < _LEAST_QUANTISED:
        return adam_bytes(shape)
    return 2 * (count + 4 * math.ceil(count / _QUANTISED_BLOCK))


def adam_temporary_bytes(model: Model) -> int:
    """Return the bytes of the roots of all second moments, which PyTorch computes together."""
    return 4 * sum(math.prod(shape) for shape, _ in model.trained)


def adafactor_temporary_bytes(model: Model) -> int:
    """Return the bytes of the largest update: Adafactor updates parameters one after another."""
    return 4 * model.largest


def with_adapters(curves: Curves, model: Model, bits: int | None = None) -> Curves:
    """Return the curves with LoRA, trained with Adam; `bits` quantises the weights, if given."""
    adapters = sum(RANK * (shape[0] + shape[1]) for shape, _ in model.linear if len(shape) == 2)
    frozen = model.bytes
    if bits is not None:
        frozen -= sum(math.prod(shape) * size for shape, size in model.linear)
        frozen += sum(quantised_bytes(shape, bits) for shape, _ in model.linear)
    changed = _scaled(curves, GRADIENT, 4 * adapters)
    changed = _scaled(changed, STATE, 8 * adapters)
    changed[TEMPORARY] = 4 * adapters * curves[STEPPING]
    return _scaled(changed, PARAMETER, frozen + 4 * adapters, model.bytes)


def quantised_bytes(shape: list[int], bits: int) -> int:
    """Return the bytes of a weight in 8 bits (a scale per row) or 4 bits (a scale per block)."""
    count = math.prod(shape)
    if bits == 8:
        return count + 4 * shape[0]
    return count // 2 + 4 * math.ceil(count / _NF4_BLOCK)


def with_offloaded_states(curves: Curves, model: Model) -> Curves:
    """Return the curves with Adam's states on the host, except the states of one parameter."""
    changed = curves.copy()
    changed[STATE] = 0
    changed[TEMPORARY] = (8 + 4) * model.largest * curves[STEPPING]
    return changed


def sharded(curves: Curves, model: Model, ranks: int) -> Curves:
    """Return the curves of one rank of a fully sharded job.

    Each rank keeps an equal part. The parameters of two blocks are whole: one block is used while
    the next block is gathered. The gradients of one block are whole until they are reduced.
    Parameters outside of blocks are whole during forward and backward passes.
    """
    changed = curves.copy()
    for category in (PARAMETER, GRADIENT, STATE, TEMPORARY):
        changed[category] = -(-curves[category] // ranks)
    computing = curves[STEPPING] == 0
    changed[PARAMETER] += (2 * model.block + model.outside) * computing
    whole = (curves[GRADIENT] > 0) & computing
    # Gradients outside of blocks are whole until the end of the backward pass.
    changed[GRADIENT] += (model.block + model.outside - model.outside // ranks) * whole
    return changed


def peak(curves: Curves) -> int:
    """Return the peak of the live bytes."""
    return int(curves[:STEPPING].sum(axis=0).max(initial=0))


def _scaled(curves: Curves, category: int, to: int, whole: int | None = None) -> Curves:
    """Return the curves with a category scaled by `to / whole`; `whole` defaults to its maximum."""
    changed = curves.copy()
    most = int(curves[category].max(initial=0)) if whole is None else whole
    if most:
        changed[category] = np.ceil(curves[category] * (to / most)).astype(np.int64)
    return changed


@dataclass(frozen=True)
class Computed:
    """Change whose bytes are computed.

    Attributes:
        name: name in the table.
        apply: returns the changed curves for the curves and the model.
        how: basis of the figure, and what the figure leaves out.
        time: effect on the time, in words; "" if unknown.
        rank: distance from the unchanged script. The fitting change of the lowest rank is
            recommended.
        limits: returns a caveat for a model, in words; "" for none.
    """

    name: str
    apply: Callable[[Curves, Model], Curves]
    how: str
    time: str = ""
    rank: int = 1
    limits: Callable[[Model], str] = lambda _: ""

    def explain(self, model: Model) -> str:
        """Return `how`, with the caveat for this model."""
        limits = self.limits(model)
        return f"{self.how}; {limits}" if limits else self.how


_LORA = (
    f"computed: adapters of rank {RANK} on all linear layers, trained with Adam; activations "
    "unchanged"
)
_QUANTISED = f"{_LORA}; converted copies of quantised weights are not counted"


def _few_adapters(model: Model) -> str:
    """Return the caveat of LoRA if linear layers hold less than half of the elements, else ""."""
    elements = sum(math.prod(shape) for shape, _ in model.linear)
    if 2 * elements >= sum(math.prod(shape) for shape, *_ in model.shapes):
        return ""
    return "an upper bound: layers before the first adapter keep nothing for the backward pass"


_SHARD_HOW = (
    "computed: equal shares of parameters, gradients and states, plus two whole blocks, the "
    "gradients of one block, and all parameters outside of blocks"
)

_OPTIMIZERS: tuple[tuple[str, OfShape, OfModel, int], ...] = (
    ("SGD without momentum", lambda _: 0, lambda _: 0, 4),
    ("SGD with momentum", lambda shape: 4 * math.prod(shape), lambda _: 0, 4),
    ("Adam", adam_bytes, adam_temporary_bytes, 4),
    ("8-bit Adam", adam_8bit_bytes, lambda _: 0, 3),
    ("Adafactor", adafactor_bytes, adafactor_temporary_bytes, 4),
)
"""Name, bytes of the state, temporary bytes, and rank of each optimizer."""

COMPUTED = (
    *(
        Computed(
            name,
            partial(with_optimizer, state_bytes=state, temporary_bytes=temporary),
            "computed from the shapes of the trained parameters",
            rank=rank,
        )
        for name, state, temporary, rank in _OPTIMIZERS
    ),
    Computed(
        "optimizer state offloaded to the host",
        with_offloaded_states,
        "computed for Adam: the state of one parameter at a time is on the card",
        "the state moves to the card and back in each step",
        rank=3,
    ),
    Computed("LoRA", with_adapters, _LORA, rank=5, limits=_few_adapters),
    *(
        Computed(
            f"LoRA on weights in {bits} bits",
            partial(with_adapters, bits=bits),
            _QUANTISED,
            rank=6,
            limits=_few_adapters,
        )
        for bits in (8, 4)
    ),
    *(
        Computed(
            f"FSDP over {ranks} cards",
            partial(sharded, ranks=ranks),
            _SHARD_HOW,
            "parameters are gathered in each forward and backward pass, and gradients are reduced",
            rank=7,
        )
        for ranks in RANKS
    ),
)
"""The computed changes, in the order of the table."""
