"""Tests of the parts of a report without scripts: the sentence, the tables and the icicles."""

import re

import numpy as np
import pytest

from pgmo.packing.planner import plan
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag
from pgmo.profiler.trace import Event, Trace
from pgmo.report.blocks.origins import EARLIER, existed_before, names_of
from pgmo.report.findings.attribution import find_peak
from pgmo.report.findings.nesting import by_module, by_stack
from pgmo.report.page.html import render
from pgmo.report.page.icicle import icicles
from pgmo.report.page.sentence import module_in_words, place_of, sentence
from pgmo.report.summary import explain
from tests.unit.report.profiles import HOSTILE, small_profile

MIB = 2**20
STACK = ("net.py:7 in forward", "train.py:3 in step", "train.py:9 in <module>")


def fragmented(**changes) -> Profile:
    # The kept 5 MiB take a part of the first 30 MiB, so that the last block does not fit.
    columns = {
        "size": [30 * MIB, 5 * MIB, 30 * MIB],
        "start": [0, 1, 2],
        "end": [1, -1, 3],
        "ticks": 3,
        "circular": False,
        "tag": [0, 0, 1],
        "tags": (
            Tag("Net.layers.0.mlp", "aten.mm", "forward"),
            Tag("Net.layers.3.attention", "aten.mm", "backward"),
        ),
        **changes,
    }
    return Profile.from_columns(**columns)


def said(profile: Profile) -> str:
    made = plan(profile)
    return sentence(profile, made, explain(profile, made))


def recorded() -> Profile:
    """Return a linear profile: 8 bytes from before that stay, 4 that are freed, two requests."""
    rows = [
        (Event.ALLOC, 64, 8),
        (Event.ALLOC, 128, 4),
        (Event.ALLOC, 256, 2),
        (Event.FREE_REQUESTED, 128, 4),
        (Event.FREE_COMPLETED, 128, 4),
        (Event.ALLOC, 128, 1),
    ]
    kind, address, size = zip(*rows, strict=True)
    trace = Trace.from_columns(kind=kind, address=address, size=size, before=2)
    return profile_of(trace, whole=True)


def test_the_first_line_says_what_is_saved_and_where_the_peak_is():
    profile = fragmented(end=[1, -1, 3], start=[0, 1, 2])
    made = plan(profile)
    explained = explain(profile, made)
    reserved, needed = explained.reserved["default"].peak, made.arena + explained.unplanned
    share = (reserved - needed) / reserved
    assert said(profile).startswith(
        f"pgmo would need {share:.0%} less than PyTorch".replace("%", " %")
    )
    assert said(profile).endswith("The peak is in layer 0's mlp, forward.")
    text = re.search(r'<section class="headline"[^>]*><p>(.*?)</p>', render(profile, made))[1]
    assert text.replace("&#x27;", "'") == said(profile)


def test_on_the_cpu_pytorch_reserves_nothing_itself():
    assert "PyTorch would reserve on a GPU" in said(fragmented(meta=ProfileMeta(device="cpu")))


def test_a_plan_that_takes_more_says_so():
    profile = Profile.from_columns(
        size=[30 * MIB, 5 * MIB], start=[0, 1], end=[1, -1], ticks=2, circular=False
    )
    assert re.match(r"pgmo would need \d+ % more than PyTorch would reserve", said(profile))


@pytest.mark.parametrize(
    ("tag", "place"),
    [
        (Tag("", "aten.sqrt", "optimizer", "adam.py:3 in step"), "in the optimizer step"),
        (Tag("", "aten.mm", "forward", "net.py:3 in f"), "in net.py:3 in f, forward"),
        (Tag("", "aten.mm", "other"), "in mm"),
        (Tag("", "", "backward"), "in the backward pass"),
        (Tag("", "", ""), "at request 1 of 1"),
        (Tag("Net", "aten.mm", "recompute"), "in Net, recompute"),
    ],
)
def test_the_place_of_the_peak_is_said_as_well_as_it_is_known(tag, place):
    profile = Profile.from_columns(size=[8], start=[0], end=[1], ticks=1, tag=[0], tags=(tag,))
    assert place_of(profile, 0) == place


def test_layers_are_numbered_as_in_their_path():
    assert module_in_words("Vit.encoder.layers.11") == "layer 11"
    assert module_in_words("Seq.4.conv.1") == "layer 4's conv.1"


def test_an_empty_profile_has_no_first_line():
    page = render(Profile.from_columns(size=[], start=[], end=[], ticks=0))
    assert 'class="headline"' not in page


def test_blocks_from_before_the_recording_are_named_so():
    profile = recorded()
    assert existed_before(profile).tolist() == [True, True, False, False]
    assert names_of(profile, "op")[:2] == [EARLIER, EARLIER]
    assert names_of(profile, "op")[2:] == ["(untagged)"] * 2
    assert find_peak(profile).modules[0].name == EARLIER


