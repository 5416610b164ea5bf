"""Graphics cards: usable memory, bandwidth and peak rates."""

from pgmo.cards.catalog import Card, all_cards, find

__all__ = ["Card", "all_cards", "find"]
