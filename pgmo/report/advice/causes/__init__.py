"""Causes of a peak: one rule per file, with the fix and the bytes that it saves."""
