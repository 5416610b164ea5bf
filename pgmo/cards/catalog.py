"""Known graphics cards, and search by name or size."""

import difflib
import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pgmo.errors import OptionError
from pgmo.units import format_bytes, parse_bytes

UNREPORTED = 0.917
"""Usable share of the nominal memory, for cards whose usable bytes are unknown. The value is
slightly below 0.918, the smallest known share, which is that of an L4."""

PLAIN = ((8, 0), 108)
"""Compute capability and number of multiprocessors of an A100, for cards of which only the size is
known."""

_NOISE = re.compile(r"nvidia|geforce|tesla|quadro|generation|(?<=sxm)\d|(?<=hbm)\d")


@dataclass(frozen=True)
class Card:
    """Graphics card, or a part of one, with the properties that determine memory and time.

    Attributes:
        name: name, such as "RTX 4090".
        memory: nominal bytes.
        usable: total bytes that CUDA reports. A program's context takes a part of them.
        capability: compute capability, such as (8, 9).
        multiprocessors: number of multiprocessors.
        bandwidth: bandwidth of the card's memory in bytes per second; 0.0 if unknown.
        flops: peak floating-point operations per second by type ("float32", "tf32", "float16",
            "bfloat16"), dense, accumulated in float32. Types without a known rate are missing.
        source: page with these figures, usually the manufacturer's.
        usable_source: source of the usable bytes, in words; "" if the user gave the size.
        integrated: whether the card shares its memory with the host, so that the system and the
            process take a part of the usable bytes.

    Example:
        >>> Card("16 GiB", 16 << 30, 16 << 30, (8, 0), 108)
        Card('16 GiB', 16.0 GiB usable)
    """

    name: str
    memory: int
    usable: int
    capability: tuple[int, int]
    multiprocessors: int
    bandwidth: float = 0.0
    flops: dict[str, float] = field(default_factory=dict, hash=False)
    source: str = ""
    usable_source: str = ""
    integrated: bool = False

    @property
    def anonymous(self) -> bool:
        """Return whether only the card's size is known, so that times cannot be computed."""
        return not self.bandwidth

    def __repr__(self) -> str:
        return f"Card({self.name!r}, {format_bytes(self.usable)} usable)"


@cache
def all_cards() -> tuple[Card, ...]:
    """Return every card of `cards.json`, in the order of the file."""
    return tuple(_card(row) for row in _rows())


def find(text: str | Card) -> Card:
    """Find a card by name or size.

    Args:
        text: a common name ("RTX 4090", "A100-40GB", "NVIDIA L4"), or a size ("16GiB") for a card
            with this memory and the compute capability of an A100. A name without a size, such as
            "A100", stands for a whole card (no MIG part) with the least memory.

    Returns:
        The card; a `Card` is returned unchanged.

    Raises:
        OptionError: for an unknown name; the message suggests names.

    Example:
        >>> find("a100-40gb").name, find("16 GiB").usable >> 30
        ('A100 40GB PCIe', 16)
    """
    if isinstance(text, Card):
        return text
    found = _by_key().get(_key(text))
    if found is not None:
        return found
    try:
        size = parse_bytes(text)
    except OptionError:
        size = 0
    if size:
        return Card(format_bytes(size), size, size, *PLAIN)
    names = [card.name for card in all_cards()]
    near = difflib.get_close_matches(text.upper(), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known cards are {', '.join(names)}."
    raise OptionError(f"no card is called {text!r}; {hint} '24GiB' stands for any card with 24 GiB")


@cache
def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cards.json").read_text())
    return rows


@cache
def _by_key() -> dict[str, Card]:
    """Return the cards by all their names, normalised by `_key`."""
    found: dict[str, Card] = {}
    for row, card in zip(_rows(), all_cards(), strict=True):
        for name in (card.name, *row.get("aliases", ())):
            found.setdefault(_key(name), card)
    return found


def _key(name: str) -> str:
    """Return a name in lower case, without optional words and separators, with sorted words."""
    return " ".join(sorted(re.findall(r"[a-z]+|[0-9]+", _NOISE.sub("", name.lower()))))


def _card(row: dict[str, Any]) -> Card:
    """Create a card from a row of `cards.json`, which has the units of data sheets."""
    memory = int(row["memory_gib"] * 2**30)
    total = row["total_mib"]
    share = f"{UNREPORTED:.1%} of the nominal memory, because no report is known"
    return Card(
        name=row["name"],
        memory=memory,
        usable=int(memory * UNREPORTED) if total is None else total << 20,
        capability=(row["capability"][0], row["capability"][1]),
        multiprocessors=row["multiprocessors"],
        bandwidth=row["bandwidth_gbs"] * 1e9,
        flops={kind: rate * 1e12 for kind, rate in row["tflops"].items()},
        source=row["source"],
        usable_source=row.get("total_report", share),
        integrated=row.get("integrated", False),
    )
