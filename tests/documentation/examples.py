"""Execution of the code blocks of a page, in order.

```python          code, executed in one namespace, which is empty at first. A block that begins
                   with `# NAME.py` is written to that file instead
```text            the output of the Python block before it, with "..." for anything
```console         commands after "$", run in this process if they begin with `pgmo`, otherwise by
                   the shell; the lines below are their output, with "..." for anything

After a line `<!-- figures vary -->`, numbers and units may differ from those on the page.
"""

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import SkipTest

from sybil import Document, Example
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

from pgmo.cli.main import main
from tests import forked

_PRINTED = "_printed"
_VARY = "<!-- figures vary -->\n"
Evaluator = Callable[[Example], str | None]
_FIGURE = re.compile(r"\d+(\.\d+)?( ([KMG]i)?B\b)?")
_LAUNCHERS = {
    "pgmo": ("-m", "pgmo"),
    "python": (),
    "torchrun": ("-m", "torch.distributed.run"),
}
_OF_A_SHELL = re.compile(r"[|&;<>$*?`]")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_python(example: Example) -> None:
    """Execute a block of Python, or write it to the file that its first line names."""
    source = str(example.parsed)
    script = re.match(r"# (\w+\.py)\n", source)
    if script:
        Path(script[1]).write_text(source)
        return
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        PythonEvaluator()(example)
    example.namespace[_PRINTED] = printed.getvalue()


def compare_text(example: Example) -> str | None:
    """Compare a block of text with the last output, and return a difference, if any."""
    expected, printed = str(example.parsed), example.namespace.get(_PRINTED, "")
    if _matches(expected, printed, example):
        return None
    return f"printed:\n{printed}\nnot:\n{expected}"


def run_console(example: Example) -> str | None:
    """Run a console block, and return an error or a difference, or None."""
    for command, expected in _commands(str(example.parsed)):
        code, printed = _run(command)
        if code:
            return f"$ {command}\nended with {code}:\n{printed}"
        if expected and not _matches(expected, printed, example):
            return f"$ {command}\nprinted:\n{printed}\nnot:\n{expected}"
    return None


def _matches(expected: str, printed: str, example: Example) -> bool:
    if example.document.text[: example.start].endswith(_VARY):
        expected, printed = (_FIGURE.sub("0", text) for text in (expected, printed))
    return doctest.OutputChecker().check_output(expected, printed, _FLAGS)


def _commands(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in text.splitlines(keepends=True):
        if line.startswith("$ "):
            found.append((line[2:].strip(), ""))
        else:
            assert found, f"a console block begins with '$ ', not with {line!r}"
            found[-1] = (found[-1][0], found[-1][1] + line)
    return found


def _run(command: str) -> tuple[int, str]:
    out, messages = io.StringIO(), io.StringIO()
    code = 0
    for part in command.split(" && "):
        if not part.startswith("pgmo ") or part.startswith("pgmo run "):
            done = _run_in_process(part)
            code = done.exit_code
            out.write(done.output)
            messages.write(done.errors)
        else:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(messages):
                code = main(shlex.split(part)[1:])
        if code:
            return code, messages.getvalue()
    return 0, out.getvalue()


def _run_in_process(command: str) -> forked.Ended:
    """Run a script in a forked process, in which torch is imported already.

    A command that is no script, such as pytest or a launcher, begins without torch.
    """
    name, _, rest = command.partition(" ")
    if name in _LAUNCHERS and not _OF_A_SHELL.search(rest) and "-m pytest" not in rest:
        words = (*_LAUNCHERS[name], *shlex.split(rest))
        return forked.run_command(Path.cwd(), *words, environment=os.environ)
    ours = command
    if name in _LAUNCHERS:
        ours = f"{shlex.join([sys.executable, *_LAUNCHERS[name]])} {rest}"
    done = subprocess.run(ours, shell=True, capture_output=True, text=True)
    return forked.Ended(done.stdout, done.stderr, done.returncode)


def skipped_code(text: str) -> list[str]:
    """Return the Python blocks of a page that are never run."""
    return re.findall(r"<!-- skip: next -->\n```python\n(.*?)```", text, re.DOTALL)


def run_page(path: str) -> int:
    """Run all code blocks of a page in an empty namespace, and return their number.

    A block below `<!-- skip: next -->` is not run. A block below
    `<!-- skip: next if(missing("timm"), reason="...") -->` is run if the package is installed.
    """
    count = 0

    def counted(evaluate: Evaluator) -> Evaluator:
        def run(example: Example) -> str | None:
            nonlocal count
            count += 1
            return evaluate(example)

        return run

    document = Document.parse(
        path,
        CodeBlockParser(language="python", evaluator=counted(run_python)),
        CodeBlockParser(language="text", evaluator=counted(compare_text)),
        CodeBlockParser(language="console", evaluator=counted(run_console)),
        SkipParser(),
    )
    document.namespace["missing"] = lambda package: importlib.util.find_spec(package) is None
    try:
        for example in document.examples():
            with contextlib.suppress(SkipTest):
                example.evaluate()
    finally:
        # Dynamo keeps the globals of compiled code, and so would keep models and their slots.
        document.namespace.clear()
    return count
