"""pgmo's own memory statistics of a device, in addition to `torch.cuda.memory_stats`."""

from pgmo.allocator.adapters.find import adapter_of
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import active_session


def memory_stats(device: object = None, framework: str = "torch") -> dict[str, int]:
    """Return the counters and current memory use of the session on a device.

    torch counts an arena as one allocated block, so `torch.cuda.memory_allocated` does not show
    which slots are in use; these figures do.

    Args:
        device: as for `pgmo.optimize`.
        framework: as for `pgmo.optimize`.

    Returns:
        Numbers by name; sizes are in bytes; empty if no session is open on the device.
        `arena_bytes` are held. `live_slot_bytes` are in use in slots and `live_fallback_bytes`
        outside the plan, each with a `peak_`. Counts since the session began: `requests`, `hits`,
        and misses by reason.

    Raises:
        OptionError: if `device` names no device.
        AdapterError: if the device does not exist.

    Example:
        >>> memory_stats("cpu")
        {}
    """
    chosen = Options(device=device, framework=framework)
    session = active_session(adapter_of(chosen.device, chosen.framework))
    return session.statistics if session is not None else {}
