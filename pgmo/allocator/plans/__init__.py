"""Plans in a session: where they come from, which belong together, where they are kept."""
