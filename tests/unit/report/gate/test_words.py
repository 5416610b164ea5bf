from dataclasses import replace

from pgmo.profiler.tag import Tag
from pgmo.report.gate.gate import Gate
from pgmo.report.gate.growth import find_growth
from pgmo.report.gate.tolerance import Tolerance
from pgmo.report.gate.words import markdown_lines, text_lines, verdict
from tests.unit.report.gate.states import state


def gate(*programs, new=(), gone=()):
    return Gate(tuple(programs), new, gone, Tolerance())


def growth(name="net", **after):
    return find_growth(name, state(), state(**after), Tolerance())


def test_the_verdict():
    assert verdict(gate(growth())) == "No program exceeds its earlier state by more than 1 %."
    assert verdict(gate(growth(), growth("large", second=4000), gone=("old",))) == (
        "1 of 2 programs exceeds the earlier state by more than 1 %: large. "
        "No longer recorded: old."
    )


def test_text_names_figures_and_origins():
    lines = list(text_lines(gate(growth(second=4000))))
    assert "FAILED  net, max load: 3.91 KiB -> 4.88 KiB (+25.0%)" in lines
    assert "          module Net.b: 2.93 KiB -> 3.91 KiB (+1000 B)" in lines
    assert "ok      net, blocks: 2 -> 2" in lines


def test_markdown_is_one_table_and_lists_of_who_has_grown():
    lines = list(markdown_lines(gate(growth(), growth("large", second=4000), new=("fresh",))))
    rows = [line for line in lines if line.startswith("|")]
    assert rows[0] == "| program | max load | arena | persistent | blocks |"
    assert rows[2] == "| `net` | 3.91 KiB | 3.94 KiB | 0 B | 2 |"
    assert rows[3].startswith("| `large` | **3.91 KiB → 4.88 KiB (+25.0%)** |")
    assert lines.count("`large`, at the peak:") == 1
    assert "- module `Net.b`: 2.93 KiB → 3.91 KiB (**+1000 B**)" in lines
    assert lines[-1] == "Without an earlier state: `fresh`."


def test_names_cannot_break_out_of_the_table():
    name = "a|b`c\n<script>"
    tags = (Tag("Net|x`", "op", ""), Tag("Net", "op", ""))
    after = replace(state(4000), tags=tags)
    found = find_growth(name, state(), after, Tolerance())
    text = "\n".join(markdown_lines(gate(found)))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert all(row.count("|") == 6 for row in rows)
    assert "`a│b'c <script>`" in text
    assert "\\<script\\>" in text.splitlines()[2]


def test_without_an_earlier_state_nothing_is_compared():
    assert verdict(gate()) == "Nothing was compared: no program has an earlier state."
