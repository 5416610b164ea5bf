"""Share of requests that a plan served in a session."""


def later_hit_rate(session, last=6):
    """Return the share of the requests of the last iterations that came from slots."""
    iterations = session.history[-last:]
    assert all(one.phase == "replay" for one in iterations)
    return sum(one.hits for one in iterations) / sum(one.requests for one in iterations)
