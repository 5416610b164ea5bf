"""What a plan served of a session's iterations."""


def later_hit_rate(session, last=6):
    """Share of the requests of the last iterations that came from slots."""
    iterations = session.history[-last:]
    assert all(one.phase == "replay" for one in iterations)
    return sum(one.hits for one in iterations) / sum(one.requests for one in iterations)
