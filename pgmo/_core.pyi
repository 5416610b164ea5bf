"""
Native parts of pgmo: the packers, the engine and the search for recomputation.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing

__all__: list[str] = [
    "Block",
    "Engine",
    "Step",
    "UNCUTTABLE",
    "end_blocks",
    "engine_api",
    "max_load",
    "min_cut",
    "next_tag_generation",
    "pack",
    "packers",
    "pages_api",
    "set_tag",
    "solve",
]

class Block:
    """
    Owns one block; its end releases the block.
    """

class Engine:
    """
    Records and replays the requests of one framework allocator.
    """
    def __init__(self) -> None: ...
    def add_arena(
        self,
        stream: typing.SupportsInt | typing.SupportsIndex,
        begin: typing.SupportsInt | typing.SupportsIndex,
        base: typing.SupportsInt | typing.SupportsIndex,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        give_back: typing.SupportsInt | typing.SupportsIndex = 0,
        context: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None:
        """
        One more arena, of this stream, for the offsets from `begin` on.
        """
    def add_plan(
        self,
        size: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        stream_index: typing.Annotated[numpy.typing.ArrayLike, numpy.uint32],
        varying: typing.Annotated[numpy.typing.ArrayLike, numpy.bool],
        end: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        offset: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        alternate: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        streams: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        arena_bytes: typing.SupportsInt | typing.SupportsIndex,
        alignment: typing.SupportsInt | typing.SupportsIndex,
    ) -> int:
        """
        Adds a plan that the caller has validated; one row per request. Returns its number.

        Raises ValueError when a row is malformed or the arena is too small.
        """
    def add_spill(
        self,
        begin: typing.SupportsInt | typing.SupportsIndex,
        base: typing.SupportsInt | typing.SupportsIndex,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        give_back: typing.SupportsInt | typing.SupportsIndex = 0,
        context: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None:
        """
        An arena for slots of every stream whose offsets lie behind all others, from `begin` on; it comes before the others.
        """
    def adopt(
        self,
        pointer: typing.SupportsInt | typing.SupportsIndex,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        stream: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> bool:
        """
        Tells of a block that the framework provided. True: release it through the engine.
        """
    def adopt_block(
        self,
        pointer: typing.SupportsInt | typing.SupportsIndex,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        stream: typing.SupportsInt | typing.SupportsIndex,
        memory: typing.Any,
    ) -> typing.Any:
        """
        An object, the end of which releases a block that the framework provided, and then lets
        go of `memory`. None: the engine need not hear of it.
        """
    def allocate(
        self,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        stream: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> int:
        """
        A slot's address, or 0: ask the framework.
        """
    def allocate_block(
        self,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        stream: typing.SupportsInt | typing.SupportsIndex,
    ) -> typing.Any:
        """
        A slot as an object, the end of which frees it, or None: ask the framework.
        """
    def attach_arena(
        self,
        base: typing.SupportsInt | typing.SupportsIndex,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        give_back: typing.SupportsInt | typing.SupportsIndex = 0,
        context: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> None:
        """
        Serves from this range from now on. The previous arena is given back, by calling
        give_back(context), when its last block has died.
        """
    def delegate_thread(self, thread: typing.SupportsInt | typing.SupportsIndex, on: bool) -> None:
        """
        Delegates all requests of one thread, by its native id, or no more.
        """
    def detach_arena(self) -> None:
        """
        Stops serving; the arena is given back when its last block has died.
        """
    def end_iteration(self) -> None: ...
    def events(self, start: typing.SupportsInt | typing.SupportsIndex = 0) -> numpy.ndarray:
        """
        The events from number `start` on, as a structured array (pgmo.profiler.recording).
        """
    def expect_tags(self, generation: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Records only tags of this generation from now on; 0: none.
        """
    def forget_recording(self) -> None:
        """
        Gives back the memory of the events, of which none is left. Recording, if it is on,
        goes on from an empty record.
        """
    def keep_forever(self) -> None:
        """
        Never destroys the engine: an adapter is about to hand out its blocks.
        """
    def living(self) -> numpy.ndarray:
        """
        Blocks alive between two iterations, as a structured array: address, bytes, kind. The kind
        is 0 for the framework's, 1 for one in its slot, 2 for one in a slot past its end.
        """
    def owns(self, pointer: typing.SupportsInt | typing.SupportsIndex) -> bool:
        """
        Whether the address lies in an arena.
        """
    def pause(self) -> None:
        """
        Delegates everything until `resume`.
        """
    def release(self, pointer: typing.SupportsInt | typing.SupportsIndex) -> bool:
        """
        True: it was a slot. False: hand it to the framework.
        """
    def remove_plans(self) -> None:
        """
        Stops serving and forgets all plans.
        """
    def reserve_arena(
        self,
        space: typing.SupportsInt | typing.SupportsIndex,
        bytes: typing.SupportsInt | typing.SupportsIndex,
        stream: typing.SupportsInt | typing.SupportsIndex,
    ) -> tuple[int, int, int, int]:
        """
        Addresses for an arena, whose pages come as slots need them: base, bytes, give_back
        and context. The base is 0 where there are none.
        """
    def reset_peaks(self) -> None: ...
    def resume(self) -> None: ...
    def select_plan(self, plan: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        The next iteration starts with this plan.
        """
    def shared(
        self,
        pointer: typing.SupportsInt | typing.SupportsIndex,
        stream: typing.SupportsInt | typing.SupportsIndex,
    ) -> bool:
        """
        Tells that the block is used on this stream. True: its release has to be put off.
        """
    def start_recording(self) -> None:
        """
        Forgets earlier events and records.
        """
    def start_serving(self) -> None: ...
    def statistics(self) -> dict[str, int]:
        """
        Counters since the engine was made, and levels now.
        """
    def stop_recording(self) -> None:
        """
        Stops recording; the events remain.
        """
    def stop_serving(self) -> None: ...
    def take_grown(self) -> list[tuple[int, int]]:
        """
        (request, bytes) of varying requests larger than their slots, since the last call.
        """
    def threads(self) -> list[tuple[int, int, int, int]]:
        """
        Of each thread that has requested something in this iteration: its native id, ordinals of
        its first and last request, and how many there were. Without delegated ones.
        """
    def yield_idle(self) -> bool:
        """
        Gives back arenas in which nothing is alive. True: there were some, so ask the
        framework again.
        """
    @property
    def busy(self) -> bool:
        """
        Whether it records or serves.
        """
    @property
    def handle(self) -> int:
        """
        The pgmo_engine pointer for adapters.
        """
    @property
    def has_arena(self) -> bool: ...
    @property
    def recording_truncated(self) -> bool:
        """
        Whether memory for recording ran out.
        """
    @property
    def selected_plan(self) -> int: ...

class Step:
    """
    One training step as flat columns; evaluates choices.
    """
    def __init__(
        self,
        forward: typing.SupportsInt | typing.SupportsIndex,
        reads_begin: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        reads: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        writes_begin: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        writes: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        cost: typing.Annotated[numpy.typing.ArrayLike, numpy.float64],
        workspace: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        size: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
        producer: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        result: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8],
        pinned: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8],
    ) -> None: ...
    def evaluate(
        self, choice: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8]
    ) -> tuple[int, float]:
        """
        Peak in bytes and cost of what runs twice, for a choice (forward,) of 0 and 1.
        """
    def search(
        self,
        candidates: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        start: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8],
        budget: typing.SupportsInt | typing.SupportsIndex,
        evaluations: typing.SupportsInt | typing.SupportsIndex,
        time_limit: typing.SupportsFloat | typing.SupportsIndex,
        seed: typing.SupportsInt | typing.SupportsIndex,
    ) -> tuple:
        """
        Improves the choice `start` (forward,): cheapest with a peak within `budget` bytes,
        or the least peak for a budget of -1.

        Returns choice, peak, cost, evaluations, and (evaluations, peak, cost) for each
        improvement. The same for the same seed unless `time_limit` seconds pass. Releases the
        GIL; not to be called from two threads on one object.
        """

def end_blocks(on: bool = True) -> None:
    """
    From now on blocks end without being released: the interpreter is ending.
    """

def engine_api() -> int:
    """
    Address of the table of functions in pgmo_engine.h, for adapters.
    """

def max_load(
    size: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    lower: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    upper: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    period: typing.SupportsInt | typing.SupportsIndex,
    alignment: typing.SupportsInt | typing.SupportsIndex,
) -> int:
    """
    Largest sum of aligned sizes alive at one tick, in bytes.
    """

def min_cut(
    nodes: typing.SupportsInt | typing.SupportsIndex,
    tail: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    head: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    capacity: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    source: typing.SupportsInt | typing.SupportsIndex,
    sink: typing.SupportsInt | typing.SupportsIndex,
) -> tuple[int, numpy.typing.NDArray[numpy.uint8]]:
    """
    Least capacity between two nodes of a graph with edges (m,), and the nodes on the
    side of the source (nodes,).
    """

def next_tag_generation() -> int:
    """
    A number for the tags of one tagger, other than any before.
    """

def pack(
    packer: str,
    size: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    lower: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    upper: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    period: typing.SupportsInt | typing.SupportsIndex,
    alignment: typing.SupportsInt | typing.SupportsIndex,
    time_limit: typing.SupportsFloat | typing.SupportsIndex,
) -> tuple[numpy.typing.NDArray[numpy.int64], bool]:
    """
    Offsets (n,) in bytes for blocks with sizes (n,) and lifetimes [lower, upper), and
    whether Ctrl-C came.

    After `time_limit` seconds, or Ctrl-C, the rest is stacked above what is placed until then.
    Raises ValueError naming the row when the problem is malformed. Releases the GIL.
    """

def packers() -> list[str]:
    """
    Names of the packers, fastest first.
    """

def pages_api() -> int:
    """
    Address of the table of functions in pgmo_pages.h, for adapters.
    """

def set_tag(
    tag: typing.SupportsInt | typing.SupportsIndex,
    generation: typing.SupportsInt | typing.SupportsIndex,
) -> None:
    """
    Tags the blocks that the calling thread requests from now on; -1 removes the tag.
    Only engines that expect this generation of tags take note.
    """

def solve(
    method: str,
    size: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    lower: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    upper: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    period: typing.SupportsInt | typing.SupportsIndex,
    alignment: typing.SupportsInt | typing.SupportsIndex,
    offsets: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    bound: typing.SupportsInt | typing.SupportsIndex,
    time_limit: typing.SupportsFloat | typing.SupportsIndex,
    threads: typing.SupportsInt | typing.SupportsIndex,
    seed: typing.SupportsInt | typing.SupportsIndex,
    observer: typing.Any,
) -> dict:
    """
    Improves the packing `offsets` (n,) by "search" or "branch-and-bound".

    Returns offsets, arena and bound in bytes, optimal, interrupted and work, after at most
    `time_limit` seconds or as soon as no packing can be better. The observer is called in this
    thread with (seconds, arena, bound, source) for each improvement. Releases the GIL.
    """

UNCUTTABLE: int = 2305843009213693951
