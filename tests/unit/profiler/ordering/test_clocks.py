"""Tests of the order of vector clocks against a reference that follows each event."""

import numpy as np
import pytest

from pgmo.profiler.iterations.lifetimes import build_profile
from pgmo.profiler.iterations.step_finder import find_steady
from pgmo.profiler.ordering.clocks import NEVER, behind
from pgmo.profiler.ordering.order import Order
from pgmo.profiler.recording import split
from tests.unit.profiler.ordering.programs import Script, at_random, known


def profile_of(script: Script):
    iterations = split(script.events())
    steady = find_steady(iterations)
    return build_profile(iterations, steady), iterations, steady


def ticks_behind(profile):
    streams = np.unique(profile.stream)
    table = behind(
        profile.order,
        start=profile.start,
        end=profile.end,
        stream=profile.stream,
        ticks=profile.ticks,
        streams=streams,
    )
    return streams.tolist(), table


@pytest.mark.parametrize("seed", range(60))
def test_no_hand_over_is_promised_that_the_events_do_not_order(seed):
    script = at_random(seed)
    profile, iterations, steady = profile_of(script)
    if profile.order is None:
        return
    streams, table = ticks_behind(profile)
    over = known(script)
    first = iterations[steady.reference].first
    promised = 0
    for row in range(len(profile)):
        for column, stream in enumerate(streams):
            if table[row, column] == NEVER or profile.end[row] < 0:
                continue
            # The first request on that stream from that tick on, in this iteration or the next one.
            ticks = range(int(table[row, column]), int(table[row, column]) + 2 * profile.ticks)
            own = [t for t in ticks if profile.stream[t % profile.ticks] == stream]
            if own and first + own[0] < len(over):
                promised += 1
                assert first + row in over[first + own[0]], (row, stream, own[0])
    assert promised


@pytest.mark.parametrize("seed", range(60))
def test_no_hand_over_is_left_out_that_the_events_order(seed):
    script = at_random(seed)
    profile, iterations, steady = profile_of(script)
    if profile.order is None:
        return
    streams, table = ticks_behind(profile)
    over = known(script)
    first = iterations[steady.reference].first
    # Blocks and requests of one iteration, whose order does not depend on earlier iterations.
    for row in range(len(profile)):
        for tick in range(int(profile.end[row]), profile.ticks):
            column = streams.index(int(profile.stream[tick]))
            if first + row in over[first + tick]:
                assert table[row, column] <= tick, (row, tick)


def test_an_event_that_is_recorded_again_is_another_one():
    script = Script()
    for _ in range(3):
        one = script.request(8, 0)
        script.record(5, 0)
        script.free(one)
        other = script.request(8, 0)
        script.record(5, 0)
        script.wait(5, 7)
        third = script.request(8, 7)
        script.free(other)
        script.free(third)
        script.step()
    profile, _, _ = profile_of(script)
    streams, table = ticks_behind(profile)
    assert table[0, streams.index(7)] == 2
    assert profile.order.target[profile.order.kind == 5].tolist() == [2]


def test_events_of_the_previous_iteration_are_known():
    script = Script()
    for turn in range(4):
        if turn:
            script.wait(turn - 1, 7)
        one = script.request(8, 7)
        script.free(one)
        two = script.request(8, 0)
        script.free(two)
        script.record(turn, 0)
        script.step()
    profile, _, _ = profile_of(script)
    streams, table = ticks_behind(profile)
    # An event before an iteration's first request belongs to the iteration before.
    assert profile.order.tick[profile.order.kind == 5].tolist() == [2]
    assert table[1, streams.index(7)] == 2  # the next iteration's first request
    assert table[0, streams.index(0)] == NEVER


def test_a_wait_within_an_iteration_for_work_of_the_one_before():
    order = Order(tick=[1, 3], kind=[5, 4], stream=[7, 0], target=[1, -1], back=[1, 0])
    start, stream = np.arange(3), np.array([7, 7, 0], np.uint64)
    streams = np.array([0, 7], np.uint64)
    table = behind(order, start=start, end=start + 1, stream=stream, ticks=3, streams=streams)
    assert table[2, 1] == 3 + 1  # the next iteration's second request


def test_one_stream_has_no_order():
    script = Script()
    for _ in range(3):
        block = script.request(8, 0)
        script.record(1, 0)
        script.free(block)
        script.step()
    assert profile_of(script)[0].order is None


def test_recordings_without_events_have_none():
    script = Script()
    for _ in range(3):
        blocks = script.request(8, 0), script.request(8, 7)
        for block in blocks:
            script.free(block)
        script.step()
    assert profile_of(script)[0].order is None


def test_after_a_silence_events_from_before_order_nothing():
    """While nothing is recorded, an event may be recorded again on any stream."""

    def table(silent):
        script = Script()
        for _ in range(3):
            one = script.request(8, 0)
            script.free(one)
            script.record(1, 0)
            if silent:
                script.lose()
            script.wait(1, 7)
            other = script.request(8, 7)
            script.free(other)
            script.step()
        profile, _, _ = profile_of(script)
        streams, found = ticks_behind(profile)
        return found[0, streams.index(7)]

    assert table(silent=False) == 1
    assert table(silent=True) == NEVER


def test_a_gap_in_the_recording_orders_nothing():
    script = Script()
    for _ in range(3):
        script.lose()
        blocks = script.request(8, 0), script.request(8, 7)
        for block in blocks:
            script.free(block)
        script.step()
    profile, _, _ = profile_of(script)
    streams, found = ticks_behind(profile)
    assert found[0, streams.index(7)] == found[1, streams.index(0)] == NEVER
