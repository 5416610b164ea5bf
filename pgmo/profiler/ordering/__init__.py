"""Synchronization between a program's streams: the events that it records and waits for."""
