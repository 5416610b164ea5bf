"""Rules that `rules.py` switches off, by values of heuristics under which they do nothing.

The heuristics are those of pgmo/allocator/heuristics.py. Heuristics of threads, saved plans,
tracing and the CPU are missing, because no loop of the benchmark uses them.
"""

from dataclasses import dataclass, field

PARTS = ("pages", "matching", "recording", "plans")


@dataclass(frozen=True)
class Rule:
    """Rule, and the values that switch it off.

    Args:
        part: one of `PARTS`.
        what: effect of the rule, for the table.
        off: values by name of the heuristic.
    """

    part: str
    what: str
    off: dict[str, float] = field(default_factory=dict)


RULES = {
    "small_window": Rule("pages", "small blocks have a window of their own", {"small_block": 1}),
    "stale": Rule(
        "pages", "mappings stay when their page is used elsewhere", {"stale_mappings": 0}
    ),
    "arrangements": Rule(
        "pages", "pages are arranged as plans share them", {"most_arrangements": 0}
    ),
    "spare": Rule("pages", "plans and packings waste at most 0.5 %", {"spare_share": 1}),
    "look_ahead": Rule(
        "matching", "an unexpected request is searched in the plan nearby", {"look_ahead": 0}
    ),
    "lengths": Rule("matching", "a request may have another length", {"length_ratio": 1}),
    "confirmations": Rule(
        "recording", "two more iterations must confirm one", {"confirmations": 0}
    ),
    "backoff": Rule("recording", "recordings get rarer if nothing repeats", {"longest_backoff": 4}),
    "period": Rule(
        "recording", "steps that repeat only together are one iteration", {"longest_period": 1}
    ),
    "price": Rule("plans", "plans for varying lengths wait until they pay", {"price": 0}),
    "worthwhile": Rule("plans", "plans that serve too little are removed", {"worthwhile_share": 0}),
}
"""Rules by name, in the order of the parts."""
