from dataclasses import replace

import pytest

from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import marked_every, profile_of
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import MarkedBy, Trace
from pgmo.report.findings.leaks import find_leaks
from tests.unit.profiler.importers.snapshots import MIB, Device, save, snapshot
from tests.unit.report.loops import ACTIVATION, GRADIENT, LOSS, STATE, TAGS, Loop, train


def with_trace(trace: Trace) -> Profile:
    return Profile.from_columns(
        size=[8], start=[0], end=[1], ticks=1, circular=False, steady=False, trace=trace
    )


@pytest.mark.parametrize("iterations", [4, 5, 6, 9, 40])
def test_a_clean_loop_has_no_leaks(iterations):
    leaks = find_leaks(with_trace(train(iterations)))
    assert leaks.judged
    assert leaks.found == ()
    assert leaks.growth == 0


@pytest.mark.parametrize("iterations", [4, 5, 6, 9, 40])
def test_kept_losses_are_found_with_their_origin_and_growth(iterations):
    (leak,) = find_leaks(with_trace(train(iterations, keep_losses_every=1))).found
    assert leak.tag == TAGS[LOSS]
    assert leak.origin == "train.py:12 in step, aten.nll_loss (forward)"
    assert (leak.blocks, leak.size) == (iterations, 4 * iterations)
    assert (leak.growth, leak.first, leak.confidence) == (4.0, 0, "certain")


@pytest.mark.parametrize(("iterations", "every"), [(16, 4), (42, 5), (42, 12)])
def test_losses_kept_now_and_then_are_a_possible_leak(iterations, every):
    (leak,) = find_leaks(with_trace(train(iterations, keep_losses_every=every))).found
    assert leak.tag == TAGS[LOSS]
    assert leak.confidence == "possible"
    assert leak.growth == pytest.approx(4 / every, rel=0.3)


@pytest.mark.parametrize("kept", [1, 3, 5])
@pytest.mark.parametrize("flush", [False, True])
def test_a_list_that_is_cut_or_emptied_now_and_then_is_no_leak(kept, flush):
    loop = Loop()
    held: list[int] = []
    for _ in range(18):
        loop.mark()
        held.append(loop.alloc(64, LOSS))
        while len(held) > kept:
            loop.free(held.pop(0))
            if flush:
                while held:
                    loop.free(held.pop())
    assert find_leaks(with_trace(loop.trace())).found == ()


def test_a_leak_beside_blocks_of_the_same_origin_that_are_freed():
    loop = Loop()
    for _ in range(8):
        loop.mark()
        freed = loop.alloc(100, ACTIVATION)
        loop.alloc(50, ACTIVATION)
        loop.free(freed)
    (leak,) = find_leaks(with_trace(loop.trace())).found
    assert (leak.growth, leak.size, leak.blocks) == (50.0, 400, 8)


def test_growing_leaks_of_unknown_origin_have_the_name_of_their_size_class():
    loop = Loop()
    for number in range(8):
        loop.mark()
        loop.alloc(600 + number)
    (leak,) = find_leaks(with_trace(loop.trace())).found
    assert leak.origin == "(untagged) blocks of 512 B to 1.00 KiB"
    assert leak.confidence == "likely"
    assert leak.tag is None


def test_state_of_the_first_iterations_and_gradients_of_the_last_are_no_leak():
    loop = Loop()
    for number in range(8):
        loop.mark()
        if number < 3:
            loop.alloc(512, STATE)
        if number == 7:
            loop.alloc(512, GRADIENT)
    assert find_leaks(with_trace(loop.trace())).found == ()


def test_too_few_iterations_say_nothing():
    leaks = find_leaks(with_trace(train(3, keep_losses_every=1)))
    assert not leaks.judged
    assert leaks.found == ()
    assert leaks.basis == "3 iterations in the trace; at least 4 are needed"


def test_a_steady_iteration_leaks_what_it_never_frees():
    tag = Tag("Net", "aten.relu", "forward")
    columns = {"size": [64, 8, 8], "start": [0, 1, 2], "end": [2, NEVER, NEVER], "tag": [0, 0, 0]}
    profile = Profile.from_columns(**columns, ticks=3, tags=(tag,))
    (leak,) = find_leaks(profile).found
    assert (leak.tag, leak.blocks, leak.growth, leak.confidence) == (tag, 2, 16.0, "likely")
    assert find_leaks(profile).live == profile.max_load() + 16


def test_a_short_trace_shows_how_much_was_alive_at_most():
    loop = Loop()
    freed = loop.alloc(100)
    loop.alloc(50)
    loop.free(freed)
    loop.alloc(20)
    profile = Profile.from_columns(size=[64], start=[0], end=[NEVER], ticks=1, trace=loop.trace())
    leaks = find_leaks(profile)
    assert (leaks.growth, leaks.live) == (64.0, 150)


@pytest.mark.parametrize(("circular", "steady"), [(False, True), (True, False)])
def test_persistent_blocks_of_anything_else_are_no_leak(circular, steady):
    profile = Profile.from_columns(
        size=[64], start=[0], end=[NEVER], ticks=1, circular=circular, steady=steady
    )
    leaks = find_leaks(profile)
    assert not leaks.judged
    assert leaks.found == ()


def test_nothing_is_certain_where_iterations_were_guessed():
    trace = train(12, keep_losses_every=1)
    guessed = find_leaks(with_trace(replace(trace, marked_by=MarkedBy.PERIOD)))
    marked = find_leaks(with_trace(trace))
    assert [leak.confidence for leak in marked.found] == ["certain"]
    assert [leak.confidence for leak in guessed.found] == ["likely"]
    assert guessed.growth == marked.growth
    assert (guessed.guessed, marked.guessed) == (True, False)
    assert guessed.basis.startswith(
        "12 iterations of the trace, derived from the period of the requests"
    )


def test_a_loop_that_was_not_taken_for_iterations_is_named_with_the_option_that_is(tmp_path):
    device = Device()
    for _ in range(40):
        for size in (70, 17):  # blocks that the loop keeps
            device.alloc(size * MIB)
        device.free(device.alloc(12 * MIB))
    (own,) = read_torch_snapshot(save(snapshot(device), tmp_path / "a.pickle"))
    leaks = find_leaks(profile_of(own.trace))
    assert not leaks.judged
    assert "no iterations were recognised: " in leaks.basis
    assert "each adds or frees 87.0 MiB" in leaks.basis
    assert leaks.basis.endswith("`pgmo stats --leaks --every N FILE`")
    assert "40 times 3 requests are not iterations" in leaks.basis
    found = find_leaks(profile_of(marked_every(own.trace, 3)))
    assert (found.judged, found.guessed, found.growth) == (True, False, 87 * MIB)


def test_a_recording_without_iterations_says_how_many_are_needed(tmp_path):
    device = Device()
    for size in range(1, 9):
        device.alloc(size * 1000)
    (own,) = read_torch_snapshot(save(snapshot(device), tmp_path / "a.pickle"))
    leaks = find_leaks(profile_of(own.trace))
    assert not leaks.judged
    assert leaks.basis.startswith("no iterations were recognised; record at least 4")
