"""The cards that are known, and finding one by what people write."""

import difflib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from pgmo.cards.card import Card
from pgmo.errors import OptionError
from pgmo.units import format_bytes, parse_bytes

UNREPORTED = 0.917
"""Share of the label that is usable where no report was found: a little below the least reported.

That is an L4's, whose memory keeps its own error correction. A card without it has more.
"""

PLAIN = ((8, 0), 108)
"""Capability and multiprocessors of a card that is only a size: those of an A100."""

_NOISE = re.compile(r"nvidia|geforce|tesla|quadro|generation|(?<=sxm)\d|(?<=hbm)\d")


@cache
def all_cards() -> tuple[Card, ...]:
    """Every card of `cards.json`, in the order of the file.

    Example:
        >>> len(all_cards()) > 30, all_cards()[0]
        (True, Card('T4', 14.7 GiB usable))
    """
    return tuple(_card(row) for row in _rows())


def find(text: str | Card) -> Card:
    """The card that somebody means.

    Args:
        text: a name as it is commonly written ("RTX 4090", "A100-40GB", "NVIDIA L4"), or a size
            ("16GiB") for a card that is nothing but that; its capability is then an A100's. Of
            cards that differ in more than was said, the one with the least memory is meant.

    Returns:
        The card; a `Card` comes back as it is.

    Raises:
        OptionError: for a name that is not known; the message has those that come near.

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
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(names)}."
    raise OptionError(f"no card is called {text!r}; {hint} '24GiB' stands for any card that has it")


@cache
def _rows() -> list[dict[str, Any]]:
    """The rows of the file."""
    rows: list[dict[str, Any]] = json.loads(Path(__file__).with_name("cards.json").read_text())
    return rows


@cache
def _by_key() -> dict[str, Card]:
    """Cards by every name that they go by, in the form that `_key` gives it."""
    found: dict[str, Card] = {}
    for row, card in zip(_rows(), all_cards(), strict=True):
        for name in (card.name, *row.get("aliases", ())):
            found.setdefault(_key(name), card)
    return found


def _key(name: str) -> str:
    """A name without what people leave out, order and separators among it."""
    return " ".join(sorted(re.findall(r"[a-z]+|[0-9]+", _NOISE.sub("", name.lower()))))


def _card(row: dict[str, Any]) -> Card:
    """A card from its row, whose units are those of data sheets."""
    memory = int(row["memory_gib"] * 2**30)
    total = row["total_mib"]
    share = f"{UNREPORTED:.1%} of the label, for want of a report"
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
    )
