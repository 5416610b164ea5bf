"""Heuristics of pgmo: every tunable number, with its unit and its reason.

No value can make a result wrong or two blocks overlap. The heuristics trade memory for time, and
reaction time for certainty. Those of the native parts are also in csrc/heuristics.hpp; a test
compares defaults and words. Safety limits that usual programs never reach are constants in the
modules that use them. So are loop bounds, and values that a device, framework or system prescribes.

    heuristics.use(Heuristics(price=0))    # before the first session of the process
"""

from dataclasses import dataclass

from pgmo import _core


@dataclass(frozen=True)
class Heuristics:
    """Heuristics of sessions, plans and pages. Shares are fractions."""

    # --- recording ---

    confirmations: int = 2
    """Number of further iterations that must confirm an observation before the session acts on it:
    a structure repeats, a plan is followed again, or a plan lacks pages.

    Unit: iterations. Reason: a single iteration may be an exception, later ones show which blocks
    are freed, and some pages that idle elsewhere come free within two.
    """

    usual_recording: int = 5
    """Length of a recording, after which plans are made from it.

    Unit: iterations. Reason: the first one differs, two are compared, and two more show which of
    their blocks are freed.
    """

    longest_recording: int = 24
    """Maximum number of iterations of one recording. Recordings are longer if structures alternate,
    and after rare divergences.

    Unit: iterations. Reason: comparing longer recordings takes too much time.
    """

    shortest_wait: int = 4
    """Length of the first pause between two recordings of a program that does not repeat. A session
    also follows another thread after this many of its iterations in a row.

    Unit: iterations; each further pause is twice as long. Reason: a program may only be warming up,
    and a thread may end only a few iterations.
    """

    longest_backoff: int = 256
    """Maximum pause between two recordings of a program that does not repeat, or between two plans
    of a program whose sizes keep growing.

    Unit: iterations. Reason: a program that begins to repeat later is still planned.
    """

    # --- following a plan ---

    known_share: float = 0.9
    """Minimum share of an iteration's requests that its plan must have. Below it, the iteration did
    not follow the plan, and a saved plan belongs to another program.

    Unit: share of requests. Reason: an FSDP plan from another world size has three quarters of the
    requests, the next run of the same program .97 and more.
    """

    alike_share: float = 0.8
    """Minimum share of requests that the first and a steady iteration of a program have in common.

    Unit: share of the shorter iteration's requests. Reason: stages of a pipeline share less than .9
    of them.
    """

    equal_share: float = 1 / 3
    """Minimum share of the requests common to the first and a steady iteration that have equal
    sizes.

    Unit: share of the common requests. Reason: gradients and temporaries of the optimizer have
    equal sizes at any sequence length.
    """

    # --- plans ---

    search_seconds: float = 1.0
    """Maximum time of a search for a better plan, if fast packers waste memory on several streams.

    Unit: seconds. Reason: the program waits during the search.
    """

    # --- installation ---

    price: float = 4.0
    """Number of pages that windows must have moved before a plan for varying lengths serves.

    Unit: multiple of the pages that are free between two iterations. Reason: a divergence from a
    plan moves about as many pages, and plans diverge a few times before they have the largest size
    of each request. With 0, two models in turn make 249 driver calls per iteration instead of 106,
    and Whisper takes 2.6 % more memory.
    """

    worthwhile_share: float = 0.5
    """Minimum share of a program that plans must serve to be kept.

    Unit: share of bytes after divergences from the plans; share of requests in the first iteration.
    Reason: below it, an arena costs more than it saves. A first iteration at another length, or
    from a checkpoint, has half of the planned requests.
    """

    # --- threads ---

    tail_share: float = 1 / 8
    """Maximum number of a thread's requests after its step that count as the tail of its iteration.

    Unit: share of the iteration's requests. Reason: above it, the thread trains at the same time as
    another one.
    """

    # --- matching requests to a plan ---

    look_ahead: int = 16
    """Number of requests that the search for a request's place in a plan covers. The first ones of
    an iteration select the plan; an unexpected one is searched this far ahead of and behind the
    cursor.

    Unit: requests, each compared on a miss. Reason: with more, a new block that stays alive more
    often gets the slot of another one, and holds it.
    """

    length_ratio: int = 16
    """Maximum ratio of two sequence lengths of one program. While the size of a varying request is
    unknown, it may be larger than planned by this ratio, and smaller by its square.

    Unit: ratio. Reason: a prompt and a single token are different programs. A logged number is even
    smaller than the tensors that a plan has in its place.
    """

    # --- pages ---

    spare_share: float = 0.005
    """Maximum memory wasted to save driver calls or time. It limits the excess of a plan over
    windows, the waste of packers before a search, the ends of slots after a divergence, and the
    pages created at once for a plan.

    Unit: share of the memory concerned. Reason: no program may need more memory with a plan. With
    one page too few, one page moves in each iteration.
    """

    small_block: int = 1 << 20
    """Blocks below this size have windows of their own. The touched part of a block is inspected
    only from this size on, and idle pages of an arena are returned only in at least this amount.

    Unit: bytes. Reason: a page that a small block keeps in use then fills with small blocks.
    PyTorch uses the same limit.
    """

    stale_mappings: int = 1 << 16
    """Maximum number of mappings that are kept although their page is used elsewhere.

    Unit: mappings. Reason: a mapping that is still valid when its address is used again saves two
    driver calls. Keeping all of them would cost the driver memory and time.
    """

    freed_per_event: int = 64 << 20
    """Bytes freed on a stream after which an event is recorded there.

    Unit: bytes. Reason: a stream that waits later then finds an event that is not much later than
    the free.
    """

    most_arrangements: int = 64
    """Maximum number of iterations in which a plan's pages are rearranged or returned, or in which
    a range is counted whose pages are needed elsewhere.

    Unit: iterations. Reason: an arrangement that is incomplete by then never completes.
    """

    # --- arenas of the CPU ---

    lending_share: float = 1 / 8
    """Bytes beyond the program's need over which slots alone may spread. Also the further bytes
    without a slot after which idle pages are returned again in the same iteration.

    Unit: share of the program's need. Reason: with 1/16, an iteration with thousands of requests
    uses up its returns before its peak: trl's GRPO took 4 MiB more.
    """


current = Heuristics()
"""Heuristics of this process."""

NATIVE = tuple(name for name in vars(_core.Heuristics) if not name.startswith("_"))
"""Names of the heuristics that the native parts use."""


def use(chosen: Heuristics) -> None:
    """Replace the heuristics of this process.

    Call this before the first session: engines and the pages of a device keep the heuristics with
    which they were made.
    """
    global current
    native = _core.Heuristics()
    for name in NATIVE:
        setattr(native, name, getattr(chosen, name))
    _core.use_heuristics(native)
    current = chosen
