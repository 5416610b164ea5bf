"""What a session was good for, in one sentence, and what is known about that."""
