"""Adjustment of the script's process to the stub runtime, and notes on the differences."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pgmo.imports import after_import
from pgmo.rehearsal.child.compilers import Compilers
from pgmo.rehearsal.child.world import FakeWorld
from pgmo.units import format_bytes

if TYPE_CHECKING:
    from pgmo.rehearsal.values.mode import Values

_NAMED = 3
"""Maximum number of operators and lines that a note names. All of them are counted."""


class ScriptSetup:
    """Setup before the script's first line. Modules are adjusted when the script imports them."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self._values: Values | None = None
        self._compilers = Compilers()
        self._world = FakeWorld(spec["rank"], spec["world"])

    def install(self) -> None:
        """Adjust the process, and torch as soon as the script imports it."""
        self._compilers.install()
        after_import("torch", self._adjust_torch)
        self._world.install()

    def notes(self) -> list[str]:
        """Return the uncertainties of the result, one sentence each."""
        found = self._compilers.notes()
        found += dict.fromkeys(self._world.notes)
        if self._values is not None:
            found += _value_notes(self._values)
            found += _convolution_notes()
        return found

    def _adjust_torch(self) -> None:
        import torch

        from pgmo.rehearsal.values.mode import Values

        # NVML would count the real cards of the machine.
        torch.cuda._device_count_nvml = lambda: -1
        self._values = Values()
        self._values.begin()


def _value_notes(values: "Values") -> list[str]:
    """Return notes about made-up values that the script has read."""
    sizes, read = values.made_up.sizes, values.made_up.read
    found = []
    if sizes:
        named = ", ".join(name for name, _ in sizes.most_common(_NAMED))
        found.append(
            f"sizes that depended on made-up or missing values: {sum(sizes.values())} ({named}); "
            "a real run may take more or less memory"
        )
    if read:
        named = ", ".join(f"{name} {count}" for name, count in read.most_common(_NAMED))
        found.append(
            f"reads of made-up values: {sum(read.values())} ({named}); with other values, the "
            "script may behave differently"
        )
    if values.libraries.called:
        called = values.libraries.called
        named = ", ".join(f"{name} {count}" for name, count in called.most_common(_NAMED))
        found.append(
            f"{sum(called.values())} calls of cuSOLVER and cuFFT got workspaces as large as their "
            f"operands, which is a guess ({named}): on the card they may be larger or smaller"
        )
    return found


def _convolution_notes() -> list[str]:
    """Return notes about the workspaces of cuDNN."""
    from pgmo.rehearsal import control

    found = []
    workspace = control.dnn_workspace()
    if workspace:
        found.append(
            f"workspaces of cuDNN, at most {format_bytes(workspace)}, come from a model: on the "
            "card they may be larger or smaller"
        )
    backends: Any = sys.modules.get("torch.backends.cudnn")
    if backends is not None and backends.benchmark:
        found.append(
            "cudnn.benchmark may try algorithms with larger workspaces in the first iterations; "
            "rehearsals do not include these workspaces"
        )
    return found
