"""Changes of a job whose bytes follow from its parameters: another optimizer, adapters, ranks.

Each turns the curves of a load into those of the changed job. What a change does to temporaries of
its own step is not in it: that is what its uncertainty says.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pgmo.fit.categories import GRADIENT, PARAMETER, STATE

Curves = NDArray[np.int64]
"""Bytes of each category after each request, shape (categories, ticks): see `Load.curves`."""

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
        optimizer: its class.
    """

    shapes: Sequence[Sequence[Any]]
    block: int
    optimizer: str

    @classmethod
    def of(cls, known: dict[str, Any]) -> "Model":
        """From what the observer wrote down."""
        shapes = known.get("shapes", [])
        whole = sum(math.prod(shape) * size for shape, size, *_ in shapes)
        blocks = known.get("blocks") or [whole]
        return cls(shapes, int(blocks[0]), known.get("optimizer", ""))

    @property
    def trained(self) -> list[tuple[list[int], int]]:
        """Shapes and bytes of an element of what is trained."""
        return [(shape, size) for shape, size, trained, _ in self.shapes if trained]

    @property
    def bytes(self) -> int:
        """Of all parameters."""
        return sum(math.prod(shape) * size for shape, size, *_ in self.shapes)

    @property
    def linear(self) -> list[tuple[list[int], int]]:
        """Shapes and bytes of an element of linear layers' weights."""
        return [(shape, size) for shape, size, _, linear in self.shapes if linear]


def with_states(curves: Curves, model: Model, of: Callable[[list[int]], int]) -> Curves:
    """The states of another optimizer: bytes that it keeps for a parameter of a shape."""
    return _scaled(curves, STATE, sum(of(shape) for shape, _ in model.trained))


def adam_bytes(shape: list[int]) -> int:
    """Two averages in float32.

    Example:
        >>> adam_bytes([3, 5])
        120
    """
    return 8 * math.prod(shape)


def adafactor_bytes(shape: list[int]) -> int:
    """Sums over rows and columns (Shazeer and Stern, 2018); one average of what is no matrix.

    Example:
        >>> adafactor_bytes([100, 50]), adafactor_bytes([7])
        (600, 28)
    """
    if len(shape) < 2:
        return 4 * math.prod(shape)
    return 4 * (math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1])


def adam_8bit_bytes(shape: list[int]) -> int:
    """Two averages in 8 bits with a scale for each block (Dettmers and others, 2022).

    Example:
        >>> adam_8bit_bytes([64, 64]), adam_8bit_bytes([10])
        (8320, 80)
    """
    count = math.prod(shape)
    if count < _LEAST_QUANTISED:
        return adam_bytes(shape)
    return 2 * (count + 4 * math.ceil(count / _QUANTISED_BLOCK))


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
    return _scaled(changed, PARAMETER, frozen + 4 * adapters, model.bytes)


def quantised_bytes(shape: list[int], bits: int) -> int:
    """A frozen weight in 8 bits with a scale for each row, or in 4 with one for each block.

    Example:
        >>> quantised_bytes([64, 64], 8), quantised_bytes([64, 64], 4)
        (4352, 2304)
    """
    count = math.prod(shape)
    if bits == 8:
        return count + 4 * shape[0]
    return count // 2 + 4 * math.ceil(count / _NF4_BLOCK)


def with_offloaded_states(curves: Curves) -> Curves:
    """States in the host's memory, one parameter's at a time on the card."""
    changed = curves.copy()
    changed[STATE] = 0
    return changed


def sharded(curves: Curves, model: Model, ranks: int) -> Curves:
    """Fully sharded: each rank keeps its part, and two blocks are whole at any time.

    One is used while the next one is gathered; gradients of one are whole until they are reduced.
    """
    changed = curves.copy()
    for category in (PARAMETER, GRADIENT, STATE):
        changed[category] = -(-curves[category] // ranks)
    changed[PARAMETER] += 2 * model.block
    changed[GRADIENT] += np.where(curves[GRADIENT] > 0, model.block, 0)
    return changed


def peak(curves: Curves) -> int:
    """Most bytes alive at once."""
    return int(curves.sum(axis=0).max(initial=0))


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
    """

    name: str
    apply: Callable[[Curves, Model], Curves]
    how: str
    time: str = ""
    rank: int = 1


def _states(of: Callable[[list[int]], int]) -> Callable[[Curves, Model], Curves]:
    return partial(_with_states_of, of)


def _with_states_of(of: Callable[[list[int]], int], curves: Curves, model: Model) -> Curves:
    return with_states(curves, model, of)


_STATE_HOW = "computed from the shapes of what is trained; temporaries of the step as they are"
_LORA_HOW = (
    f"computed: adapters of rank {RANK} on all linear layers, Adam for them; activations as they "
    "are"
)
_SHARD_HOW = "computed: parts of parameters, gradients and states, and two whole blocks"

COMPUTED = (
    Computed("SGD without momentum", _states(lambda _: 0), _STATE_HOW, rank=4),
    Computed("SGD with momentum", _states(lambda shape: 4 * math.prod(shape)), _STATE_HOW, rank=4),
    Computed("Adam", _states(adam_bytes), _STATE_HOW, rank=4),
    Computed("8-bit Adam", _states(adam_8bit_bytes), _STATE_HOW, rank=3),
    Computed("Adafactor", _states(adafactor_bytes), _STATE_HOW, rank=4),
    Computed(
        "optimizer state offloaded to the host",
        lambda curves, _: with_offloaded_states(curves),
        "computed: no state on the card",
        "the state goes to the card and back in each step",
        rank=3,
    ),
    Computed("LoRA", lambda curves, model: with_adapters(curves, model), _LORA_HOW, rank=5),
    Computed(
        "LoRA on weights in 8 bits",
        lambda curves, model: with_adapters(curves, model, 8),
        _LORA_HOW + "; weights that are converted for a product are not in it",
        rank=6,
    ),
    Computed(
        "LoRA on weights in 4 bits",
        lambda curves, model: with_adapters(curves, model, 4),
        _LORA_HOW + "; weights that are converted for a product are not in it",
        rank=6,
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
