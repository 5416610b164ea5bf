"""Check of the project's language: `python -m tests.documentation.prose [FILE ...]`.

Prints a line for each word, name, docstring or sentence that breaks a rule of prose_rules.toml,
and exits with 1 if there are any.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RULES = tomllib.loads(Path(__file__).with_name("prose_rules.toml").read_text())


@dataclass(frozen=True)
class Finding:
    """A place where the text breaks a rule."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Passage:
    """Text that people read, from a line of a file on."""

    line: int
    text: str


CODE_SPAN = re.compile(r"(`+)[^`]+?\1")
FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
NATIVE_PART = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<name>[A-Za-z_]\w*)',
    re.DOTALL,
)
NAME_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
BLOCK_START = re.compile(r"\n(?=\s*(?:[-*|#>]|\d+\. ))|\n\s*\n")
SENTENCE_END = re.compile(r"(?<=[.!?:;])[)\"*_]*\s+")
BLANKED = re.compile(r"[^\n]")


def blank(match: re.Match[str]) -> str:
    """Return spaces in place of the matched text; its line breaks remain."""
    return BLANKED.sub(" ", match.group())


def alternatives(words: dict[str, str]) -> re.Pattern[str]:
    """Return a pattern for any of these words or phrases, which may be broken over two lines."""
    phrases = (r"(?:\s+(?:#|//|\*)?\s*)".join(map(re.escape, one.split())) for one in words)
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)


WORDS = alternatives(RULES["words"])


def words_of(path: Path, passages: list[Passage]) -> Iterator[Finding]:
    """Yield the forbidden words of passages."""
    for passage in passages:
        text = CODE_SPAN.sub(blank, passage.text)
        for match in WORDS.finditer(text):
            line = passage.line + text.count("\n", 0, match.start())
            word = " ".join(re.sub(r"#|//|\*", " ", match.group()).split())
            yield Finding(path, line, f"{word!r}: write {RULES['words'][word.lower()]}")


def names_of(path: Path, names: list[Passage]) -> Iterator[Finding]:
    """Yield the identifiers that contain a forbidden word."""
    for name in names:
        for part in NAME_PART.findall(name.text):
            if part.lower() in RULES["names"]:
                instead = RULES["names"][part.lower()]
                yield Finding(path, name.line, f"the name {name.text!r}: write {instead}")


def check_markdown(path: Path) -> Iterator[Finding]:
    """Yield the findings of a page."""
    text = FENCE.sub(blank, path.read_text())
    yield from words_of(path, [Passage(1, text)])
    limit = RULES["limits"]["words_per_sentence"]
    start = 0
    for end in [*(match.start() for match in BLOCK_START.finditer(text)), len(text)]:
        block = text[start:end]
        is_code = block.strip("\n").startswith("    ")
        if not is_code and not block.lstrip().startswith("|"):
            for sentence in SENTENCE_END.split(CODE_SPAN.sub("x", block)):
                count = len(sentence.split())
                if count > limit:
                    line = 1 + text.count("\n", 0, start) + 1
                    yield Finding(path, line, f"{count} words in a sentence, more than {limit}")
        start = end


def check_python(path: Path) -> Iterator[Finding]:
    """Yield the findings of a module: words, names and docstrings."""
    source = path.read_text()
    passages, names = [], []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        found = Passage(token.start[0], token.string)
        kind = tokenize.tok_name[token.type]
        if kind in ("COMMENT", "STRING", "FSTRING_MIDDLE"):
            passages.append(found)
        elif kind == "NAME":
            names.append(found)
    yield from words_of(path, passages)
    yield from names_of(path, names)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from check_docstring(path, node)


def check_docstring(
    path: Path, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[Finding]:
    """Yield a finding if the docstring of a module, class or function begins with a fragment."""
    docstring = ast.get_docstring(node)
    if not docstring:
        return
    line = node.body[0].lineno
    first = re.split(r"[\s,:;.?]", docstring, maxsplit=1)[0]
    if first in RULES["openings"]["everything"]:
        yield Finding(path, line, f"the docstring begins with {first!r}: name the thing")
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and begins_with_verb(node):
        other_form = re.fullmatch(r"[A-Z][a-z]*[^s\W]s", first)
        if first in RULES["openings"]["functions"] or other_form:
            yield Finding(path, line, f"the docstring begins with {first!r}: begin with a verb")


def begins_with_verb(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a docstring has to begin with a verb.

    The docstring of a property is a noun phrase, and that of a test states what should hold.
    """
    is_property = any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
    return not is_property and not node.name.startswith("test_")


def check_native(path: Path) -> Iterator[Finding]:
    """Yield the findings of a C or C++ file: words in comments and strings, and names."""
    source = path.read_text()
    passages, names = [], []
    for match in NATIVE_PART.finditer(source):
        found = Passage(1 + source.count("\n", 0, match.start()), match.group())
        (names if match["name"] else passages).append(found)
    yield from words_of(path, passages)
    yield from names_of(path, names)


CHECKS = {".md": check_markdown, ".py": check_python}


def check(path: Path) -> list[Finding]:
    """Return the findings of a file, in the order of its lines."""
    return sorted(CHECKS.get(path.suffix, check_native)(path), key=lambda one: one.line)


def files() -> list[Path]:
    """Return the files of the project to which the rules apply."""
    kinds = RULES["files"]
    patterns = [*kinds["markdown"], *kinds["python"], *kinds["native"]]
    exempt = {path for pattern in kinds["exempt"] for path in ROOT.glob(pattern)}
    return sorted({path for one in patterns for path in ROOT.glob(one)} - exempt)


def main() -> int:
    """Print the findings of the given files, or of the project's; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="files (default: the project's)")
    found = [one for path in parser.parse_args().files or files() for one in check(path)]
    for finding in found:
        print(finding)
    if found:
        print(f"{len(found)} findings; the rules are in tests/documentation/prose_rules.toml")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
