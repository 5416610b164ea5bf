"""A session: what it records, plans and serves, from one iteration to the next."""
