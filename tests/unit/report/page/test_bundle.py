import re
from collections import Counter
from importlib.resources import files

from pgmo.report.page.bundle import asset, script, style


def test_every_module_is_in_the_script_once_and_after_those_it_imports():
    text = script()
    modules = [p.name for p in files("pgmo.report").joinpath("assets/js").iterdir()]
    for name in modules:
        source = asset(f"js/{name}")
        opening = source.splitlines()[0]
        assert text.count(opening) == 1, name
        for needed in re.findall(r'from "\./([\w-]+)\.js"', source):
            first = asset(f"js/{needed}.js").splitlines()[0]
            assert text.index(first) < text.index(opening), f"{name} before {needed}"


def test_no_import_or_export_is_left():
    own = script().partition("// Formats and parsers of sizes and counts")[2]
    assert own
    assert not re.search(r"^\s*(import|export)\b", own, re.MULTILINE)


def test_names_at_the_top_level_differ():
    names: list[str] = []
    for path in files("pgmo.report").joinpath("assets/js").iterdir():
        source = path.read_text(encoding="utf-8")
        names += re.findall(
            r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", source, re.MULTILINE
        )
    assert [name for name, count in Counter(names).items() if count > 1] == []


def test_nothing_in_script_or_style_ends_its_element():
    assert "</script" not in script().lower()
    assert "<!--" not in script()
    assert "</style" not in style().lower()


def test_the_chart_library_comes_with_its_licence():
    assert asset("vendor/uPlot.LICENSE").strip() in script()
