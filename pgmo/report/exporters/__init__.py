"""Profiles and plans in other tools' formats, one format a file."""
