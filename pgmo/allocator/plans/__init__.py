"""Plans of a session: planning, installation in the engine, and storage."""
