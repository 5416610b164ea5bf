import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.packing.planner import plan
from pgmo.packing.validator import validate
from pgmo.profiler.iterations.opening_profile import build_opening
from pgmo.profiler.iterations.step_finder import best_effort, find_all, find_steady
from pgmo.profiler.profile import NEVER, ProfileMeta
from pgmo.profiler.recording import make_events, split
from pgmo.profiler.tag import Tag
from tests.unit.profiler.examples import profiles


class Log:
    """A recording of blocks that have names; a new request of a name is another block."""

    def __init__(self):
        self.rows, self.blocks, self.requests, self.tags = [], {}, 0, {}

    def ask(self, name, size, tag=-1):
        self.tags[len(self.rows)] = tag
        self.rows.append(("request", size))
        self.blocks[name] = self.requests
        self.requests += 1

    def free(self, name):
        self.rows.append(("free", self.blocks.pop(name)))

    def share(self, name):
        self.rows.append(("shared", self.blocks[name]))

    def step(self):
        self.rows.append(("step",))

    def iterations(self):
        events = make_events(self.rows)
        for row, tag in self.tags.items():
            events["tag"][row] = tag
        return split(events)


PARAMETERS = (4096, 640, 16384, 64)


def train(turns, *, length=lambda _: 8, state=2, log=None, tagged=None, free_late=None):
    """Return the iterations of a loop with Adam.

    Gradients live into the next iteration, and the first iteration makes the optimizer's state.
    """
    log = log or Log()
    for turn in range(turns):
        tag = 0 if turn == tagged else -1
        log.ask("x", 100 * length(turn), tag)
        for layer, size in enumerate(PARAMETERS):
            log.ask(f"a{layer}", size // 64 * length(turn) + 4, tag)
        if turn == 0:
            log.ask("workspace", 1 << 20)
        if turn:
            for layer in range(len(PARAMETERS)):
                log.free(f"g{layer}")
        for layer, size in reversed(list(enumerate(PARAMETERS))):
            log.ask(f"g{layer}", size, tag)
            log.free(f"a{layer}")
        log.free("x")
        for layer, size in enumerate(PARAMETERS):
            for moment in range(state if turn == 0 else 0):
                log.ask(f"s{layer}.{moment}", size)
            log.ask("t", size, tag)
            log.free("t")
        if free_late is not None and turn == free_late:
            log.free("workspace")
        log.step()
    return log.iterations()


def opening_of(iterations, **options):
    return build_opening(iterations, find_steady(iterations), **options)


@st.composite
def programs(draw):
    """Draw an iteration, and its extra requests in the first one: (position, whether it stays)."""
    structure = draw(profiles(12))
    births = draw(
        st.lists(st.tuples(st.integers(0, structure.ticks), st.booleans()), max_size=6, unique=True)
    )
    return structure, sorted(births)


@given(programs(), st.integers(4, 6))
def test_every_lifetime_is_the_one_played(program, turns):
    structure, births = program
    ticks = structure.ticks
    # The row of each request of the structure in the opening, and the end of the opening.
    place = [row + sum(at <= row for at, _ in births) for row in range(ticks + 1)]
    total = place[ticks]
    log, expected, due = Log(), {}, {}
    for turn in range(turns):
        for row in range(ticks + 1):
            now = turn * ticks + row
            if turn == 0:
                for number, (at, stays) in enumerate(births):
                    if at == row:
                        # No request of the structure has this size.
                        log.ask(f"birth {number}", (1 << 21) + number)
                        expected[log.requests - 1] = NEVER if stays else total
            if row == ticks:
                break
            for name in due.pop(now, []):
                log.free(name)
            log.ask(f"{turn}.{row}", int(structure.size[row]))
            end = int(structure.end[row])
            if end != NEVER:
                due.setdefault(turn * ticks + end, []).append(f"{turn}.{row}")
            if turn == 0:
                over, at = divmod(end - 1, ticks)  # an end at a boundary is in the earlier one
                played = over * total + place[at + 1]
                expected[log.requests - 1] = NEVER if end == NEVER else played
        if turn == 0:
            for number, (_, stays) in enumerate(births):
                if not stays:
                    log.free(f"birth {number}")
        log.step()
    iterations = log.iterations()
    opening = opening_of(iterations)
    if not births:
        assert opening is None
        return
    assert opening.end.tolist() == [expected[row] for row in range(total)]
    validate(plan(opening))


def test_other_lengths_follow():
    """The opening has the sizes of its own iteration, even if those of others are larger."""
    fixed, varied = train(4), train(4, length=lambda turn: (4, 8, 6, 8)[turn])
    assert find_steady(varied).kind == "fit"
    opening = opening_of(varied)
    assert opening.size.tolist() == varied[0].size.tolist()
    assert opening.end.tolist() == opening_of(fixed).end.tolist()


@pytest.mark.parametrize("tagged", [0, 2])
def test_the_iteration_with_tags_lends_them(tagged):
    tags = (Tag("Net", "aten.add", "forward"),)
    meta = ProfileMeta(model="net")
    plain = opening_of(train(5))
    iterations = train(6, tagged=tagged)
    opening = opening_of(iterations, tags=tags, meta=meta)
    assert opening.end.tolist() == plain.end.tolist()
    assert set(opening.tag.tolist()) == {0}
    assert (opening.tags, opening.meta) == (tags, meta)


@pytest.mark.parametrize("turn", range(4))
def test_a_block_that_is_shared_in_any_iteration_is_shared(turn):
    class Sharing(Log):
        def step(self):
            if self.rows.count(("step",)) == turn:
                self.share("g1")
            super().step()

    opening = opening_of(train(4, log=Sharing()))
    assert np.flatnonzero(opening.shared).tolist() == [8]


def test_evaluations_in_between_take_no_time():
    class Evaluating(Log):
        def step(self):
            super().step()
            for layer in range(9):
                self.ask("y", 1000 + layer)
                self.free("y")
            super().step()

    iterations = train(4, log=Evaluating())
    (steady,) = (one for one in find_all(iterations) if 2 in one.rows)
    assert sorted(steady.rows) == [2, 4, 6]
    assert build_opening(iterations, steady).end.tolist() == opening_of(train(4)).end.tolist()


def test_no_opening_of_what_the_plan_serves():
    assert opening_of(train(5, log=NoWorkspace(), state=0)) is None
    longer = train(5, log=NoWorkspace(), state=0, length=lambda turn: 8 + turn)
    assert 0 in find_steady(longer).rows
    assert opening_of(longer) is None


class NoWorkspace(Log):
    def ask(self, name, size, tag=-1):
        if name != "workspace":
            super().ask(name, size, tag)


@pytest.mark.parametrize("born", [0, 2])
def test_a_first_iteration_that_lacks_some_requests(born):
    """The first iteration is an opening if it makes state, and otherwise one of the steady ones."""
    log = Log()
    for turn in range(4):
        for layer in range(40):
            if turn or layer not in (10, 20, 30):
                log.ask("a", 1000 + layer)
                log.free("a")
            if not turn and layer < born:
                log.ask("s", 64 + layer)
        log.step()
    iterations = log.iterations()
    steady = find_steady(iterations)
    opening = build_opening(iterations, steady)
    if born:
        assert sorted(steady.rows) == [1, 2, 3]
        assert opening.size[opening.persistent].tolist() == [64, 65]
    else:
        assert sorted(steady.rows) == [0, 1, 2, 3]
        assert opening is None


def test_an_opening_that_was_not_seen_well_enough():
    empty = Log()
    empty.step()
    assert opening_of(train(4, log=empty)) is None
    assert opening_of(train(3)) is not None
    two = train(2)
    assert build_opening(two, best_effort(two)) is None


def test_the_plan_is_on_a_circle_like_any_other():
    opening = opening_of(train(4))
    made = plan(opening)
    validate(made)
    assert made.circular
    assert made.start.tolist() == list(range(made.ticks))
    assert np.array_equal(made.offset < 0, opening.persistent)
