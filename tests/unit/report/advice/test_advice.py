"""Tests of the conditions and the figures of each rule of advice."""

from dataclasses import replace

import pytest

import pgmo
from pgmo.profiler.profile import NEVER, Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event
from pgmo.report.summary import explain
from tests.unit.report.loops import Loop, train

MIB = 2**20
TAGS = (
    Tag("Net.body", "aten.relu", "forward"),
    Tag("Net.body", "aten.mm", "backward"),
    Tag("Adam", "aten._foreach_sqrt", "optimizer"),
    Tag("", "aten.randn", "other", "train.py:3 in loop"),
    Tag("", "aten._log_softmax", "forward"),
    Tag("Net.conv", "aten.convolution", "forward"),
)
FORWARD, BACKWARD, OPTIMIZER, OTHER, LOSS, CONV = range(6)


def profile(*rows: tuple[int, int, int, int], **columns) -> Profile:
    """Return the profile of rows (bytes, start, end, tag)."""
    size, start, end, tag = zip(*rows, strict=True)
    ticks = len(rows)
    return Profile.from_columns(
        size=size, start=start, end=end, tag=tag, ticks=ticks, tags=TAGS, **columns
    )


def hints(what: Profile, plan=None, predict=False) -> dict[str, "pgmo.report.advice.Hint"]:
    return {hint.title: hint for hint in explain(what, plan, predict=predict).hints}


def test_a_plain_profile_gets_no_advice():
    assert hints(profile((100, 0, 1, FORWARD), (100, 1, 2, BACKWARD)), predict=True) == {}


def test_activations_that_live_into_the_backward_pass():
    title = "Activations make the peak"
    saved = [(40, 0, 3, FORWARD), (30, 1, 3, FORWARD), (30, 2, 4, BACKWARD), (1, 3, 4, BACKWARD)]
    hint = hints(profile(*saved))[title]
    assert hint.bytes == 70
    assert "70 B (70%) of the peak" in hint.text
    assert "largest part: Net.body, 70 B" in hint.text
    assert "pgmo.recompute" in hint.text
    assert "torch.utils.checkpoint" in hint.text
    few = [(10, 0, 3, FORWARD), (30, 1, 2, FORWARD), (90, 2, 4, BACKWARD), (1, 3, 4, BACKWARD)]
    assert title not in hints(profile(*few))


def test_gradients_of_the_iteration_before_at_the_peak():
    title = "Gradients of the last iteration at the peak"
    held = profile((100, 0, 1, FORWARD), (1, 1, 2, FORWARD), (50, 2, 4, BACKWARD))
    hint = hints(held)[title]
    assert hint.bytes == 50
    assert "zero_grad(set_to_none=True) right after optimizer.step()" in hint.text
    dropped = profile((100, 0, 1, FORWARD), (1, 1, 2, FORWARD), (50, 2, 3, BACKWARD))
    assert hints(dropped) == {}


def test_a_batch_that_is_alive_beside_its_successor():
    title = "The last iteration's data at the peak"
    double = profile((100, 0, 4, OTHER), (7, 1, 2, FORWARD), (1, 2, 3, FORWARD))
    hint = hints(double)[title]
    assert hint.bytes == 100
    assert "100 B of it together with the data that replaces it" in hint.text
    assert "train.py:3 in loop" in hint.text
    assert "`del batch, output, loss`" in hint.text
    assert title not in hints(profile((100, 0, 3, OTHER), (7, 1, 2, FORWARD), (1, 2, 3, FORWARD)))


def test_data_of_the_iteration_before_without_a_successor_beside_it():
    held = profile((7, 0, 1, FORWARD), (100, 1, 2, FORWARD), (50, 2, 5, FORWARD))
    hint = hints(held)["The last iteration's data at the peak"]
    assert hint.bytes == 50
    assert "together with the data that replaces it" not in hint.text


def test_two_places_for_what_outlives_an_iteration():
    title = "Blocks that outlive an iteration"
    double = profile((64, 0, 4, OTHER), (640, 1, 2, FORWARD), (64, 2, 3, FORWARD))
    plan = pgmo.plan(double)
    assert plan.arena > plan.max_load
    hint = hints(double, plan)[title]
    assert hint.bytes == 64
    assert "1 blocks of 64 B" in hint.text
    assert title not in hints(double)


def test_a_workspace_is_a_short_lived_block_of_a_convolution():
    title = "A convolution's workspace at the peak"
    short = [(50, 0, 2, CONV), (50, 1, 2, FORWARD), *[(1, t, t + 1, OTHER) for t in range(2, 8)]]
    assert hints(profile(*short))[title].bytes == 50
    assert title not in hints(profile((50, 0, 6, CONV), *short[1:]))
    assert title not in hints(profile((50, 0, 2, FORWARD), *short[1:]))


def test_several_streams_cost_what_they_cannot_share():
    title = "Several streams"
    rows = [(100, 0, 1, FORWARD), (60, 1, 2, FORWARD), (9, 1, 2, FORWARD)]
    hint = hints(profile(*rows, stream=[0, 7, 7], shared=[False, False, True]))[title]
    assert hint.bytes == 60 + 9
    assert "which costs 60 B; 9 B are used on several" in hint.text
    assert title not in hints(profile(*rows))
    alone = hints(profile(*rows[:2], stream=[0, 7]))[title].text
    assert "which costs 60 B. Use fewer side streams" in alone


