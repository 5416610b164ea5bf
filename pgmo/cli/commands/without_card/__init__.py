"""Commands about a card that is not there."""
