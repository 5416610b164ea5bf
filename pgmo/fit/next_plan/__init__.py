"""How a run goes on that has run out of memory."""
