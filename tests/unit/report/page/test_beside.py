"""Two profiles in one page."""

import re

import pytest

from pgmo.cli.main import main
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.findings.comparison import compare
from pgmo.report.page.beside import beside, verdict, write_beside
from pgmo.report.page.curves import two_curves
from tests.unit.report.profiles import HOSTILE, small_profile

TAGS = (
    Tag("Net.layers.0.mlp", "aten.mm", "forward"),
    Tag("Net.layers.3.attention", "aten.bmm", "backward"),
)


def step(*sizes: int, **changes) -> Profile:
    count = len(sizes)
    columns = {
        "size": sizes,
        "start": range(count),
        "end": [count] * count,
        "ticks": count,
        "tag": [0, *[1] * (count - 1)],
        "tags": TAGS,
        **changes,
    }
    return Profile.from_columns(**columns)


def cells(page: str, title: str) -> list[list[str]]:
    section = re.search(rf"<h2>{title}</h2>(.*?)</section>", page, re.DOTALL)[1]
    rows = re.findall(r"<tr>(.*?)</tr>", section, re.DOTALL)[1:]
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_the_verdict_names_the_change_and_who_it_is():
    before, after = step(100, 200), step(100, 260)
    assert verdict(compare(before, after), after) == (
        "20 % more at the peak (360 B instead of 300 B), the largest change in layer 3's attention "
        "(+60 B); the peak is in layer 3's attention, backward."
    )
    assert verdict(compare(after, before), before).startswith(
        "16.7 % less at the peak (300 B instead of 360 B), the largest change in layer 3's "
        "attention (-60 B)"
    )


def test_where_nothing_has_changed_that_is_said():
    same = step(100, 200)
    assert verdict(compare(same, same), same).startswith("The same requests, and as much at the")
    assert "At the peak, by" not in beside(same, same)


@pytest.mark.parametrize(("one", "two"), [((), (8,)), ((8,), ())])
def test_either_may_be_empty(one, two):
    empty = Profile.from_columns(size=[], start=[], end=[], ticks=0)
    before, after = (step(*sizes) if sizes else empty for sizes in (one, two))
    said = verdict(compare(before, after), after)
    assert said.startswith("100 % less at the peak" if one else "8 B at the peak, where there was")
    assert beside(before, after).endswith("</html>\n")


def test_tables_hold_what_compare_says():
    before, after = step(100, 200), step(120, 260, 40)
    page = beside(before, after)
    told = compare(before, after)
    shown = {row[0]: row[1:] for row in cells(page, "At the peak, by module")}
    assert set(shown) == {one.name for one in told.peaks["module"]}
    assert shown["Net.layers.3.attention"] == ["200 B", "300 B", "+100 B"]
    figures = {row[0]: row[1:] for row in cells(page, "Figures")}
    assert figures["Max load"] == ["300 B", "420 B", "+120 B (+40.0%)"]
    assert figures["Requests"] == ["2", "3", "+1 (+50.0%)"]
    assert figures["Persistent"] == ["0 B", "0 B", "same"]


def test_long_lists_end_in_a_row_with_the_rest():
    many = tuple(Tag(f"Net.part{i}", "aten.mm", "forward") for i in range(50))
    sizes = [8 * (i + 1) for i in range(50)]
    page = beside(step(8), step(*sizes, tag=range(50), tags=many))
    rows = cells(page, "At the peak, by module")
    assert len(rows) == 21
    assert rows[-1][0].endswith("others")


def test_curves_reach_as_high_as_their_peaks():
    drawing = two_curves(step(100), step(100, 100, 200))
    tops = [
        min(float(point.split(",")[1]) for point in points.split())
        for points in re.findall(r'points="([^"]*)"', drawing)
    ]
    # The higher one takes 92 % of the drawing, the other a quarter of that.
    assert tops == pytest.approx([1000 - 230, 1000 - 920])


def test_names_are_escaped_and_the_page_has_no_script():
    page = beside(small_profile(size=[8] * 8), small_profile(), (HOSTILE, "<b>"))
    assert "<script" not in page
    assert "<b>" not in page
    assert "default-src 'none'; style-src 'sha256-" in page


@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_the_screen(browser, tmp_path, width):
    path = write_beside(small_profile(size=[900] * 8), small_profile(), tmp_path / "a.html")
    context = browser.new_context(viewport={"width": width, "height": 844})
    page = context.new_page()
    problems = []
    page.on("console", lambda message: problems.append(message.text))
    page.goto(path.as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".columns th[scope=row]").first.bounding_box()["height"] < 60
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((one) => one.id)")
    assert len(ids) == len(set(ids))
    assert problems == []
    context.close()


def test_the_command_writes_it(tmp_path, capsys):
    base, new = tmp_path / "base.pgmoprof", tmp_path / "new.pgmoprof"
    step(100, 200).save(base)
    step(100, 260).save(new)
    assert main(["report", str(new), "--against", str(base)]) == 0
    page = tmp_path / "new-against-base.html"
    assert "20 % more at the peak" in page.read_text()
    assert str(page) in capsys.readouterr().err
    assert main(["report", str(new), "--against", str(base)]) != 0  # it is there
    assert main(["report", str(new), "--against", str(base), "--plan", "x"]) != 0
    assert main(["report", str(new), "--against", str(base), "-f", "--json"]) == 0
    assert '"max_load": 360' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "heads"),
    [
        (("/data/runs/old.pgmoprof", "/tmp/new.pgmoprof"), ["old", "new"]),
        (("runs/monday/gpt.pgmoprof", "runs/friday/gpt.pgmoprof"), ["monday/gpt", "friday/gpt"]),
        (("same.pgmoprof", "same.pgmoprof"), ["same.pgmoprof", "same.pgmoprof"]),
    ],
)
def test_tables_name_the_ends_of_paths_and_the_heading_the_whole(names, heads):
    page = beside(step(10, 20), step(10, 30), names)
    shown = re.search(r"<h2>Figures</h2>.*?<thead>(.*?)</thead>", page, re.DOTALL)[1]
    titles = re.findall(r"<th class='number'>(.*?)</th>", shown)
    assert [one.replace("<wbr>", "") for one in titles] == [*heads, "change"]
    assert f"<h1>{names[1]}</h1>" in page
    assert f"against {names[0]}" in page


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_long_paths_leave_room_for_the_names_of_modules(browser, tmp_path, width):
    names = tuple(f"/a/long/way/to/{side}_of_the_experiment/gpt.pgmoprof" for side in ("a", "b"))
    path = write_beside(step(10, 20), step(10, 30), tmp_path / "both.html", names=names)
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(path.as_uri())
    narrow = """() => [...document.querySelectorAll(".pair tbody th")]
        .filter((one) => one.clientWidth < 120).map((one) => one.textContent)"""
    assert page.evaluate(narrow) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()
