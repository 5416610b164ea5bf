"""Every number by which sessions decide, with its reason. Shares are fractions.

None of them can make a result wrong, or two blocks overlap: they trade memory against time, and
patience against haste. The engine's own are in csrc/engine/tuning.hpp.
"""

# --- recording ---

FOLLOWERS = 2
"""Complete iterations after the reference before it is planned: they show what is freed later."""

MOST_TAGGED = 3
"""Iterations that are tagged at most, where something is compiled in each."""

# --- the first iteration ---

SAME_PROGRAM_SHARE = 0.5
"""Of the first iteration's requests: those that plans have to expect, to be the program's."""

ALIKE_SHARE = 0.8
"""Of the requests of the shorter one: those that a first iteration and a steady one must both have,
to be of one program."""

EQUAL_SHARE = 1 / 3
"""Of those: the ones that must be of equal size, as gradients and temporaries of the optimizer, or
of one between those of two lengths that are known."""

# --- learning from replayed iterations ---

GOOD_SHARE = 0.999
"""Of an iteration's bytes, from slots: from which on there is nothing to learn from it."""

LONG_WATCH = 256
"""Good iterations in a row after which the program is not watched any more."""

GROWTHS_WITHOUT_HEADROOM = 3
"""Times that a plan is made for just the sizes seen; later ones leave some more."""

RISING_SHARE = 0.9
"""Of an iteration's bytes: what the one before had at least, where lengths rise step by step. Only
then some is left: a plan that is larger than its iterations costs memory."""

HEADROOM = 1 / 16
"""By which later growths are planned larger, at most: twice what it was at the last one."""

MOST_LESSONS = 32
"""Plans that may be made from single iterations, in a row: each keeps the loop waiting."""

LESSON_REQUESTS = 4096
"""Of an iteration, times the plans that it is compared with: from which on such a plan counts as
several. Decoding makes tens of thousands of requests in each, and a plan for them takes seconds;
experts whose batches depend on data have a structure in each iteration."""

LESSON_EARNED = 0.5
"""Of such a plan: what a good iteration adds to those that may be made."""

MISTAKEN_SHARE = 0.02
"""Of a plan's requests: how many more a lesson may add than replay has missed, twice."""

STRANGE_SHARE = 0.05
"""Of an iteration's requests, that no plan expects: from which on it is no other length of a known
structure. Batches of experts have sizes that depend on data."""

MOST_DISORDER = 6
"""The highest score of such iterations; at half of it they are taken for the rule, until it is back
at zero."""

UNION_REQUESTS = 1.25
"""Requests of a plan for several shapes, as a share of those of the smallest: beyond it they have
too little in common."""

FAR_APART = 16
"""The ratio of two sizes of one request from which on replay does not know it again by any length:
`kShrinks` of the engine's."""

UNION_LOAD = 1.02
"""Its largest sum of live bytes, likewise: a union has blocks that are never alive together."""

# --- waiting ---

WAIT_PRICE = 1.0
"""Of a plan's pages: how many windows have to have moved before it serves."""

WAIT_EXCESS = 2.0
"""Of them: how many more than windows a plan may have moved until it gives way."""

ROOM_SHARE = 0.005
"""Pages that a plan may add, as a share of the most that were held; with more it waits."""

ROOM_PAGES = 1
"""Pages that any plan may add: a request costs a tenth of what it does in a window."""

LEARN_BEFORE = 0.5
"""Of what a plan has to pay, before it serves: from which on iterations are learned from, which
takes milliseconds each."""

# --- giving up ---

WORTHWHILE_SHARE = 0.6
"""Of an iteration's bytes, from an arena: below it an arena costs more than it saves."""

RECENT_ITERATIONS = 12
"""The last ones that are looked at for that."""

MOST_POOR = 7
"""Of these: how many may be below it."""

# --- arenas ---

SHRINK_SHARE = 0.9
"""Of an arena: one is exchanged for a smaller one only if that needs less."""

# --- threads ---

TURN_PATIENCE = 4
"""Iterations of another thread in a row, after which the session follows that one."""

TAIL_SHARE = 1 / 8
"""Of a thread's requests: up to which those of its predecessor are what that does after its step,
and not an iteration at the same time."""

TURN_DEADLINE = 60.0
"""Seconds that a session waits for its turn on a device that it shares with others."""

TURN_LOOK = 1.0
"""Seconds after which it looks whether the thread that has the turn still lives."""

THREAD_SHARE = 0.05
"""Of an iteration's requests: from which on a thread counts among those that request memory."""
