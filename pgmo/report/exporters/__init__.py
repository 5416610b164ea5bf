"""Exports of profiles and plans to formats of other tools, one format per file."""
