"""How a program orders its streams: the events that it records and waits for."""
