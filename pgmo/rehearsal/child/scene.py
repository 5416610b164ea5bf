"""What the script finds otherwise than on a machine with the card, and what is said of it."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgmo.imports import after_import
from pgmo.rehearsal.child.world import FakeWorld

if TYPE_CHECKING:
    from pgmo.rehearsal.values.mode import Values

_NAMED = 3
"""Operators and lines that a note names."""


class Scene:
    """Sets the scene before the script's first line; nothing is imported that it does not import.

    Args:
        spec: what is rehearsed.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._values: Values | None = None
        self._compiled = False
        self._world = FakeWorld(spec["rank"], spec["world"]) if spec["world"] > 1 else None

    def set(self) -> None:
        """Hides what cannot run, and waits for torch."""
        # Kernels of Triton are launched past the runtime; libraries do without where it is missing.
        sys.modules.setdefault("triton", None)  # type: ignore[arg-type]
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
        after_import("torch", self._torch)
        if self._world is not None:
            self._world.set()

    def notes(self) -> list[str]:
        """What of the answer is uncertain, as far as the scene knows."""
        found = []
        if self._compiled:
            found.append(
                "torch.compile was left out: the script ran operator by operator, and compiled "
                "code takes other memory"
            )
        if self._world is not None:
            found += dict.fromkeys(self._world.notes)
        if self._values is not None:
            found += _of_values(self._values)
        return found

    def _torch(self) -> None:
        import torch

        from pgmo.rehearsal.values.mode import Values

        original = torch.compile

        def compile_(*args: Any, **kwargs: Any) -> Any:
            self._compiled = True
            return original(*args, **kwargs)

        torch.compile = compile_
        # NVML would count the cards of the machine.
        torch.cuda._device_count_nvml = lambda: -1
        self._values = Values()
        self._values.begin()


def _of_values(values: "Values") -> list[str]:
    sizes = values.made_up.sizes
    if not sizes:
        return []
    named = ", ".join(name for name, _ in sizes.most_common(_NAMED))
    return [
        f"{sum(sizes.values())} sizes depended on values that nothing computes here, and were "
        f"made up ({named}): the card may need more or less there"
    ]
