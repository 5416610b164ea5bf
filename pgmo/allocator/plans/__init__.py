"""Plans of a session: how they are made, installed in the engine, and saved."""
