"""File descriptors of the broker: how many it may open, and how many clients that allows."""

import os
import resource

MOST_MEMBERS = 1000
"""Members that one broker serves. Each is a process on a card, so real machines stay far below."""

GUESTS = 32
"""Connections beyond the members', for `status` queries and for clients that are being refused."""

_PER_MEMBER = 2  # its connection, and the pidfd of its process
_OTHERS = 16  # what the interpreter and the command beside the broker open later


def member_capacity() -> int:
    """Raise the limit on descriptors as far as the broker needs, and return how many members fit.

    The soft limit is raised to the hard limit at most, and no further than `MOST_MEMBERS` need:
    a command that the broker starts inherits it.
    """
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    fixed = opened + GUESTS + _OTHERS
    needed = fixed + _PER_MEMBER * MOST_MEMBERS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = _at_least(soft, needed)
    if allowed < needed:
        allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        except (OSError, ValueError):
            allowed = soft
    return max(1, min(MOST_MEMBERS, (allowed - fixed) // _PER_MEMBER))


def _at_least(soft: int, needed: int) -> int:
    return needed if soft == resource.RLIM_INFINITY else soft
