"""Adapters for the allocators of frameworks, and sessions, which record and serve their memory."""
