"""What a profile says: who holds memory, what leaks, what would help; as values, text and pages."""
