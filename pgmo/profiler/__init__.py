"""Events of a recording -> `Profile`: what one iteration allocates, when, and who asked for it."""
