"""Limit of the broker's file descriptors, and the number of clients that it allows."""

import os
import resource

MOST_MEMBERS = 1000
"""Maximum number of members (processes on a card) of one broker. Real machines have far fewer."""

GUESTS = 32
"""Additional connections for `status` queries and for clients that are refused."""

_PER_MEMBER = 2  # its connection, and the pidfd of its process
_OTHERS = 16  # opened later by the interpreter and by a command that the broker starts


def member_capacity() -> int:
    """Raise the descriptor limit if necessary, and return the number of members that fit in it.

    The soft limit is raised no further than `MOST_MEMBERS` need, because commands that the broker
    starts inherit this limit.
    """
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    fixed = opened + GUESTS + _OTHERS
    needed = fixed + _PER_MEMBER * MOST_MEMBERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if soft == resource.RLIM_INFINITY else soft
    if allowed < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (OSError, ValueError):
            allowed = soft
    return max(1, min(MOST_MEMBERS, (allowed - fixed) // _PER_MEMBER))
