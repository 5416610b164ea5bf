"""Heuristics of pgmo: every tunable number, with its unit and its reason.

No value can make a result wrong or two blocks overlap. Limits for unusual programs, loop bounds,
and values that a device, framework or system prescribes are constants in other modules.

    heuristics.use(Heuristics(price=0))    # before the first session of the process
"""

from dataclasses import dataclass

from pgmo import _core

_native = _core.Heuristics()


@dataclass(frozen=True)
class Heuristics:
    """Heuristics of sessions, plans and pages. Shares are fractions."""

    # --- recording ---

    usual_recording: int = 5
    """Usual length of a recording. Unit: iterations. Reason: the first iteration differs, the next
    two are compared, and two more show which blocks of the compared iterations are freed."""

    longest_recording: int = 24
    """Maximum number of iterations of one recording. Recordings are longer than usual if structures
    alternate, and after rare divergences. Unit: iterations. Reason: comparing more iterations takes
    too much time."""

    longest_period: int = 24
    """Maximum number of steps that pgmo treats as one iteration if requests repeat only after
    several steps. With 1, each step is an iteration. Unit: steps. Reason: if two models train in
    turn, gradients of each model live through a step of the other. In a measured program, pgmo made
    96 driver calls per step with a plan for each step, and none with one plan for both steps."""

    shortest_wait: int = 4
    """Length of the first BACKOFF. Each BACKOFF is twice as long as the previous one. A session
    also begins to serve another thread after that thread has ended this number of iterations while
    the served thread ended none. Unit: iterations. Reason: a program may only be warming up, and a
    thread may run only a few iterations."""

    longest_backoff: int = 256
    """Maximum length of a BACKOFF. Also the maximum distance of two plans of a program whose sizes
    keep growing, and the minimum distance of two tagged recordings. Unit: iterations. Reason: a
    program may begin to repeat later."""

    # --- following a plan ---

    known_share: float = 0.9
    """Minimum share of an iteration's requests that its plan must have. Below it, the iteration did
    not follow the plan, and a saved plan is treated as another program's. Unit: share of requests.
    Reason: an FSDP plan from another world size has 0.75 of the requests; a plan from an earlier
    run of the same program has at least 0.97."""

    alike_share: float = 0.8
    """Minimum share of requests that the first iteration must have in common with a plan of later
    iterations. Below it, the plan of the first iteration is not made from that plan. Unit: share of
    the shorter iteration's requests. Reason: in stages of a pipeline, the share is below 0.9."""

    equal_share: float = 1 / 3
    """Minimum share of the requests in common (`alike_share`) whose sizes the plan of later
    iterations must allow. Unit: share of the requests in common. Reason: gradients and temporaries
    of the optimizer have equal sizes at any sequence length."""

    # --- plans ---

    search_seconds: float = 1.0
    """Maximum time of the search for a better plan. A search runs only if the packers waste memory
    of a plan with several streams. Unit: seconds. Reason: the program waits during the search."""

    # --- installation ---

    price: float = 4.0
    """Minimum number of pages that have moved without a plan before a plan serves, if iterations
    differ. Unit: multiple of the pages that are free between two iterations. Reason: one divergence
    from a plan moves about as many pages as are free, and a few iterations diverge before the plan
    has the largest size of each request. With 0, Whisper took 2.9 % more memory, and a
    Trainer of transformers made 520 driver calls per iteration instead of 37."""

    worthwhile_share: float = 0.5
    """Minimum share of a program that plans must serve to be kept. Unit: in replay, share of
    the requested bytes, except blocks planned without a slot; in a recording, share of the
    requested bytes; in the first iteration, share of the requests. Reason: below this share, an
    arena costs more memory than it saves. In a first iteration at another length, or after loading
    a checkpoint, the plan has at least half of the requests."""

    # --- threads ---

    tail_share: float = 1 / 8
    """Maximum number of requests of a thread, after the end of its iteration, that still belong to
    that iteration. Unit: share of the iteration's requests. Reason: a thread that makes more
    requests trains at the same time as another thread."""

    # --- used by native code; csrc/heuristics.hpp has their values, units and reasons ---

    confirmations: int = _native.confirmations
    look_ahead: int = _native.look_ahead
    length_ratio: int = _native.length_ratio
    spare_share: float = _native.spare_share
    small_block: int = _native.small_block
    stale_mappings: int = _native.stale_mappings
    freed_per_event: int = _native.freed_per_event
    most_arrangements: int = _native.most_arrangements
    lending_share: float = _native.lending_share


current = Heuristics()
"""Heuristics of this process."""

NATIVE = tuple(name for name in vars(_core.Heuristics) if not name.startswith("_"))
"""Names of the heuristics that native code uses."""


def use(chosen: Heuristics) -> None:
    """Replace the heuristics of this process.

    Call this before the first session: engines and page pools copy the heuristics when they are
    created.
    """
    global current
    native = _core.Heuristics()
    for name in NATIVE:
        setattr(native, name, getattr(chosen, name))
    _core.use_heuristics(native)
    current = chosen
