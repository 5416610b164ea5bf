"""Verdicts of sessions on a simulated framework."""

import re
from pathlib import Path

import pytest

from pgmo.allocator.adapters.baseline import Baseline
from pgmo.allocator.session import statistics
from pgmo.allocator.session.statistics import MISS_ADVICE, MISS_REASONS
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.errors import SessionError
from tests.unit.allocator.simulated import Loop, open_session, run

GUIDE = Path(__file__).parents[5] / "docs" / "guides" / "troubleshooting.md"
LAYERS = [3 << 20, 11 << 20, 5 << 20, 13 << 20, 2 << 20, 12 << 20]


FIGURES = Baseline(
    *(990 << 20, 990 << 20, 0, 500 << 20, 760 << 20, 760 << 20, 2000 << 20),
    requests=9,
    retries=0,
    failures=0,
    broken=0,
)


@pytest.fixture
def card(adapter, monkeypatch):
    """Return the adapter of a device with a model of plain PyTorch."""
    monkeypatch.setattr(adapter, "baseline", lambda: FIGURES)
    adapter.device, adapter.name = "cuda:0", "torch"
    return adapter


def trained(adapter, times=12, **options):
    loop = Loop(adapter, LAYERS)
    with open_session(adapter, **options) as session:
        run(loop, session, times)
    loop.finish()
    return session


def test_the_summary_begins_with_the_verdict(card):
    session = trained(card)
    summary = session.summary()
    first, *rest = str(summary).splitlines()
    assert first == f"pgmo: {summary.verdict}"
    assert any("12 iterations, 4 recorded, 8 replayed" in line for line in rest)
    assert first == "pgmo: 760 MiB instead of 990 MiB (23 % less)"
    assert (summary.verdict.plain, summary.verdict.taken) == (990 << 20, 760 << 20)
    assert summary.verdict.since == 5
    assert summary.verdict.wrong == ()


def test_growth_comes_before_the_verdict(card):
    loop = Loop(card, LAYERS)
    with open_session(card) as session:
        run(loop, session, 16, extra=lambda: card.request(2 << 20))
    summary = session.summary()
    assert summary.growth.rate == 2 << 20
    assert str(summary).splitlines()[:2] == [
        "pgmo: live memory grows by 2.00 MiB in each iteration (26.0 MiB in the last 13)",
        f"pgmo: {summary.verdict}",
    ]


def test_a_program_that_keeps_nothing_has_no_growth(card):
    assert trained(card, times=40).summary().growth is None


def test_the_share_is_of_the_whole_run_and_not_of_the_replayed_part(adapter):
    session = trained(adapter)
    summary = session.summary()
    assert summary.hit_bytes_rate == 1
    requested = sum(one.bytes_requested for one in session.history)
    hit = sum(one.bytes_hit for one in session.history)
    assert (summary.run_bytes, summary.run_bytes_hit) == (requested, hit)
    assert 0.5 < summary.run_share < 8 / 12
    assert f"{summary.run_share:.0%} of the".replace("%", " %") in str(summary)
    assert "came from slots; iteration 5 was the first with more than half" in str(summary)


def test_on_the_cpu_there_is_no_figure_of_what_would_have_been(adapter):
    verdict = trained(adapter).summary().verdict
    assert verdict.plain == 0
    assert str(verdict).startswith("live bytes in slots peaked at ")


def test_it_is_the_same_before_and_after_the_end(card):
    loop = Loop(card, LAYERS)
    with open_session(card) as session:
        run(loop, session, 12)
        before = session.summary()
    assert session.summary() == before
    loop.finish()


def test_counting_alone_reads_no_figures_of_the_device(card, monkeypatch):
    session = trained(card)
    assert session.counted().verdict is None
    assert session.counted().replayed == 8


def test_a_session_that_cannot_plan_says_why(card):
    with open_session(card) as session:
        addresses = []
        for _ in range(8):
            with session.iteration():
                addresses.append(card.request(1 << 20))
    summary = session.summary()
    assert summary.waits == "its blocks are never freed, or are shared by streams"
    assert "plan       none serves: its blocks are never freed" in str(summary)
    for address in addresses:
        card.free(address)


def test_a_session_that_was_never_opened_has_nothing_to_judge(adapter):
    assert open_session(adapter).summary() == Summary(0, 0, 0)


def test_the_report_begins_with_the_verdict(card):
    session = trained(card)
    page = session.report().page
    verdict = str(session.summary().verdict)
    assert verdict in page
    assert page.index(verdict) < page.index('class="card')


def test_a_report_of_nothing_is_refused(card):
    with open_session(card) as session:
        with pytest.raises(SessionError, match="nothing to report on yet"):
            session.report()
        run(loop := Loop(card, LAYERS), session, 1)
        loop.finish()


def test_each_miss_comes_with_the_advice_of_the_guide():
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", GUIDE.read_text(), re.MULTILINE)
    texts, last = {}, ""
    for reason, advice in rows:
        last = last if advice.startswith("the same") else advice
        texts[reason] = last
    for reason, text in MISS_REASONS.items():
        assert texts[text] == MISS_ADVICE[reason], reason


def test_misses_are_printed_with_their_advice():
    summary = Summary(20, 4, 16, requests=100, hits=93, misses={"too_large": 7, "late": 0})
    (line,) = [line for line in str(summary).splitlines() if "misses" in line]
    assert "7 larger than when it was planned" in line
    assert statistics.MISS_ADVICE["too_large"] in line