def test_a_peak_that_is_tiny_beside_the_model_gets_no_advice():
    loop = Loop()
    loop.alloc(100_000)  # parameters
    for _ in range(5):
        loop.mark()
        loop.free(loop.alloc(100))
    saved = [(40, 0, 3, FORWARD), (30, 1, 3, FORWARD), (30, 2, 4, BACKWARD), (1, 3, 4, BACKWARD)]
    assert hints(profile(*saved, trace=loop.trace())) == {}


@pytest.mark.parametrize(("reserved", "first"), [(400, "setting"), (4000, "live")])
def test_savings_of_live_and_reserved_bytes_compare_as_shares(monkeypatch, reserved, first):
    def rule(title, size, **options):
        return lambda _facts: pgmo.report.advice.Hint(title, "", size, **options)

    rules = (
        rule("hint", 999),
        rule("setting", 300, is_cause=True, peak=reserved),
        rule("live", 50, is_cause=True),
        rule("other results", 90, is_cause=True, changes_results=True),
    )
    monkeypatch.setattr("pgmo.report.advice.RULES", rules)
    found = explain(profile((100, 0, 1, FORWARD)), predict=False).hints
    causes = [first, *({"setting", "live"} - {first}), "other results"]
    assert [hint.title for hint in found] == [*causes, "hint"]


@pytest.mark.parametrize(
    ("settings", "advised"),
    [
        ({}, True),
        ({"expandable_segments": "False"}, True),
        ({"expandable_segments": "True"}, False),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, False),
    ],
)
def test_expandable_segments_are_not_advised_where_they_are_on(settings, advised):
    loop = Loop()
    loop.segment(512, 1000)
    loop.alloc(40)
    loop.rows.append((Event.OOM, 0, 500, 0, -1))
    trace = replace(loop.trace(), settings=settings)
    text = hints(profile((40, 0, 1, FORWARD), trace=trace, circular=False))["Out of memory"].text
    assert "have sufficed in one piece: run the script with `pgmo run`" in text
    assert ("expandable_segments" in text) == advised


def test_iterations_that_differ():
    title = "Iterations differ"
    rows = [(100, 0, 1, FORWARD), (60, 1, 2, FORWARD)]
    hint = hints(profile(*rows, varying=[True, False]))[title]
    assert hint.bytes == 100
    assert "1 blocks, 100 B, vary in size" in hint.text
    loop = Loop()
    for number in range(6):
        loop.mark()
        loop.free(loop.alloc(100 + number))
    restless = profile(*rows, trace=loop.trace())
    assert "4 of 4 iterations differ" in hints(restless)[title].text
    assert title not in hints(profile(*rows, trace=train(8)))


def test_leaks_of_numbers_and_of_whole_tensors_are_different_advice():
    number = profile((4, 0, NEVER, LOSS), (640, 1, 2, FORWARD))
    assert list(hints(number)) == ["A number is kept as a tensor"]
    assert "loss.item()" in hints(number)["A number is kept as a tensor"].text
    tensor = profile((4096, 0, NEVER, FORWARD), (8192, 1, 2, BACKWARD))
    hint = hints(tensor)["Memory leaks"]
    assert hint.bytes == 4096
    assert hint.text.startswith("4.00 KiB per iteration stay behind, the largest part from")
    assert "Net.body, aten.relu" in hint.text


def test_fragmentation_as_predicted_is_said_but_not_for_cpu_memory():
    wasteful = profile((100 * MIB, 0, 1, CONV), (110 * MIB, 1, 2, CONV), (120 * MIB, 2, 3, CONV))
    explained = explain(wasteful, pgmo.plan(wasteful))
    (hint,) = [one for one in explained.hints if one.title == "Fragmentation"]
    assert hint.bytes == explained.reserved["default"].peak - explained.reserved["default"].active
    assert "would reserve 330 MiB (with expandable_segments:True 120 MiB)" in hint.text
    assert "The plan's arena takes 120 MiB" in hint.text
    assert "`pgmo run`" in hint.text
    assert "Fragmentation" not in hints(wasteful)  # neither predicted nor recorded
    on_cpu = replace(wasteful, meta=ProfileMeta(device="cpu"))
    assert "Fragmentation" not in hints(on_cpu, predict=True)


def test_fragmentation_as_seen_goes_before_the_prediction():
    loop = Loop()
    loop.segment(512, 100 * MIB)
    loop.alloc(40 * MIB)
    seen = profile((40 * MIB, 0, 1, FORWARD), trace=loop.trace(), circular=False)
    assert "PyTorch reserved 100 MiB while blocks took 40.0 MiB: 60%" in (
        hints(seen)["Fragmentation"].text
    )


@pytest.mark.parametrize(("state", "applies"), [(8192, True), (64, False)])
def test_optimizer_state_that_dominates(state, applies):
    loop = Loop()
    loop.alloc(4096)
    for number in range(5):
        loop.mark()
        if number == 0:
            loop.alloc(state, 2)
        loop.free(loop.alloc(1024))
    with_state = profile((1024, 0, 1, FORWARD), trace=loop.trace())
    found = hints(with_state).get("Much of the memory is optimizer state")
    assert (found is not None) == applies
    if found:
        assert found.bytes == state
        assert "8.00 KiB of 13.0 KiB" in found.text


def test_causes_come_first_and_no_hint_exceeds_the_peak():
    rows = [(40, 0, 3, FORWARD), (30, 1, 3, LOSS), (30, 2, 4, BACKWARD), (1, 3, 4, BACKWARD)]
    found = explain(profile(*rows), predict=False).hints
    assert [(hint.title, hint.is_cause) for hint in found] == [
        ("The loss's own tensors make the peak", True),
        ("Activations make the peak", False),
    ]
    assert max(hint.bytes for hint in found) <= profile(*rows).max_load()
