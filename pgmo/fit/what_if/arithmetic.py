"""Changes of a job whose bytes follow from its parameters: another optimizer, adapters, ranks.

Each turns the curves of a load into those of the changed job:

          forward    backward   optimizer step
    STATE ----------------------------------------   as much as the other optimizer keeps
    TEMPORARY                   ####                 as much as the other one takes
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.fit.categories import GRADIENT, NAMES, PARAMETER, STATE
from pgmo.fit.law import Load

Curves = NDArray[np.int64]
"""Bytes of each category after each request, shape (categories + 2, ticks): see `curves_of`."""

TEMPORARY, STEPPING = len(NAMES), len(NAMES) + 1
"""Rows beyond the categories: bytes that an optimizer takes while it steps and gives back, and
whether it is stepping, as 0 or 1."""

RANK = 8
"""Of the adapters that stand for LoRA."""

_QUANTISED_BLOCK, _NF4_BLOCK, _LEAST_QUANTISED = 256, 64, 4096
"""Of bitsandbytes 0.45: elements that share a scale of 8-bit states and of 4-bit weights, and
elements of the smallest state that is kept in 8 bits."""


@dataclass(frozen=True)
class Model:
    """What is known of a job's parameters.

    Args:
        shapes: for each parameter its shape, bytes of an element, whether it is trained, and
            whether it is the weight of a linear layer.
        block: bytes of the largest block of a list of blocks; those of the model without one.
        outside: bytes of what is in no such block.
        optimizer: its class.
    """

    shapes: Sequence[Sequence[Any]]
    block: int
    outside: int
    optimizer: str

    @classmethod
    def of(cls, known: dict[str, Any]) -> "Model":
        """From what the observer wrote down."""
        shapes = known.get("shapes", [])
        whole = sum(math.prod(shape) * size for shape, size, *_ in shapes)
        blocks = known.get("blocks") or [whole]
        outside = known.get("outside", 0)
        return cls(shapes, int(blocks[0]), outside, known.get("optimizer", ""))

    @property
    def trained(self) -> list[tuple[list[int], int]]:
        """Shapes and bytes of an element of what is trained."""
        return [(shape, size) for shape, size, trained, _ in self.shapes if trained]

    @property
    def bytes(self) -> int:
        """Of all parameters."""
        return sum(math.prod(shape) * size for shape, size, *_ in self.shapes)

    @property
    def largest(self) -> int:
        """Elements of the largest parameter that is trained."""
        return max((math.prod(shape) for shape, _ in self.trained), default=0)

    @property
    def linear(self) -> list[tuple[list[int], int]]:
        """Shapes and bytes of an element of linear layers' weights."""
        return [(shape, size) for shape, size, _, linear in self.shapes if linear]


def curves_of(load: Load) -> Curves:
    """Curves of a load, in which what optimizers take while they step is apart."""
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
    curves: Curves, model: Model, keeps: Callable[[list[int]], int], takes: int
) -> Curves:
    """Another optimizer.

    Args:
        curves: of the job.
        model: its parameters.
        keeps: bytes of state for a parameter of a shape.
        takes: bytes that it takes in a step and gives back.
    """
    changed = _scaled(curves, STATE, sum(keeps(shape) for shape, _ in model.trained))
    changed[TEMPORARY] = takes * curves[STEPPING]
    return changed


def adam_bytes(shape: list[int]) -> int:
    """Two averages in float32."""
    return 8 * math.prod(shape)


def adafactor_bytes(shape: list[int]) -> int:
    """Sums over rows and columns (Shazeer and Stern, 2018); one average of what is no matrix."""
    if len(shape) < 2:
        return 4 * math.prod(shape)
    return 4 * (math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1])


def adam_8bit_bytes(shape: list[int]) -> int:
    """Two averages in 8 bits with a scale for each block (Dettmers and others, 2022)."""
    count = math.prod(shape)
    if count < _LEAST_QUANTISED:
        return adam_bytes(shape)
    return 2 * (count + 4 * math.ceil(count / _QUANTISED_BLOCK))


def adam_takes(model: Model) -> int:
    """The roots of all second averages, as PyTorch computes them for all parameters at once."""
    return 4 * sum(math.prod(shape) for shape, _ in model.trained)


def adafactor_takes(model: Model) -> int:
    """The update of one parameter after the other."""
    return 4 * model.largest


def with_adapters(curves: Curves, model: Model, bits: int | None = None) -> Curves:
    """LoRA of all linear layers: they are frozen, adapters of `RANK` are trained with Adam.

    Args:
        curves: of the job.
        model: its parameters.
        bits: of the frozen linear weights, 8 or 4; as they are for None.
    """
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
    """A frozen weight in 8 bits with a scale for each row, or in 4 with one for each block."""
    count = math.prod(shape)
    if bits == 8:
        return count + 4 * shape[0]
    return count // 2 + 4 * math.ceil(count / _NF4_BLOCK)


def with_offloaded_states(curves: Curves, model: Model) -> Curves:
    """States of Adam in the host's memory, one parameter's at a time on the card."""
    changed = curves.copy()
    changed[STATE] = 0
    changed[TEMPORARY] = (8 + 4) * model.largest * curves[STEPPING]
    return changed


