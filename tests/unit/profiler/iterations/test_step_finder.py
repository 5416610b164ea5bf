import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.allocator import heuristics
from pgmo.profiler.iterations.iteration_kinds import compare
from pgmo.profiler.iterations.request_pairs import LENGTH_RATIO
from pgmo.profiler.iterations.step_finder import best_effort, find_all, find_repeated, find_steady
from pgmo.profiler.recording import make_events, split


def _iterations(*sizes):
    rows = []
    for iteration in sizes:
        rows += [("request", size) for size in iteration] + [("step",)]
    return split(make_events(rows))


def _network(seed, requests=200, shape=8, fixed=0.4):
    """Return sizes of a made-up network: fixed ones, and activations that scale with a shape."""
    random = np.random.default_rng(seed)
    base = random.integers(1, 400, requests) * 4
    return np.where(random.random(requests) < fixed, base, base * shape).tolist()


def test_other_streams_are_another_structure():
    events = make_events([("request", 8), ("step",), ("request", 8), ("step",)])
    events["stream"][2] = 3
    match = compare(*split(events))
    assert match.kind == "none"
    assert (
        match.explanation == "request 0 is on stream 0 in iteration 0, on stream 3 in iteration 1"
    )


@pytest.mark.parametrize("fixed", [0.15, 0.4, 0.8])
@pytest.mark.parametrize(("one", "two"), [(8, 4), (4, 8), (8, 7), (8, 64)])
def test_one_network_at_two_shapes_fits(one, two, fixed):
    first, second = _network(1, shape=one, fixed=fixed), _network(1, shape=two, fixed=fixed)
    match = compare(*_iterations(first, second))
    assert match.kind == "fit"
    assert match.varying.tolist() == [a != b for a, b in zip(first, second, strict=True)]


@pytest.mark.parametrize("seed", range(2, 12))
def test_two_networks_of_the_same_count_do_not_fit(seed):
    match = compare(*_iterations(_network(1), _network(seed)))
    assert match.kind == "none"
    assert match.explanation.startswith("request 0 asks for")


def test_requests_that_another_kernel_leaves_out():
    first, second = _network(1, shape=8), _network(1, shape=4)
    absent = [20, 77, 78, 150]
    shorter = [size for at, size in enumerate(second) if at not in absent]
    for pair in ((first, shorter), (shorter, first)):
        match = compare(*_iterations(*pair))
        assert match.kind == "fit"
        assert match.base.size.tolist() == first
        right = match.rows == np.delete(np.arange(200), absent)
        assert right.mean() > 0.97
        assert "4 are unpaired" in match.explanation


def test_logging_at_another_place_shifts_no_requests():
    step = _network(1)
    first = [*step[:40], 4, 8, 4, *step[40:]]
    second = [*step[:160], 4, 8, 4, *step[160:]]
    match = compare(*_iterations(first, second))
    assert match.kind == "fit"
    assert not match.varying.any()
    assert int((match.rows < 0).sum()) == 3


def test_a_batch_is_no_number_at_another_length():
    step = _network(1)
    first, second = _iterations([4, 8, 4, *step], [880, 700, 900, *step])
    match = compare(first, second)
    assert match.kind == "fit"
    assert match.rows[:3].tolist() == [-1, -1, -1]
    assert not match.varying.any()


def test_the_ratio_of_lengths_is_that_of_replay():
    assert heuristics.current.length_ratio == LENGTH_RATIO


@pytest.mark.parametrize("longer", [2, 3, 4])
def test_layers_at_twice_the_length_are_not_shifted(longer):
    def transformer(length):
        layers = [length * width for width in (256, 512, 256, 512)] * 12
        weights = [16_384, 49_216, 65_664, 65_792] * 12
        return [8 * length, *layers, 4_000 * length, *layers, *weights]

    first, second = transformer(64), transformer(64 * longer)
    match = compare(*_iterations(first, second))
    assert match.kind == "fit"
    assert match.rows.tolist() == list(range(len(first)))


def test_an_evaluation_does_not_fit_the_training_step():
    training = _network(1, requests=300)
    assert compare(*_iterations(training, training[:100])).kind == "none"


def test_sizes_that_print_alike_are_distinguished():
    match = compare(*_iterations([2**30, 5], [2**30 + 1, 6]))
    assert (
        match.explanation
        == "request 0 asks for 1073741824 B in iteration 0, 1073741825 B in iteration 1"
    )


def test_structures_that_take_turns():
    train, evaluate = _network(1, requests=100), _network(2, requests=30)
    iterations = _iterations(train, evaluate, train, evaluate)
    assert find_steady(iterations[:2]) is None
    assert sorted(find_steady(iterations[:3]).rows) == [0, 2]
    assert [sorted(steady.rows) for steady in find_all(iterations)] == [[1, 3], [0, 2]]


