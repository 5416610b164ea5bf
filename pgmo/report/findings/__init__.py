"""What a profile or a trace says: one question a file, answered in values."""
