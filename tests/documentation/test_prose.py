"""Tests that each rule of prose_rules.toml finds forbidden text; `make lint` checks the project."""

from pathlib import Path

import pytest

from tests.documentation.prose import check

BROKEN = {
    "word.md": ("The driver is told of it.\n", "'told'"),
    "phrase.md": ("The session gives\nway to another.\n", "'gives way'"),
    "sentence.md": ("It " + "is " * 40 + "long.\n", "42 words"),
    "comment.py": ("x = 1  # nobody reads it\n", "'nobody'"),
    "message.py": ('raise ValueError("whoever asks")\n', "'whoever'"),
    "name.py": ("told_already = 1\n", "'told_already'"),
    "fragment.py": ('class A:\n    """What it holds."""\n', "name the thing"),
    "noun.py": ('def size():\n    """The bytes."""\n', "begin with a verb"),
    "other_form.py": ('def size():\n    """Returns bytes."""\n', "begin with a verb"),
    "comment.hpp": ("// Likewise for frees.\n", "'Likewise'"),
    "name.cpp": ("void tell_others();\n", "'tell_others'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_each_rule_finds_what_it_forbids(name: str, tmp_path: Path) -> None:
    text, expected = BROKEN[name]
    path = tmp_path / name
    path.write_text(text)
    assert [finding for finding in check(path) if expected in finding.text]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("code.md", "Call `tell()`, or read:\n\n```\nnobody\n```\n"),
        ("indented.md", "Run:\n\n    $ " + "word " * 50 + "\n"),
        ("property.py", 'class A:\n    @property\n    def size(self):\n        """Bytes."""\n'),
        ("test.py", 'def test_size():\n    """The bytes are counted."""\n'),
        ("verb.py", 'def size():\n    """Return the bytes."""\n'),
    ],
)
def test_code_properties_and_tests_are_exempt(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert not check(path)
