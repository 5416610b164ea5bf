"""Graphics cards: usable memory, bandwidth and peak rates."""

from pgmo.cards.card import Card
from pgmo.cards.catalog import all_cards, find

__all__ = ["Card", "all_cards", "find"]
