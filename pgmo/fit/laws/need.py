"""Bytes that a job needs of a card."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pgmo.errors import OptionError
from pgmo.rehearsal.environment import WAYS, Way

CATEGORIES = {
    "parameters": "parameters and buffers",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
    "activations": "activations and batches",
    "workspaces": "workspaces",
    "context": "CUDA context",
}
"""Display names of the categories of memory."""


@dataclass(frozen=True)
class Need:
    """Bytes of one card that a job needs, at its peak.

    The categories count the bytes alive at the peak of the program's allocations, so they add up to
    `allocated_peak`. The context and an allocator's unused bytes come on top.

    Attributes:
        parameters: bytes of the model's parameters and buffers.
        gradients: bytes of gradients that are alive at the peak.
        optimizer_state: bytes that the optimizer keeps between steps.
        activations: bytes of blocks in no other category: results that the step still needs, and
            batches.
        workspaces: bytes of scratch memory of kernels and libraries that is alive at the peak.
        context: bytes of the CUDA context and its libraries, which no allocator sees.
        allocated_peak: peak of the live bytes of all blocks.
        reserved: peak bytes of the card that each allocator takes, without the context; "default",
            "expandable" or "pgmo". Allocators whose peak is unknown are missing.
        uncertainty: share of the bytes at the largest rehearsed value in requests whose size
            follows no law; 0.0 if the value itself was rehearsed.
        notes: conditions of the figures, one sentence each.
        growth: part of `reserved` by which live memory grows from the first steps to the last; in
            no category.

    Raises:
        OptionError: for negative bytes or an unknown allocator.

    Example:
        >>> need = Need(8, 8, 16, 4, 0, 2, 36, {"default": 40})
        >>> need.total("default"), need.fits(41, "default")
        (42, False)
    """

    parameters: int
    gradients: int
    optimizer_state: int
    activations: int
    workspaces: int
    context: int
    allocated_peak: int
    reserved: Mapping[str, int] = field(hash=False)
    uncertainty: float = 0.0
    notes: tuple[str, ...] = ()
    growth: int = 0

    def __post_init__(self) -> None:
        counts = {**self.categories, "context": self.context, **self.reserved}
        for name, size in counts.items():
            if size < 0:
                raise OptionError(f"{name} is {size} bytes; give 0 or more")
        unknown = set(self.reserved) - set(WAYS)
        if unknown:
            raise OptionError(f"unknown way {unknown.pop()!r}; choose from {', '.join(WAYS)}")
        object.__setattr__(self, "reserved", MappingProxyType(dict(self.reserved)))

    @property
    def categories(self) -> dict[str, int]:
        """Bytes alive at the peak by category, without the context."""
        return {name: getattr(self, name) for name in CATEGORIES if name != "context"}

    def total(self, way: Way = "pgmo") -> int:
        """Return the bytes of the card that the job takes at its peak, context included.

        Args:
            way: the allocator, a key of `reserved`.

        Raises:
            OptionError: if `reserved` lacks the allocator.
        """
        if way not in self.reserved:
            known = ", ".join(self.reserved) or "none"
            raise OptionError(f"the bytes reserved with {way!r} are unknown; known ways: {known}")
        return self.reserved[way] + self.context

    def fits(self, usable: int, way: Way = "pgmo") -> bool:
        """Return whether `total(way)` is at most `usable`; uncertainty is not added.

        Args:
            usable: bytes of the card that a job may take.
            way: the allocator, a key of `reserved`.

        Raises:
            OptionError: if `reserved` lacks the allocator.
        """
        return self.total(way) <= usable

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `--json`."""
        return vars(self) | {"reserved": dict(self.reserved), "notes": list(self.notes)}