def test_a_recording_without_requests_began_with_all_of_its_blocks():
    trace = Trace.from_columns(kind=[Event.ALLOC] * 2, address=[64, 128], size=[8, 4], before=2)
    assert existed_before(profile_of(trace, whole=True)).all()


def test_the_page_names_them_too(open_report):
    opened = open_report(recorded(), "#by=phase")
    assert "before recording" in opened.text("#live")
    opened.page.evaluate("document.querySelector('#live button').click()")
    assert "there before the recording began" in opened.text("#details")


def test_icicles_add_up_to_the_peak():
    tags = (
        Tag("Net.a", "aten.mm", "forward", stack=STACK),
        Tag("Net.a.b", "aten.mul", "forward", stack=STACK[1:]),
        Tag("", "aten.add", "backward"),
    )
    profile = Profile.from_columns(
        size=[16, 8, 4, 2],
        start=[0, 1, 2, 3],
        end=[4, 4, 4, 4],
        ticks=4,
        tag=[0, 1, 2, -1],
        tags=tags,
    )
    for root in (by_module(profile), by_stack(profile)):
        assert root.size == find_peak(profile).size == 30
        assert sum(child.size for child in root.children.values()) == 30
    module = by_module(profile).children["Net"].children["a"]
    assert (module.size, module.children["b"].size) == (24, 8)
    outer = by_stack(profile).children["train.py:9 in <module>"].children["train.py:3 in step"]
    assert (outer.size, outer.children["net.py:7 in forward"].size) == (24, 16)
    assert set(by_stack(profile).children) == {
        "train.py:9 in <module>",
        "backward, no stack",
        "(untagged)",
    }


def test_icicles_are_as_wide_as_their_bytes():
    drawing = icicles(small_profile())
    widths = dict(re.findall(r'width="([\d.]+)%" height="\d+"><title>([^:<]*):', drawing)[::-1])
    by_name = {name: float(width) for width, name in widths.items()}
    held = {
        child.name: child.size
        for child in by_module(small_profile()).children["Net"].children.values()
    }
    whole = find_peak(small_profile()).size
    for name, size in held.items():
        if name in by_name:
            assert by_name[name] == pytest.approx(100 * size / whole, abs=1e-3)


def test_icicles_of_many_deep_stacks_stay_small():
    random = np.random.default_rng(0)
    tags = tuple(
        Tag("", "mm", "forward", stack=tuple(f"f{random.integers(4)}.py:{d}" for d in range(200)))
        for _ in range(2_000)
    )
    count = len(tags)
    profile = Profile.from_columns(
        size=[8] * count,
        start=range(count),
        end=[count] * count,
        ticks=count,
        tag=range(count),
        tags=tags,
    )
    assert len(icicles(profile)) < 2_000_000


def test_names_in_icicles_and_tables_are_escaped():
    tags = (Tag(HOSTILE, "<ins>", "forward", stack=("<del>",)),)
    profile = Profile.from_columns(size=[64], start=[0], end=[1], ticks=1, tag=[0], tags=tags)
    page = render(profile)
    assert not re.search(r"<ins>|<del>", page)
    assert page.count("</script>") == 2


def test_without_a_script_who_holds_the_peak_is_there(browser, small):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(small.as_uri())
    page.click(".static summary")
    tables = page.locator(".static table")
    assert tables.count() >= 3
    assert "Net.conv" in page.inner_text(".static")
    assert page.locator("svg.icicle").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_words_open_by_keyboard(report):
    report.page.focus(".words summary")
    report.press("Enter")
    assert "No arena can be smaller" in report.text(".words")
    report.press("ArrowLeft")  # not taken away from the page


def test_the_keyboard_reaches_everything_in_reading_order(report):
    seen = []
    for _ in range(30):
        report.page.keyboard.press("Tab")
        seen.append(
            report.page.evaluate("document.activeElement.id || document.activeElement.tagName")
        )
    order = [
        name for name in ("open-help", "SUMMARY", "by", "search", "peak", "marks") if name in seen
    ]
    assert order == ["open-help", "SUMMARY", "by", "search", "peak", "marks"]
    assert [seen.index(name) for name in order] == sorted(seen.index(name) for name in order)
    report.page.focus("#search")
    report.page.keyboard.press("Shift+Tab")
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert report.page.evaluate(outline) != "none"


def test_arrows_choose_between_the_places(report):
    report.page.focus("input[name=mode][value=planned]")
    report.page.keyboard.press("ArrowRight")
    assert report.page.is_checked("input[name=mode][value=placed]")


def test_the_sentence_begins_with_the_cause_of_the_peak():
    columns = {"tags": (Tag("Net.a", "aten.one_hot", "forward"), Tag("Net.b", "", "forward"))}
    text = said(fragmented(**columns))
    assert text.startswith(
        "A matrix of zeros and ones: 5.00 MiB of the peak of 35.0 MiB are one-hot"
    )
    assert text.endswith(" The peak is in a, forward.")
    assert not said(fragmented()).startswith("A matrix")
