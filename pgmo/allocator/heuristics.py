"""Heuristics of pgmo: every number by which it decides, with its unit and its reason.

None of them can make a result wrong, or two blocks overlap: they trade memory against time, and
patience against haste. Those of the native parts are in csrc/heuristics.hpp as well; a test
compares defaults and words.

    heuristics.use(Heuristics(price=0))    # before the first session of the process
"""

from dataclasses import dataclass

from pgmo import _core


@dataclass(frozen=True)
class Heuristics:
    """Every heuristic of sessions, plans and pages. Shares are fractions.

    Example:
        >>> Heuristics(price=0).price
        0
    """

    # --- recording ---

    followers: int = 2
    """Complete iterations after the reference before it is planned.

    Unit: iterations. Reason: they show what is freed later.
    """

    longest_recording: int = 24
    """Maximum number of iterations of one recording.

    Unit: iterations. Reason: longer ones take time to compare.
    """

    most_tagged: int = 3
    """Maximum number of tagged iterations, where something is compiled in each.

    Unit: iterations. Reason: tags slow an iteration down, and one that compiles is not watched to
    its end.
    """

    shortest_backoff: int = 4
    """Iterations between the first and the second recording of a program that does not repeat.

    Unit: iterations, twice as many after each further recording. Reason: a program may only be
    warming up.
    """

    longest_backoff: int = 256
    """Maximum number of iterations between two such recordings, or between two plans of a program
    whose sizes keep growing.

    Unit: iterations. Reason: a program that begins to repeat later is still found.
    """

    # --- saved plans ---

    same_program_share: float = 0.5
    """Minimum share of the first iteration's requests that a saved plan expects, to serve.

    Unit: share of requests. Reason: a first iteration at another length, or from a checkpoint, has
    only half of them.
    """

    alike_share: float = 0.8
    """Minimum share of requests that two iterations of one program have in common: a first and a
    steady one, or one and the plan that another rank has saved.

    Unit: share of the shorter one's requests. Reason: a plan of FSDP's in a world of another size
    has three quarters of them, the next run of a program 0.97 and more.
    """

    equal_share: float = 1 / 3
    """Minimum share of these with equal sizes.

    Unit: share of the requests in common. Reason: gradients and temporaries of the optimizer have
    equal sizes at any length.
    """

    # --- plans ---

    search_gap: float = 0.005
    """Gap between the arenas of several streams and their loads from which on a packer searches.

    Unit: share of the loads. Reason: each arena ends amid a page, and their order takes its share.
    """

    # --- plans for several lengths ---

    union_load: float = 1.02
    """Maximum load of a plan for several lengths.

    Unit: multiple of the largest member's. Reason: a union has blocks that are never alive
    together.
    """

    far_apart: float = 16
    """Ratio of two sizes of one request from which on it is not one request at two lengths.

    Unit: ratio. Reason: a prompt and a single token are different programs.
    """

    # --- installation ---

    room_share: float = 0.003
    """Maximum number of pages that a plan may add, rounded up.

    Unit: share of the most that windows held. Reason: a request costs a tenth of what it does in a
    window, and no program is to need more memory with a plan.
    """

    price: float = 1.0
    """Pages that windows have to have moved before a plan for varying lengths serves.

    Unit: multiple of the plan's pages. Reason: to map a plan's pages costs as many calls.
    """

    most_excess: float = 2
    """Maximum number of pages that a plan may move beyond those that windows would have moved.

    Unit: multiple of the plan's pages. Reason: its pages come to it once.
    """

    # --- replay ---

    worthwhile_share: float = 0.6
    """Minimum share of bytes that plans serve of a program that has departed from them, to be kept.

    Unit: share of bytes. Reason: below it an arena costs more than it saves.
    """

    # --- arenas ---

    shrink_share: float = 0.9
    """Size of a new arena below which the old one is exchanged for it.

    Unit: share of the old arena. Reason: for both arenas to exist costs more than the rest.
    """

    # --- threads ---

    turn_patience: int = 4
    """Iterations of another thread in a row, after which the session follows that one.

    Unit: iterations. Reason: a thread may end a few iterations and go.
    """

    tail_share: float = 1 / 8
    """Maximum number of a thread's requests after its step that count as its tail.

    Unit: share of the iteration's requests. Reason: beyond it they are an iteration that another
    thread runs at the same time.
    """

    thread_share: float = 0.05
    """Minimum number of requests of a thread that counts among those that request memory.

    Unit: share of the iteration's requests. Reason: a helper that copies a batch is no second
    program.
    """

    # --- which request of a plan one is ---

    first_requests: int = 16
    """First requests of an iteration that choose among several plans.

    Unit: requests. Reason: structures that begin alike for longer are told apart as they go on.
    """

    look_ahead: int = 16
    """Requests ahead of the cursor, and behind it, in which one that is not expected is searched.

    Unit: requests, each of which a miss costs a comparison. Reason: with more, a block that is new
    to the program and stays is more often given the slot of another one, which it holds then.
    """

    most_shrinkage: int = 256
    """Ratio by which a varying request may be smaller than planned, while its size is not known.

    Unit: ratio. Reason: what grows with the square of a length has this one at a sixteenth of it. A
    number that is logged is smaller still than the tensors that a plan has there.
    """

    most_growth: int = 4
    """Maximum size of a varying request, while no length as large was planned.

    Unit: multiple of its planned size. Reason: with 2 or 16 fewer bytes were served.
    """

    most_stretches: int = 3
    """Maximum number of times in an iteration that its plan is made larger.

    Unit: times. Reason: more are for sizes that follow no law.
    """

    # --- pages ---

    small_block: int = 1 << 20
    """Requests below it lie in windows of their own. How much of a block the program touches is
    inspected from this size on.

    Unit: bytes. Reason: a page that a small block keeps is full of small blocks then. PyTorch draws
    the same line.
    """

    slot_waste: float = 1 / 128
    """Maximum waste at the ends of a planned range's slots, of the bytes in them, while a program
    departs from its plan. Slots that waste more are refused.

    Unit: share of bytes. Reason: windows waste about as much.
    """

    stale_mappings: int = 1 << 16
    """Maximum number of mappings that stay although their page is used elsewhere.

    Unit: mappings. Reason: one that is still right when its address is used again saves two driver
    calls; all of them would cost the driver memory and time.
    """

    freed_per_event: int = 64 << 20
    """Bytes freed on a stream after which an event is recorded there.

    Unit: bytes. Reason: whoever has to wait later finds an event that is not too late.
    """

    missing_patience: int = 3
    """Iterations in a row in which a plan lacks pages, before pages are created for it.

    Unit: iterations. Reason: some that idle elsewhere come free within two.
    """

    few_pages: float = 0.01
    """Maximum number of pages that are created for a plan at a time, where it is not known how many
    it needs.

    Unit: share of the plan's pages. Reason: with one too few, a page moves in each iteration.
    """

    most_arrangements: int = 64
    """Maximum number of iterations in which a plan's pages are rearranged or given back, or in
    which a range whose pages others need is counted.

    Unit: iterations. Reason: an arrangement that is not complete by then never is.
    """

    # --- pages of a planned arena ---

    departing_share: float = 1 / 16
    """Maximum bytes of an iteration without a slot, while it counts as following its plan.

    Unit: share of the iteration's bytes. Reason: where more is missed, slots lie apart from each
    other, each with the rest of two pages to itself.
    """

    followed: int = 2
    """Iterations in a row that follow their plan, before pages are mapped for it again.

    Unit: iterations. Reason: where iterations that follow take turns with others, pages would go
    back and forth.
    """

    # --- arenas of the CPU ---

    lending_slack: int = 2 << 20
    """Bytes beyond what the program needs at which idle pages of an arena are returned.

    Unit: bytes. Reason: each return costs calls of the system.
    """

    lending_step: float = 1 / 16
    """Further bytes without a slot, before idle pages are returned again in the same iteration.

    Unit: share of what the program needs. Reason: each return costs calls of the system.
    """

    lending_spread: float = 1 / 8
    """Bytes beyond what the program needs over which slots alone may spread.

    Unit: share of what the program needs. Reason: with a sixteenth the returns of an iteration are
    used up before its peak, where there are thousands of requests: trl's GRPO took 4 MiB more.
    """

    lending_sweeps: int = 8
    """Maximum number of such returns for slots in an iteration.

    Unit: returns. Reason: one with many requests would spend its time on them.
    """


current = Heuristics()
"""The heuristics of this process."""

NATIVE = tuple(name for name in vars(_core.Heuristics) if not name.startswith("_"))
"""Names of those that the native parts decide by."""


def use(chosen: Heuristics) -> None:
    """Replace the heuristics of this process.

    Engines, and the pages of a device, keep those that were in use when they were made. So this is
    called before the first session.

    Args:
        chosen: all of them; what is not named has its default.

    Example:
        >>> use(Heuristics())
    """
    global current
    native = _core.Heuristics()
    for name in NATIVE:
        setattr(native, name, getattr(chosen, name))
    _core.use_heuristics(native)
    current = chosen
