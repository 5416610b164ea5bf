"""Verdicts from what was counted: each sentence, and when it is said."""

from dataclasses import replace

import numpy as np
import pytest

from pgmo.allocator.session.statistics import IterationStatistics, Phase, Summary
from pgmo.allocator.session.verdict import judge as judging
from pgmo.allocator.session.verdict.evidence import Beginning, Evidence, outside_of_plan
from pgmo.allocator.session.verdict.judge import Judge
from pgmo.allocator.session.verdict.plain import MOST_REQUESTS, UnmodelledError, settings_of
from pgmo.packing.planner import plan
from pgmo.profiler.caching.model import AllocatorSettings, simulate_profile
from pgmo.profiler.profile import NEVER, Profile
from pgmo.profiler.recording import EVENT, FREE, REQUEST
from pgmo.units import format_bytes

MIB = 1 << 20
NOTHING = "this program gains nothing here, because "


@pytest.fixture(autouse=True)
def plain_settings(monkeypatch):
    monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF", raising=False)
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)


def fragmented():
    """A small block that lives on in each large segment keeps the next large one out of it."""
    sizes, start, end = [], [], []
    for layer in range(6):
        sizes += [(12 + layer) * MIB, 3 * MIB]
        start += [2 * layer, 2 * layer + 1]
        end += [2 * layer + 2, 12]
    return Profile.from_columns(size=sizes, start=start, end=end, ticks=12)


def tight():
    """What is reserved is in use: a segment of its own for each block."""
    return Profile.from_columns(size=[20 * MIB, 30 * MIB], start=[0, 1], end=[2, 2], ticks=2)


def summary(**fields):
    known = {"iterations": 20, "recorded": 4, "replayed": 16, "since": 5}
    return Summary(**{**known, "run_bytes": 1000, "run_bytes_hit": 800, **fields})


def evidence(profile=None, device="cuda:0", framework="torch", told=None, **fields):
    made = plan(profile, effort="fast", alignment=512) if profile is not None else None
    return Evidence(told or summary(), framework, device, plan=made, **fields)


def judge(*arguments, **fields):
    return Judge().judge(evidence(*arguments, **fields))


def test_the_sentence_compares_the_arena_with_the_model_of_pytorch():
    profile = fragmented()
    expected = simulate_profile(profile, AllocatorSettings()).peak_reserved
    verdict = judge(profile)
    assert verdict.plain == expected
    assert verdict.taken == plan(profile, effort="fast", alignment=512).arena < expected
    percent = round(100 * (1 - verdict.taken / expected))
    assert str(verdict) == (
        f"{format_bytes(verdict.taken)} instead of {format_bytes(expected)} "
        f"({percent} % less), from iteration 5 on"
    )
    assert "counted" in verdict.basis
    assert "modelled" in verdict.basis


def test_what_is_outside_of_the_arena_counts_against_it():
    without, with_it = judge(fragmented()), judge(fragmented(), outside=5 * MIB)
    assert with_it.taken == without.taken + 5 * MIB
    assert with_it.saving < without.saving
    assert "at most 5.00 MiB outside" in with_it.basis


def test_what_lies_in_pages_of_empty_slots_counts_once():
    least = judge(fragmented()).taken
    held = judge(fragmented(), outside=5 * MIB, pages=least + 2 * MIB)
    assert held.taken == least + 2 * MIB
    assert "all in" in held.basis
    # Blocks with slots take what they take, wherever pages are said to be, and pages may be idle.
    assert judge(fragmented(), pages=MIB).taken == plan(fragmented()).max_load
    assert judge(fragmented(), pages=least + 9 * MIB).taken == least


def test_blocks_without_slots_are_on_neither_side():
    profile = fragmented()
    bigger = Profile.from_columns(
        size=[*profile.size, 500 * MIB],
        start=[*profile.start, 11],
        end=[*profile.end, NEVER],
        ticks=12,
    )
    assert judge(bigger).plain == judge(profile).plain
    assert judge(bigger).taken == judge(profile).taken


def test_spilled_slots_take_nothing_of_the_card():
    given = evidence(fragmented())
    spilled = replace(given.plan, resident=given.plan.arena - 8 * MIB)
    assert Judge().judge(replace(given, plan=spilled)).taken == given.plan.arena - 8 * MIB


def test_without_a_saving_it_says_so_with_both_figures():
    verdict = judge(tight())
    assert str(verdict).startswith(NOTHING)
    assert "plain PyTorch would reserve 50.0 MiB for what takes 50.0 MiB here" in str(verdict)
    assert verdict.saving == 0


def test_the_users_own_settings_of_pytorch_are_modelled(monkeypatch):
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    expected = simulate_profile(fragmented(), AllocatorSettings(expandable_segments=True))
    assert judge(fragmented()).plain == expected.peak_reserved != evidence_of_default()


def evidence_of_default():
    return simulate_profile(fragmented(), AllocatorSettings()).peak_reserved


@pytest.mark.parametrize(
    ("device", "framework", "reason"),
    [("cpu", "torch", "the CPU has no caching allocator"), ("cuda:0", "cupy", "CuPy's own pool")],
)
def test_where_there_is_no_model_no_figure_is_invented(device, framework, reason):
    verdict = judge(fragmented(), device=device, framework=framework)
    assert reason in str(verdict)
    assert "has served 80 % of the bytes of the whole run, from iteration 5 on" in str(verdict)
    assert "instead of" not in str(verdict)
    assert verdict.plain == 0
    assert verdict.saving == 0


