"""pgmo's own figures for a device, beside those of `torch.cuda.memory_stats`."""

from pgmo.allocator.adapters.find import adapter_of
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import active_session


def memory_stats(device: object = None, framework: str = "torch") -> dict[str, int]:
    """What the session on a device holds now and has counted, as plain numbers.

    Torch counts an arena as one allocated block for as long as it is held, so its own
    `memory_allocated` does not change while slots are handed out; these figures do.

    Args:
        device: as for `pgmo.optimize`.
        framework: as for `pgmo.optimize`.

    Returns:
        Plain numbers by name; sizes are in bytes. `arena_bytes` are held, `live_slot_bytes` and
        `live_fallback_bytes` are in use (the last are blocks outside of the plan), each with a
        `peak_`; counts since the session began: `requests`, `hits`, and misses by reason. Empty
        when no session is open there.

    Raises:
        OptionError: when that names no device.
        AdapterError: when there is no such device.

    Example:
        >>> memory_stats("cpu")
        {}
    """
    chosen = Options(device=device, framework=framework)
    session = active_session(adapter_of(chosen.device, chosen.framework))
    return session.statistics if session is not None else {}