@pytest.mark.parametrize(
    ("turns", "members"),
    [
        ("baaa", [1, 2, 3]),
        ("abaaa", None),  # alternation
        ("aaab", None),
        ("bba", None),
        ("abbb", [1, 2, 3]),
        ("", None),
    ],
)
def test_a_structure_is_found_if_all_later_iterations_repeat_it(turns, members):
    networks = {"a": [8, 4], "b": [8, 4, 99]}
    found = find_repeated(_iterations(*(networks[turn] for turn in turns)))
    assert [sorted(one.rows) for one in found] == ([members] if members else [])
    assert all(one.kind == "exact" for one in found)


def test_the_longest_of_a_structure_is_the_reference():
    longest = _network(1, shape=8)
    shorter = [size for at, size in enumerate(_network(1, shape=5)) if at not in (50, 120)]
    steady = find_steady(_iterations(shorter, longest, shorter))
    assert steady.reference == 1
    assert sorted(steady.rows) == [0, 1, 2]


def test_an_iteration_in_which_state_is_born_is_of_the_beginning_wherever_it_comes():
    """Gradient scaling skips the first step, so that the second one makes optimizer state."""
    rows, block = [], 0
    for turn in range(5):
        for size in _network(1):
            rows += [("request", size), ("free", block)]
            block += 1
        for _ in range(12 if turn == 1 else 0):
            rows.append(("request", 64))
            block += 1
        for _ in range(6 if turn >= 1 else 0):  # the optimizer's temporaries
            rows += [("request", 32), ("free", block)]
            block += 1
        rows.append(("step",))
    iterations = split(make_events(rows))
    assert compare(iterations[1], iterations[2]).kind == "fit"
    steady = find_steady(iterations)
    assert (steady.reference, sorted(steady.rows)) == (2, [0, 2, 3, 4])


def test_empty_iterations_are_no_structure():
    assert find_steady(_iterations([], [], [])) is None
    assert best_effort(_iterations([], [])) is None
    assert find_steady([]) is None
    assert best_effort(_iterations([8])).explanation == "only iteration 0 has requests"


@given(st.lists(st.lists(st.integers(1, 4), max_size=6), max_size=5))
def test_any_recording_gives_consistent_groups(sizes):
    iterations = _iterations(*sizes)
    found = find_all(iterations)
    members = [index for steady in found for index in steady.rows]
    assert len(members) == len(set(members))
    for steady in found:
        reference = iterations[steady.reference]
        assert len(steady.rows) >= 2
        for index, rows in steady.rows.items():
            paired = rows[rows >= 0]
            assert np.all(np.diff(paired) > 0)
            assert paired.max(initial=0) < len(reference)
            equal = reference.size[paired] == iterations[index].size[rows >= 0]
            assert np.all(equal | steady.varying[paired])
    repeated = any(s and sizes.count(s) > 1 for s in sizes)
    assert not repeated or any(s.kind in ("exact", "fit") for s in found)


def test_the_first_iteration_does_not_become_the_reference_for_its_extra_requests():
    ordinary = _network(1, shape=8)
    first = ordinary[:180] + [96] * 10 + ordinary[180:]
    steady = find_steady(_iterations(first, ordinary, ordinary))
    assert steady.kind == "exact"
    assert (steady.reference, sorted(steady.rows)) == (1, [1, 2])
    assert find_steady(_iterations(first, ordinary)) is None
    # Extra requests of a later iteration belong to its shape, so that it is the reference.
    assert find_steady(_iterations(ordinary, first, ordinary)).reference == 1


@pytest.mark.parametrize("others", ["exact", "fit"])
def test_a_first_iteration_that_keeps_what_the_others_free_is_a_warm_up(others):
    """The first step of SGD makes buffers that stay, where later steps have temporaries."""
    rows, block = [], 0
    for turn in range(4):
        for size in _network(1, shape=8 if others == "exact" else 4 + turn):
            rows += [("request", size), ("free", block)]
            block += 1
        for parameter in range(12):
            rows += [("request", 64 if turn == 0 else 8)]
            rows += [("free", block)] * (turn > 0)
            block += 1
            if turn and parameter % 2:
                rows += [("request", 8), ("free", block)]
                block += 1
        rows.append(("step",))
    iterations = split(make_events(rows))
    assert len(iterations[0]) < len(iterations[1])
    assert compare(iterations[0], iterations[1]).kind == "fit"
    steady = find_steady(iterations)
    assert (steady.kind, sorted(steady.rows)) == (others, [1, 2, 3])