@pytest.mark.parametrize("text", ["backend:cudaMallocAsync", "nonsense", "max_split_size_mb:x"])
def test_settings_without_a_model_are_said_to_have_none(monkeypatch, text):
    with pytest.raises(UnmodelledError, match="no model of the allocator's settings"):
        settings_of("torch", "cuda:0", {"PYTORCH_CUDA_ALLOC_CONF": text})
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", text)
    assert "no model of the allocator's settings" in str(judge(fragmented()))


def test_the_model_is_bounded():
    count = MOST_REQUESTS // 2 + 1
    ticks = np.arange(count)
    many = Profile.from_columns(size=np.full(count, 512), start=ticks, end=ticks + 1, ticks=count)
    assert "blocks, more than are modelled while one waits" in str(judge(many))


def test_the_model_runs_once_for_a_plan(monkeypatch):
    calls = []
    real = judging.of_plan
    monkeypatch.setattr(judging, "of_plan", lambda *given: calls.append(1) or real(*given))
    judge, given = Judge(), evidence(fragmented())
    assert judge.judge(given) == judge.judge(given)
    assert calls == [1]
    judge.judge(evidence(tight()))
    assert calls == [1, 1]


@pytest.mark.parametrize(
    ("told", "fields", "reason"),
    [
        (Summary(0, 0, 0), {}, "no iteration was seen; call session.step()"),
        (Summary(1, 1, 0), {}, "1 iteration is too few"),
        (Summary(3, 3, 0), {}, "3 iterations are too few"),
        (Summary(9, 9, 0), {}, "none of its 9 iterations could be planned yet"),
        (Summary(9, 9, 0), {"recorded_only": True}, "it was recorded and not served"),
        (Summary(9, 4, 0), {"gave_up": "nothing is ever freed"}, "nothing is ever freed"),
        (Summary(4, 4, 0), {"profile": tight()}, "its plan has served no iteration yet"),
        (Summary(9, 4, 5), {"profile": tight()}, "most of their bytes had no slot"),
    ],
)
def test_a_session_that_gains_nothing_says_why(told, fields, reason):
    verdict = judge(told=told, **fields)
    assert str(verdict).startswith(NOTHING)
    assert reason in str(verdict)
    assert verdict.saving == 0


def events(*rows):
    """Requests of these sizes; a negative number frees the request of that number, from -1 on."""
    made = np.zeros(len(rows), EVENT)
    for at, row in enumerate(rows):
        made[at]["kind"] = REQUEST if row >= 0 else FREE
        made[at]["bytes"], made[at]["block"] = max(row, 0), max(-row - 1, 0)
    return made


def waiting(pages, before=0):
    # 30 MiB, freed, then 31 MiB: the first segment is too small, and stays.
    recorded = events(30 * MIB, -1, 31 * MIB, -2)
    told = summary(since=0, replayed=0, waits="it would not pay", pages=pages, waited=16)
    beginning = Beginning(recorded, iterations=4, pages=pages, before=before)
    return Judge().judge(evidence(tight(), told=told, beginning=beginning))


def test_pages_alone_are_compared_over_the_recorded_iterations():
    verdict = waiting(pages=32 * MIB)
    assert verdict.plain == (30 + 32) * MIB  # segments of multiples of 2 MiB
    assert verdict.taken == 32 * MIB
    assert str(verdict) == "32.0 MiB instead of 62.0 MiB (48 % less), by pages alone"
    assert "first 4 iterations" in verdict.basis


def test_what_was_there_before_is_on_both_sides():
    verdict = waiting(pages=132 * MIB, before=100 * MIB)
    assert (verdict.taken, verdict.plain) == (132 * MIB, 162 * MIB)


def test_pages_that_save_nothing_are_not_praised():
    assert str(waiting(pages=62 * MIB)).startswith(NOTHING + "the plan waits: it would not pay; ")


def test_the_whole_run_is_told_besides_the_steady_part():
    told = summary(run_bytes=100 * MIB, run_bytes_hit=77 * MIB)
    assert judge(fragmented(), told=told).whole_run == (
        "77 % of the 100 MiB that all 20 iterations asked for came from slots",
    )


def test_iterations_that_were_not_counted_are_no_part_of_the_share():
    (share,) = judge(fragmented(), told=summary(uncounted=6)).whole_run
    assert "the 14 counted iterations" in share
    assert "none in 6 others" in share


def test_without_pages_the_peak_of_a_first_run_is_not_claimed_to_be_lower():
    beginning = Beginning(events(30 * MIB, -1), iterations=4)
    _, peak = judge(fragmented(), beginning=beginning).whole_run
    assert "no lower than theirs" in peak


def test_with_pages_the_first_iterations_are_compared():
    beginning = Beginning(events(30 * MIB, -1, 31 * MIB), iterations=4, pages=32 * MIB)
    _, compared = judge(fragmented(), beginning=beginning).whole_run
    assert compared == (
        "first 4 iterations: 32.0 MiB of pages at most (counted), plain PyTorch 62.0 MiB (modelled)"
    )


def test_what_is_outside_is_bounded_by_both_of_its_bounds():
    def one(requested, hit, unplanned=0, phase=Phase.REPLAY):
        return IterationStatistics(phase, 9, 9, requested, hit, bytes_unplanned=unplanned)

    history = [one(1000, 900), one(1000, 700), one(9000, 0, phase=Phase.RECORD)]
    assert outside_of_plan(history, peak_fallback=10_000, least_fallback=0) == 300
    assert outside_of_plan(history, peak_fallback=2050, least_fallback=2000) == 50
    assert outside_of_plan([one(1000, 0, 1000)], 10_000, 0) == 0
    assert outside_of_plan([one(1000, 0), *[one(1000, 1000)] * 16][::-1], 10_000, 0) == 0
    assert outside_of_plan([], 10, 0) == 0
