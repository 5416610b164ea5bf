"""Bytes that a job needs of a card."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from pgmo.errors import OptionError

Way = Literal["default", "expandable", "pgmo"]
"""Who serves a program's requests: PyTorch as it is, with expandable segments, or pgmo."""

WAYS: tuple[Way, ...] = ("default", "expandable", "pgmo")

CATEGORIES = {
    "parameters": "parameters and buffers",
    "gradients": "gradients",
    "optimizer_state": "optimizer state",
    "activations": "activations and batches",
    "workspaces": "workspaces",
    "context": "CUDA context",
}
"""Names of the kinds of memory that a job needs."""


@dataclass(frozen=True)
class Need:
    """Bytes of one card that a job needs, at its peak.

    The categories are what is alive at the peak of what the program allocated, so they add up to
    `allocated_peak`; the context comes on top, and so does what an allocator holds unused.

    Attributes:
        parameters: bytes of the model's parameters and buffers.
        gradients: bytes of gradients that are alive at the peak.
        optimizer_state: bytes that the optimizer keeps between steps.
        activations: bytes of what the step computes and still needs, batches among it.
        workspaces: bytes of scratch memory of kernels that is alive at the peak.
        context: bytes of the CUDA context and its libraries, which no allocator sees.
        allocated_peak: most bytes of live tensors at once.
        reserved: most bytes that each way takes of the card, by way. Those that are not known are
            missing.
        uncertainty: share of the bytes at the largest value rehearsed whose sizes follow no law;
            0.0 where the peak itself was rehearsed.
        notes: what the figures depend on and do not show, a sentence each.

    Raises:
        OptionError: for negative bytes, or a way that does not exist.

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

    def __post_init__(self) -> None:
        counts = {**self.categories, "context": self.context, **self.reserved}
        for name, size in counts.items():
            if size < 0:
                raise OptionError(f"a need of {size} bytes of {name}: count from 0")
        strange = set(self.reserved) - set(WAYS)
        if strange:
            raise OptionError(f"no way is called {strange.pop()!r}; there are {', '.join(WAYS)}")
        object.__setattr__(self, "reserved", MappingProxyType(dict(self.reserved)))

    @property
    def categories(self) -> dict[str, int]:
        """Bytes alive at the peak by what they are, context left out."""
        return {name: getattr(self, name) for name in CATEGORIES if name != "context"}

    def total(self, way: Way = "pgmo") -> int:
        """Bytes of the card that the job takes at its peak, context included.

        Raises:
            OptionError: when nothing is known of the way.
        """
        if way not in self.reserved:
            known = ", ".join(self.reserved) or "none"
            raise OptionError(f"it is not known what {way!r} would reserve; known: {known}")
        return self.reserved[way] + self.context

    def fits(self, usable: int, way: Way = "pgmo") -> bool:
        """Whether a card has that many bytes, by the figure itself: uncertainty is not added."""
        return self.total(way) <= usable

    def as_json(self) -> dict[str, Any]:
        """Plain values, for `--json`."""
        return {
            **self.categories,
            "context": self.context,
            "allocated_peak": self.allocated_peak,
            "reserved": dict(self.reserved),
            "uncertainty": self.uncertainty,
            "notes": list(self.notes),
        }
