"""Graphics cards: usable memory, bandwidth and peak rates.

`card.py` defines a card as a value, `catalog.py` reads `cards.json` and finds cards by name.
"""

from pgmo.cards.card import Card
from pgmo.cards.catalog import all_cards, find

__all__ = ["Card", "all_cards", "find"]
