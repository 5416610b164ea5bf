"""Values that wait on the host during a step: their memory and their transfers."""
