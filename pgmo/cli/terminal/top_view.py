"""What `pgmo top` shows of the programs that run."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pgmo.runner.status import DeviceStatus, RunStatus
from pgmo.units import format_bytes

_BAR = 20
"""Characters."""

_OLD = 5.0
"""Seconds after which a view says how old it is: an iteration takes long, or the program waits."""


def view(statuses: Sequence[RunStatus], now: float, cards: Sequence[Mapping[str, Any]] = ()) -> str:
    """The programs one below the other, and the cards that they share; text without markup.

    Args:
        statuses: of the programs.
        now: seconds since 1970.
        cards: as a broker says it (`Schedule.status`).

    Example:
        >>> view([], 0.0)
        'no program runs under `pgmo run` here, or none has completed an iteration'
    """
    shared = [line for card in cards for line in _of_card(card)]
    if not statuses:
        none = "no program runs under `pgmo run` here, or none has completed an iteration"
        return "\n".join([none, *shared])
    return "\n".join([*(line for one in statuses for line in _of_run(one, now)), *shared])


def _of_card(card: Mapping[str, Any]) -> Iterator[str]:
    members = card["members"]
    state = "crowded: turns one by one" if card["crowded"] else "room for everybody"
    total = format_bytes(card["total"])
    yield f"shared card {_printable(card['card'])}, {total}, {len(members)} processes, {state}"
    whole = sum(one["used"] for one in members) or 1.0
    for one in sorted(members, key=lambda one: -one["used"]):
        since = "" if one["since"] is None else f" for {one['since']:.1f} s"
        need = "" if one["need"] is None else f" and {format_bytes(one['need'])} in a turn"
        yield f"  {_printable(one['name'])}  pid {one['pid']}, {one['state']}{since}"
        share = f"{_bar(one['used'] / whole)} {one['used'] / whole:.1%} of the time"
        yield f"    {share}, priority {one['priority']}, {one['turns']:,} turns"
        yield f"    has {format_bytes(one['held'])}{need}"


def _of_run(status: RunStatus, now: float) -> list[str]:
    age = now - status.written
    seen = f", as of {_duration(age)} ago" if age > _OLD else ""
    runs = f"pid {status.pid}, for {_duration(now - status.started)}"
    lines = [f"{_printable(status.program)}  {runs}{seen}"]
    for device in status.devices:
        lines += _of_device(device)
    return lines


def _of_device(device: DeviceStatus) -> list[str]:
    state = f"  {device.device:<7} iteration {device.iterations:,}, {device.phase}"
    if device.since:
        state += f", from slots since iteration {device.since}"
    lines = [state]
    if device.hits is not None:
        lines.append(f"    hits  {_bar(device.hits)} {device.hits:.1%} of the last iteration")
    lines.append(
        f"    run   {_bar(device.run_share)} {device.run_share:.1%} of all bytes from slots"
    )
    sizes = {"arena": device.arena, "peak": device.peak, "pages": device.pages}
    known = [f"{name} {format_bytes(size)}" for name, size in sizes.items() if size]
    if known:
        lines.append(f"    {', '.join(known)}")
    lines.extend(f"    why not: {_printable(reason)}" for reason in device.why)
    return lines


def _bar(share: float) -> str:
    full = round(_BAR * min(1.0, max(0.0, share)))
    return "█" * full + "░" * (_BAR - full)


def _duration(seconds: float) -> str:
    """A duration in at most two units.

    Example:
        >>> _duration(0.4), _duration(75), _duration(7300)
        ('0 s', '1 min 15 s', '2 h 1 min')
    """
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"


def _printable(text: str) -> str:
    """Without what a terminal would take for commands."""
    return "".join(one if one.isprintable() else "?" for one in text)
