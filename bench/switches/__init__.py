"""The rules that `rules.py` switches off: values of their numbers under which they do nothing.

What decides in Python is in pgmo/allocator/tuning.py, the engine's numbers are in
csrc/engine/tuning.hpp, and those of pages in csrc/pages/tuning.hpp. What is only about threads,
saved plans or tracing is not among them: no loop here has it.
"""

from dataclasses import dataclass, field

INFINITE = float("inf")
NEVER = 1 << 30

PARTS = ("pages", "matching", "first plans", "waiting", "learning", "giving up")


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
    "near": Rule("matching", "a request is looked for a little ahead", {"kNearWindow": 0}),
    "open": Rule("matching", "and still less far where sizes are open", {"kOpenWindow": 0}),
    "far": Rule("matching", "a branch that was skipped is looked for far ahead", {"kFarWindow": 0}),
    "candidates": Rule("matching", "by several places there", {"kMostCandidates": 1}),
    "small_change": Rule(
        "matching", "small requests do not tell that larger ones were left out", {"kSmallChange": 0}
    ),
    "numbers": Rule("matching", "a number is no tensor at another size", {"kNumber": 0}),
    "ratio": Rule("matching", "sizes of one iteration share a factor", {"kRatioTolerance": -1}),
    "any_ratio": Rule("matching", "any factor will do", {"kRatioTolerance": INFINITE}),
    "contradictions": Rule(
        "matching", "two contradictions begin a micro-batch", {"kContradictions": NEVER}
    ),
    "skipped": Rule(
        "matching", "requests that were passed over may come late", {"kMostSkipped": 1}
    ),
    # pgmo/allocator/tuning.py
    "followers": Rule("first plans", "two more iterations are recorded", {"FOLLOWERS": 0}),
    "price": Rule("waiting", "plans wait until they pay", {"WAIT_PRICE": 0}),
    "excess": Rule("waiting", "and give way where they cost more", {"WAIT_EXCESS": INFINITE}),
    "learn_before": Rule("waiting", "they learn before they serve", {"LEARN_BEFORE": 1}),
    "lessons": Rule("learning", "badly served iterations are learned from", {"GOOD_SHARE": 0}),
    "union": Rule("learning", "one plan for all shapes of a program", {"UNION_REQUESTS": 0}),
    "union_limits": Rule(
        "learning",
        "unless they have too little in common",
        {"UNION_REQUESTS": INFINITE, "UNION_LOAD": INFINITE},
    ),
    "headroom": Rule("learning", "some more where lengths rise steadily", {"HEADROOM": 0}),
    "credit": Rule("learning", "lessons are limited", {"MOST_LESSONS": NEVER}),
    "long_lessons": Rule(
        "learning", "long iterations pay more for them", {"LESSON_REQUESTS": NEVER}
    ),
    "disorder": Rule(
        "giving up", "disorderly programs are not recorded again", {"STRANGE_SHARE": 2}
    ),
    "worthwhile": Rule("giving up", "plans that serve too little go", {"WORTHWHILE_SHARE": 0}),
}
"""By name, in the order of the parts."""
