"""The rules that `rules.py` switches off: values of their numbers under which they do nothing.

What decides in Python is in pgmo/allocator/tuning.py, the engine's numbers are in
csrc/engine/tuning.hpp, and those of pages in csrc/pages/tuning.hpp. What is only about threads,
saved plans or tracing is not among them: no loop here has it.
"""

from dataclasses import dataclass, field

INFINITE = float("inf")
NEVER = 1 << 30

PARTS = ("pages", "matching", "recording", "plans")


@dataclass(frozen=True)
class Rule:
    """One rule, and how it is switched off.

    Args:
        part: of `PARTS`.
        what: it does, when it is on.
        off: the values without it, by the name of the number.
    """

    part: str
    what: str
    off: dict[str, float] = field(default_factory=dict)


RULES = {
    # csrc/pages/tuning.hpp
    "small_window": Rule("pages", "small blocks have a window of their own", {"small": 0}),
    "waste": Rule("pages", "slots that waste pages are refused after a departure", {"waste": 1}),
    "stale": Rule("pages", "mappings stay when their page is used elsewhere", {"most_stale": 0}),
    # csrc/engine/tuning.hpp
    "departing": Rule(
        "matching", "slots need mapped pages after a departure", {"kDepartingShare": 2}
    ),
    "followed": Rule("matching", "and until two iterations follow their plans", {"kFollowed": 0}),
    "prefix": Rule("matching", "first requests choose among plans", {"kPrefix": 0}),
    "look_ahead": Rule("matching", "a request is looked for around the cursor", {"kLookAhead": 0}),
    "numbers": Rule("matching", "a number is no tensor at another size", {"kNumber": 0}),
    # pgmo/allocator/tuning.py
    "followers": Rule("recording", "two more iterations are recorded", {"FOLLOWERS": 0}),
    "backoff": Rule("recording", "ever more rarely where nothing repeats", {"LONGEST_BACKOFF": 4}),
    "longest": Rule("recording", "longer for structures in turn", {"LONGEST_RECORDING": 0}),
    "price": Rule("plans", "plans for varying lengths wait until they pay", {"PRICE": 0}),
    "room": Rule("plans", "and until they have room", {"ROOM_PAGES": NEVER}),
    "excess": Rule("plans", "they go where they cost more", {"MOST_EXCESS": INFINITE}),
    "union": Rule("plans", "one plan for all lengths of a program", {"UNION_REQUESTS": 0}),
    "union_limits": Rule(
        "plans",
        "unless they have too little in common",
        {"UNION_REQUESTS": INFINITE, "UNION_LOAD": INFINITE},
    ),
    "worthwhile": Rule("plans", "plans that serve too little go", {"WORTHWHILE_SHARE": 0}),
}
"""By name, in the order of the parts."""