def sharded(curves: Curves, model: Model, ranks: int) -> Curves:
    """Fully sharded: each rank keeps its part, two blocks are whole, and what is in no block is.

    One block is used while the next one is gathered; gradients of one are whole until they are
    reduced. What is in no block belongs to the outermost module, which is whole in forward and
    backward passes.
    """
    changed = curves.copy()
    for category in (PARAMETER, GRADIENT, STATE, TEMPORARY):
        changed[category] = -(-curves[category] // ranks)
    computing = curves[STEPPING] == 0
    changed[PARAMETER] += (2 * model.block + model.outside) * computing
    whole = (curves[GRADIENT] > 0) & computing
    # Of what is in no block a rank has its part only once it is reduced, at the end.
    changed[GRADIENT] += (model.block + model.outside - model.outside // ranks) * whole
    return changed


def peak(curves: Curves) -> int:
    """Most bytes alive at once."""
    return int(curves[:STEPPING].sum(axis=0).max(initial=0))


def _scaled(curves: Curves, category: int, to: int, whole: int | None = None) -> Curves:
    """A category whose most is `to`, growing and shrinking as it did.

    Args:
        curves: of the job.
        category: which.
        to: bytes instead of `whole`.
        whole: bytes that become `to`; the category's most for None.
    """
    changed = curves.copy()
    most = int(curves[category].max(initial=0)) if whole is None else whole
    if most:
        changed[category] = np.ceil(curves[category] * (to / most)).astype(np.int64)
    return changed


@dataclass(frozen=True)
class Computed:
    """A change whose bytes are computed.

    Attributes:
        name: what it is called in the table.
        apply: from the curves and the model to the changed curves.
        how: what it was derived from, and what is not in it.
        time: what it costs in time, in words; "" where that is not known.
        rank: how far it is from the script as it is; the least change that fits is looked for.
        limits: what the figure of a model is not, in words; "" for nothing.
    """

    name: str
    apply: Callable[[Curves, Model], Curves]
    how: str
    time: str = ""
    rank: int = 1
    limits: Callable[[Model], str] = lambda _: ""

    def says(self, model: Model) -> str:
        """What it was derived from, with what limits it for this model."""
        limits = self.limits(model)
        return f"{self.how}; {limits}" if limits else self.how


def _optimizer(
    keeps: Callable[[list[int]], int], takes: Callable[[Model], int]
) -> Callable[[Curves, Model], Curves]:
    return lambda curves, model: with_optimizer(curves, model, keeps, takes(model))


def _nothing(_: Any) -> int:
    return 0


_STATE_HOW = "computed from the shapes of what is trained"
_LORA_HOW = (
    f"computed: adapters of rank {RANK} on all linear layers, Adam for them; activations as they "
    "are"
)


def _few_adapters(model: Model) -> str:
    """Of LoRA, where most of a model is something else than linear layers."""
    elements = sum(math.prod(shape) for shape, _ in model.linear)
    if 2 * elements >= sum(math.prod(shape) for shape, *_ in model.shapes):
        return ""
    return "at most: what comes before the first adapter keeps nothing for the backward pass"


_SHARD_HOW = (
    "computed: parts of parameters, gradients and states; two whole blocks, and what is in none"
)

COMPUTED = (
    Computed("SGD without momentum", _optimizer(_nothing, _nothing), _STATE_HOW, rank=4),
    Computed(
        "SGD with momentum",
        _optimizer(lambda shape: 4 * math.prod(shape), _nothing),
        _STATE_HOW,
        rank=4,
    ),
    Computed("Adam", _optimizer(adam_bytes, adam_takes), _STATE_HOW, rank=4),
    Computed("8-bit Adam", _optimizer(adam_8bit_bytes, _nothing), _STATE_HOW, rank=3),
    Computed("Adafactor", _optimizer(adafactor_bytes, adafactor_takes), _STATE_HOW, rank=4),
    Computed(
        "optimizer state offloaded to the host",
        with_offloaded_states,
        "computed: the state of one parameter at a time is on the card",
        "the state goes to the card and back in each step",
        rank=3,
    ),
    Computed(
        "LoRA",
        lambda curves, model: with_adapters(curves, model),
        _LORA_HOW,
        rank=5,
        limits=_few_adapters,
    ),
    Computed(
        "LoRA on weights in 8 bits",
        lambda curves, model: with_adapters(curves, model, 8),
        _LORA_HOW + "; weights that are converted for a product are not in it",
        rank=6,
        limits=_few_adapters,
    ),
    Computed(
        "LoRA on weights in 4 bits",
        lambda curves, model: with_adapters(curves, model, 4),
        _LORA_HOW + "; weights that are converted for a product are not in it",
        rank=6,
        limits=_few_adapters,
    ),
    *(
        Computed(
            f"FSDP over {ranks} cards",
            partial(lambda count, curves, model: sharded(curves, model, count), ranks),
            _SHARD_HOW,
            "parameters are gathered twice and gradients reduced once in each step",
            rank=7,
        )
        for ranks in (2, 4, 8)
    ),
)
"""What is computed, in the order of the table."""
