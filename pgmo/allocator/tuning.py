"""Every number by which sessions decide, with its reason. Shares are fractions.

None of them can make a result wrong, or two blocks overlap: they trade memory against time, and
patience against haste. The engine's own are in csrc/engine/tuning.hpp.
"""

# --- recording ---

FOLLOWERS = 2
"""Complete iterations after the reference before it is planned: they show what is freed later."""

LONGEST_RECORDING = 24
"""Maximum number of iterations of one recording: longer ones take time to compare."""

MOST_TAGGED = 3
"""Maximum number of tagged iterations, where something is compiled in each."""

SHORTEST_BACKOFF = 4
"""Iterations between the first and the second recording of a program that does not repeat; twice as
many after each further one."""

LONGEST_BACKOFF = 256
"""Maximum number of iterations between two such recordings."""

# --- saved plans ---

SAME_PROGRAM_SHARE = 0.5
"""Share of the first iteration's requests that a saved plan has to expect, to be the program's."""

ALIKE_SHARE = 0.8
"""Minimum share of the shorter one's requests that a first iteration and a steady one have in
common, to be of one program."""

EQUAL_SHARE = 1 / 3
"""Minimum share of these with equal sizes, as gradients and temporaries of the optimizer have."""

# --- plans for several lengths ---

UNION_REQUESTS = 1.25
"""Maximum number of requests of a plan for several lengths, as a multiple of the smallest member's:
beyond it they have too little in common."""

UNION_LOAD = 1.02
"""Maximum load of a plan for several lengths, as a multiple of the largest member's: a union has
blocks that are never alive together."""

FAR_APART = 16
"""Ratio of two sizes of one request from which on it is not one request at two lengths."""

# --- installation ---

ROOM_SHARE = 0.003
"""Pages that a plan may add, as a share of the most that windows held."""

ROOM_PAGES = 1
"""Pages that any plan may add: a request costs a tenth of what it does in a window."""

PRICE = 1.0
"""Pages that windows have to have moved before a plan for varying lengths serves, as a multiple of
its pages."""

MOST_EXCESS = 2
"""Pages that a plan may move beyond what windows would have, as a multiple of its pages: once for
those that come to it."""

# --- replay ---

LONGEST_GROWTH = 64
"""Maximum number of iterations between two plans of a program whose sizes keep growing."""

GOOD_SHARE = 0.999
"""Share of an iteration's bytes from slots below which the misses are explained when memory runs
out."""

WORTHWHILE_SHARE = 0.6
"""Minimum share of a program's bytes that plans serve it has departed from, to be kept: below it an
arena costs more than it saves."""

# --- arenas ---

SHRINK_SHARE = 0.9
"""Size of a new arena, as a share of the old one, below which the old one is exchanged for it."""

# --- threads ---

TURN_PATIENCE = 4
"""Iterations of another thread in a row, after which the session follows that one."""

TAIL_SHARE = 1 / 8
"""A thread's requests after its step count as its tail up to this share, and not as an iteration
that another thread runs at the same time."""

TURN_DEADLINE = 60.0
"""Seconds that a session waits for its turn on a device that it shares with others."""

TURN_LOOK = 1.0
"""Seconds after which it checks whether the thread that has the turn still lives."""

THREAD_SHARE = 0.05
"""Share of an iteration's requests from which on a thread counts among those that request
memory."""
