"""Tests of the number of steps that a script plans, as read from its running loops."""

import contextlib
import os
import runpy
import sys
import textwrap
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pgmo.fit.observer.planned_steps import planned_steps

LOOPS = [
    ("for step in range(1000):\n    note()", (1000, False)),
    ("for epoch in range(given.epochs):\n    for batch in data:\n        note()", (120, False)),
    ("for epoch in range(3):\n    for i, batch in enumerate(data):\n        note()", (120, False)),
    ("for step in tqdm(range(2, 12, 2), desc='x'):\n    note()", (5, False)),
    ("for batch in islice(forever(), 7 * given.epochs):\n    note()", (21, False)),
    ("for batch in forever():\n    note()", None),
    ("while True:\n    note()", None),
    ("note()", None),
    # Loops that end at a limit of a counter.
    ("n = 0\nwhile n < 500:\n    n += 1\n    note()", (500, False)),
    (
        "n = 0\nwhile n < given.most:\n    for batch in data:\n        n += 1\n        note()\n"
        "        if n >= given.most:\n            break",
        (70, False),
    ),
    # A counter of micro-batches, of which each step has four.
    ("n = 0\nwhile n < 400:\n    n += 4\n    note()", (100, False)),
    # An inner loop that ends early in each epoch.
    (
        "for epoch in range(3):\n    for i, batch in enumerate(data):\n        if i >= 10:\n"
        "            break\n        note()",
        (30, False),
    ),
    # Steps within functions.
    (
        "def step():\n    for part in range(5):\n        pass\n    note()\n"
        "def train():\n    for _ in range(20):\n        step()\n"
        "for epoch in range(3):\n    train()",
        (60, False),
    ),
    # Comprehensions have no frame of their own since Python 3.12.
    ("[note() for _ in range(6)]", None),
    ("for epoch in range(9):\n    {at: note() for at in range(6)}", None),
    ("for epoch in range(9):\n    list(note() for at in range(6))", None),
    ("for epoch in range(9): note([at for at in range(6)])", (9, False)),
    ("for epoch in range(9):\n    [at for at in [note(), note()]]", (9, False)),
    # The visible loop plans 3 steps, but 5 are made, so that there is an invisible one.
    ("for epoch in range(3):\n    [note() for _ in range(6)]", None),
    # Counters that begin again in each epoch, or in each call.
    (
        "for epoch in range(100):\n    n = 0\n    for batch in data:\n        note()\n"
        "        n += 1\n        if n >= 10:\n            break",
        (1000, False),
    ),
    (
        "for epoch in range(9):\n    n = 0\n    while n < 8:\n        n += 1\n        note()",
        (72, False),
    ),
    (
        "def train():\n    n = 0\n    while n < 8:\n        n += 1\n        note()\n"
        "for epoch in range(9):\n    train()",
        (72, False),
    ),
    # A counter that runs across epochs.
    (
        "def train():\n    n = 0\n    for epoch in range(9):\n        for batch in data:\n"
        "            n = n + 1\n            note()\n            if n >= 50:\n"
        "                return\n"
        "train()",
        (50, False),
    ),
    ("kept = []\nwhile len(kept) < 90:\n    kept.append(1)\n    note()", (90, False)),
    # Limits of variables that count no steps: bad losses in a row, and the size of a batch.
    (
        "bad = 0\nfor epoch in range(90):\n    bad += 1\n    if epoch < 0:\n        bad = 0\n"
        "    note()\n    if bad >= 10:\n        break",
        (90, False),
    ),
    (
        "size = 64\nfor batch in data:\n    note()\n    if size < 64:\n        break",
        (40, False),
    ),
]


def steps_of(folder: Path, code: str, **names: Any) -> Any:
    """Return the planned steps as read in a script's fifth step, or None if it makes fewer."""
    path = folder / "train.py"
    path.write_text(textwrap.dedent(code))
    found: list[Any] = []

    def note(*_: Any) -> None:
        found.append(None)
        if len(found) == 5:
            own = lambda file: file if os.path.realpath(file) == str(path) else ""  # noqa: E731
            found[-1] = planned_steps(sys._getframe(1), own, 5)
            raise KeyboardInterrupt

    def forever() -> Any:
        while True:
            yield 0

    given = {
        "note": note,
        "forever": forever,
        "data": [0] * 40,
        "given": SimpleNamespace(epochs=3, most=70),
        "tqdm": lambda of, **_: iter(of),
        "islice": __import__("itertools").islice,
        **names,
    }

    def run() -> None:
        with contextlib.suppress(KeyboardInterrupt):
            runpy.run_path(str(path), given)

    # A thread of its own has no loops of pytest on its stack, which would count as a library's.
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[-1] if found else None


@pytest.mark.parametrize(("code", "planned"), LOOPS)
def test_loops_around_the_step(tmp_path: Path, code: str, planned: Any) -> None:
    assert steps_of(tmp_path, code) == planned


def test_a_trainer_says_its_steps(tmp_path: Path) -> None:
    code = """
    class Trainer:
        create_optimizer_and_scheduler = None
        state = given
        def train(self):
            for _ in range(100):
                note()
    Trainer().train()
    """
    state = SimpleNamespace(max_steps=4300)
    assert steps_of(tmp_path, code, given=state) == (4300, True)
    state.max_steps = -1
    assert steps_of(tmp_path, code, given=state) == (100, False)


def test_objects_that_raise_are_unknown_lengths(tmp_path: Path) -> None:
    class Strange:
        def __len__(self) -> int:
            raise ZeroDivisionError

        def __iter__(self) -> Any:
            return iter(range(9))

    assert steps_of(tmp_path, "for _ in data:\n    note()", data=Strange()) is None


@pytest.mark.parametrize(
    ("loop", "planned"),
    [
        ("for epoch in range(epochs)", (280, False)),
        ("for epoch in iter(int, 1)", None),  # an iterator of unknown length
        ("while epochs", (40, False)),  # as in a parser of arguments
    ],
)
def test_a_library_that_calls_the_loop_counts(tmp_path: Path, loop: str, planned: Any) -> None:
    library = tmp_path / "site-packages" / "library.py"
    library.parent.mkdir()
    library.write_text(
        f"def fit(train, epochs):\n    {loop}:\n        train()\n        epochs -= 1\n"
    )
    code = """
    def train():
        for batch in data:
            note()
    fit(train, 7)
    """
    fit = runpy.run_path(str(library), run_name="library")["fit"]
    assert steps_of(tmp_path, code, fit=fit) == planned
