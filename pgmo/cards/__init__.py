"""The cards that jobs run on: memory that a program really has, bandwidth, peak rates.

`card.py` has one card as a value, `catalog.py` those of `cards.json` and how one is found by what
people write.
"""

from pgmo.cards.card import Card
from pgmo.cards.catalog import all_cards, find

__all__ = ["Card", "all_cards", "find"]
