"""What is known of each block: who asked for it, when it lived, where the framework put it."""
