"""Times of transfers between the device and the host.

    operations   0  1  2  3  4  ...  9   10  11
    transfers       (0------)        (0------)        the value of 0 is live until 3, and from 9 on

The value of an offloaded operation is sent to the host right after the operation. A rerun of the
operation fetches the value. Transfers run one after the other, concurrently with operations. An
operation waits for the fetched values that it reads. A value is freed when it has been sent.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pgmo.errors import OptionError
from pgmo.recompute.planners.graph import Graph
from pgmo.units import parse_bytes

LINKS = {"pcie3": 12e9, "pcie4": 24e9, "pcie5": 48e9}
"""Bytes per second of 16 lanes with pinned memory: three quarters of the standard's rate."""

_DECIMAL = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*(?:([kmgtp])b|([kKMGTP])B?)", re.ASCII)

_BITS = ("Kb", "Mb", "Gb", "Tb", "Pb")

_LATENCY = 1e-5
"""Seconds that a transfer takes in addition to the time for its bytes."""


def parse_link(link: object) -> float:
    """Return the bytes per second of a link.

    Args:
        link: a name in `LINKS`, or bytes per second, such as 20e9 or "20 GB/s". Rates of links
            are decimal, unlike sizes: 1 GB/s is 1e9 bytes per second.

    Raises:
        OptionError: if `link` is neither, or the rate is not positive and finite.

    Example:
        >>> parse_link("pcie4"), parse_link("20 GB/s")
        (24000000000.0, 20000000000.0)
    """
    if isinstance(link, str) and link in LINKS:
        return LINKS[link]
    try:
        if isinstance(link, str):
            rate = _parse_rate(link)
        elif isinstance(link, (int, float)) and not isinstance(link, bool):
            rate = float(link)
        else:
            raise ValueError
    except (ValueError, OptionError):
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise OptionError(
            f"offload is {link!r}; give the name of a link ({', '.join(LINKS)}), or bytes per "
            'second between the device and the host, such as "20 GB/s"'
        )
    return rate


def _parse_rate(text: str) -> float:
    text = re.sub(r"\s*/s$", "", text.strip(), flags=re.IGNORECASE)
    if text.endswith(_BITS):
        raise ValueError
    if match := _DECIMAL.fullmatch(text):
        prefix = match[2] or match[3].lower()
        return float(match[1]) * 1000.0 ** (1 + "kmgtp".index(prefix))
    return float(parse_bytes(text))


@dataclass(frozen=True)
class Transfers:
    """Transfers of a step's values to the host and back.

    Args:
        rate: bytes per second.
        seconds: one-way time of each forward operation's value, shape (forward,); negative if the
            value cannot be offloaded.
        until: operation before which the value is freed if it is sent, shape (forward,).
    """

    rate: float
    seconds: tuple[float, ...]
    until: tuple[int, ...]

    @classmethod
    def of(cls, graph: Graph, rate: float) -> "Transfers":
        """Return the transfers of a graph over a link of `rate` bytes per second."""
        forward = graph.operations[: graph.forward]
        seconds, until = [], []
        for index in range(graph.forward):
            value = offloaded_value(graph, index)
            takes = -1.0 if value is None else _LATENCY + graph.values[value].size / rate
            end, left, home = index + 1, takes, forward[index].home
            while left > 0 and end < graph.forward and forward[end].home == home:
                left -= forward[end].cost
                end += 1
            seconds.append(takes)
            until.append(end)
        return cls(rate, tuple(seconds), tuple(until))

    def can_offload(self, index: int) -> bool:
        """Return whether an operation can be offloaded."""
        return 0 <= index < len(self.seconds) and self.seconds[index] >= 0

    def fitting(
        self, offloaded: Iterable[int], reruns: Sequence[tuple[int, int]]
    ) -> tuple[frozenset[int], tuple[tuple[int, int], ...]]:
        """Return those offloaded operations and reruns of another graph that this graph allows.

        A value that cannot be offloaded is kept. A fetch before the value has been sent is left
        out.
        """
        sent = {one for one in offloaded if self.can_offload(one)}
        gone = {*offloaded} - sent
        kept = tuple(
            (moment, one)
            for moment, one in reruns
            if one not in gone and (one not in sent or moment >= self.until[one])
        )
        return frozenset(sent), kept


def offloaded_value(graph: Graph, index: int) -> int | None:
    """Return the value that is sent if an operation is offloaded; None if nothing can be sent."""
    made = [
        value
        for value in graph.operations[index].writes
        if not graph.values[value].pinned and not graph.values[value].result
    ]
    return made[0] if len(made) == 1 and graph.values[made[0]].size else None


def waiting(
    graph: Graph,
    operations: Sequence[int],
    again: Sequence[bool],
    offloaded: frozenset[int],
    transfers: Transfers,
) -> float:
    """Return the seconds that a step waits for transfers; arguments as in `Schedule`."""
    ending: dict[int, list[int]] = defaultdict(list)
    for one in offloaded:
        ending[transfers.until[one]].append(one)
    sent: dict[int, float] = {}
    arrives: dict[int | None, float] = {}  # By value.
    now = worked = link = 0.0
    before, begins = -1, True  # The last operation that was no rerun; whether it just ran.
    for index, once_more in zip(operations, again, strict=True):
        if begins:
            if before in offloaded:
                link = max(link, now) + transfers.seconds[before]
                sent[before] = link
            now = max([now, *(sent[one] for one in ending[before + 1])])
        begins = not once_more
        if once_more and index in offloaded:
            link = max(link, now) + transfers.seconds[index]
            arrives[offloaded_value(graph, index)] = link
            continue
        for value in graph.operations[index].reads:
            now = max(now, arrives.pop(value, now))
        now += graph.operations[index].cost
        worked += graph.operations[index].cost
        before = index if begins else before
    return now - worked
