"""Checks that each mutant's pattern occurs exactly once in its file. Needs no compiler."""

import re
from functools import cache, partial
from typing import TYPE_CHECKING

import pytest

from tests.native.make import NATIVE

if TYPE_CHECKING:
    from pathlib import Path

LISTS = NATIVE / "mutants"
SOURCES = NATIVE.parents[1] / "csrc"
SUBSTITUTION = re.compile(r"s/((?:[^/\\]|\\.)*)/((?:[^/\\]|\\.)*)/(?:; |$)")


@cache
def prefixes() -> dict[str, str]:
    """Return the folder of each list's source files, as `mutants.sh` names it."""
    script = (LISTS / "mutants.sh").read_text()
    return dict(re.findall(r"^  (\w+)\) prefix=(\S*) attack=", script, re.MULTILINE))


def substitutions(change: str) -> list[tuple[str, str]]:
    """Split a sed script into patterns and replacements."""
    found = list(SUBSTITUTION.finditer(change))
    assert "".join(one[0] for one in found) == change, f"cannot parse: {change}"
    return [(one[1], one[2]) for one in found]


def replaced(match: re.Match[str], replacement: str) -> str:
    """Return a replacement of sed with its references to the match filled in."""

    def filled(reference: re.Match[str]) -> str:
        if reference[0] == "&":
            return match[0]
        return match[int(reference[1])] if reference[1].isdigit() else reference[1]

    return re.sub(r"\\(.)|&", filled, replacement)


@pytest.mark.parametrize("kind", sorted(path.stem for path in LISTS.glob("*.txt")))
def test_each_pattern_occurs_once(kind: str) -> None:
    """Apply the mutants of a list in order, as `mutants.sh` does."""
    texts: dict[Path, str] = {}
    wrong = []
    for line in (LISTS / f"{kind}.txt").read_text().splitlines():
        if line.startswith("#"):
            continue
        name, file, change = line.split(" ", 2)
        path = (SOURCES / prefixes()[kind] / file).resolve()
        text = texts.get(path) or path.read_text()
        for pattern, replacement in substitutions(change):
            text, count = re.subn(
                pattern,
                partial(replaced, replacement=replacement),
                text,
                flags=re.MULTILINE,
            )
            if count != 1:
                wrong.append(f"{name}: {count} matches of {pattern!r} in {file}")
        texts[path] = text
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "replacement", "expected"),
    [
        ("if (a)", r"if (SOUND and \1)", "if (SOUND and a)"),
        ("if (a)", r"BROKEN or &", "BROKEN or if (a)"),
        ("if (a)", r"\1 \&\& b \/ 2", "a && b / 2"),
    ],
)
def test_replacements_are_those_of_sed(text: str, replacement: str, expected: str) -> None:
    match = re.match(r"if \((.)\)", text)
    assert match
    assert replaced(match, replacement) == expected
