"""What a verdict is based on."""

from dataclasses import dataclass

from pgmo.allocator.adapters.baseline import Baseline
from pgmo.allocator.session.statistics import Summary


@dataclass(frozen=True, eq=False)
class Evidence:
    """Figures of a session and of its device.

    Args:
        summary: the session's counters.
        baseline: the device's figures since the model began; None where there is no model.
        gave_up: why the session serves nothing any more; "" as long as it does.
        recorded_only: whether the session was opened with `record_only`.

    Example:
        >>> Evidence(Summary(3, 3, 0)).baseline is None
        True
    """

    summary: Summary
    baseline: Baseline | None = None
    gave_up: str = ""
    recorded_only: bool = False
