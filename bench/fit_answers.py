"""Answers of `pgmo fit` against whole runs of scripts.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/fit_answers.py --python .venv-fakecuda/bin/python
    python bench/fit_answers.py --python .venv-fakecuda/bin/python --script mnist
    python bench/fit_answers.py --table

The scripts are published programs (`programs/`), large models (`fitted/`), and a transformer with
different optimizers, evaluations and other parts (`fitted/parts`). Each first runs whole on a card
of 141 GiB. Then `pgmo fit` is asked about two cards: one has 3 % more than the script took there,
and the other 5 % less. The script then runs whole on both cards. An answer is right if the run ends
as predicted. "Yes, but" names evaluations or checkpoints that did not run in the rehearsed steps,
and promises nothing about them.
"""

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fitted import LIBRARIES
from fitted import PROGRAMS as LARGE
from programs import PROGRAMS, script
from workloads.columns import markdown
from workloads.launch import PATHS
from workloads.scripts import Result, measured, parser, run

from pgmo.cards import Card, find
from pgmo.fit.ask import ask
from pgmo.fit.evidence import Job
from pgmo.rehearsal import rehearse

LARGEST_CARD = "141GiB"
MORE, LESS = 1.03, 0.95
"""Sizes of the two cards, as multiples of the bytes that the script took on the largest card."""

FOLDER = Path(__file__).parent / "fitted"
QUICK = ("early_evaluation",)
ENDLESS = ("generate",)
"""Programs that generate until a kernel computes an end token. The stub runs no kernels."""


@dataclass(frozen=True)
class Script:
    """A script and its arguments.

    Args:
        title: name in the table.
        command: path and arguments.
        packages: packages that it needs in addition to torch.
    """

    title: str
    command: tuple[str, ...]
    packages: tuple[str, ...] = ()


PARTS = {
    "sgd": ("SGD", "optimizers.py --optimizer sgd"),
    "momentum": ("SGD with momentum", "optimizers.py --optimizer momentum"),
    "adafactor": ("Adafactor", "optimizers.py --optimizer adafactor"),
    "rmsprop": ("centered RMSprop with momentum", "optimizers.py --optimizer rmsprop"),
    "amsgrad": ("Adam with AMSGrad", "optimizers.py --optimizer amsgrad"),
    "lbfgs": ("L-BFGS", "lbfgs.py"),
    "accumulation": ("four micro-batches, bf16 autocast", "accumulation.py"),
    "average": ("an average of the weights", "average.py"),
    "early_evaluation": ("evaluations every 3 steps", "evaluation.py --every 3"),
    "evaluation": ("evaluations every 25 steps", "evaluation.py"),
    "collected": ("the same, which keep scores", "evaluation.py --collect"),
    "checkpoint": ("a copy of the state at step 30", "checkpoint.py"),
    "kept": ("outputs of all steps are kept", "kept.py"),
    "growing": ("more parameters every 10 steps", "growing.py"),
    "late_evaluation": (
        "an evaluation after 900 of 950 steps",
        "evaluation.py --every 900 --steps 950",
    ),
    "trainer_evaluation": (
        "Trainer of transformers, evaluation after 400 steps",
        "trainer_evaluation.py --steps 400",
    ),
    "lightning_validation": (
        "Lightning, validation after 400 steps",
        "lightning_validation.py --steps 400",
    ),
    "unfreezing": ("half of the layers is frozen until step 30", "unfreezing.py"),
}
"""Title, and script of `fitted/parts` with its arguments."""

PACKAGES = {"trainer_evaluation": ("accelerate",), "lightning_validation": ("lightning",)}
"""Packages that scripts of `fitted/parts` need in addition to torch."""


def scripts() -> dict[str, Script]:
    """Return all scripts by name."""
    found = {
        name: Script(one.title, (str(script(name)),), one.packages)
        for name, one in PROGRAMS.items()
        if name not in ENDLESS
    }
    found |= {
        name: Script(title, (str(FOLDER / f"{name}.py"), "--batch-size", "2"))
        for name, title in LARGE.items()
    }
    return found | {
        name: Script(
            f"a transformer: {title}",
            (f"{FOLDER}/parts/{file}", *options),
            PACKAGES.get(name, ()),
        )
        for name, (title, command) in PARTS.items()
        for file, *options in [command.split()]
    }


def measure(name: str, python: str, *, small: bool) -> dict[str, Any]:
    """Ask about a script on two cards, and run it there, unless it fails on the largest card."""
    one = scripts()[name]
    command = [*one.command, *(["--small"] if small else [])]
    whole = rehearse(command, card=find(LARGEST_CARD), python=python)
    row: dict[str, Any] = {"script": name, "peak": whole.card_peak, "cards": []}
    if not whole.fits:
        return row | {"failed": str(whole.error)[:300]}
    for share in (MORE, LESS):
        card = find(f"{round(whole.card_peak * share) >> 20}MiB")
        row["cards"].append(asked(command, card, python) | {"share": share})
    return row


def asked(command: list[str], card: Card, python: str) -> dict[str, Any]:
    """Return the answer for a card, and whether the script runs there with and without pgmo."""
    answer = ask(Job(tuple(command), python=python), card)
    growing = answer.growing
    return {
        "card": card.name,
        "says": answer.is_fit,
        "missed": list(answer.missed),
        "last_step": growing.last_step if growing is not None and not growing.fits else None,
        "sentence": answer.sentence,
        "rehearsals": answer.rehearsals,
        "seconds": round(answer.seconds, 1),
        "fits": rehearse(command, card=card, python=python).fits,
        "says_default": answer.fits["default"],
        "fits_default": rehearse(command, card=card, way="default", python=python).fits,
    }


def words(one: dict[str, Any]) -> str:
    """Return an answer as the text of a table cell."""
    if not one["says"]:
        return "no" if one["last_step"] is None else f"until step {one['last_step']:,}"
    return "yes, but" if one["missed"] else "yes"


def is_right(one: dict[str, Any]) -> bool:
    """Return whether the job ran as the answer says."""
    return bool(one["fits"]) if one["says"] else not one["fits"]


def tables(result: Result) -> str:
    """Return a Markdown table of all answers, and a sentence with the totals."""
    lines = [["script", "peak", "3 % more: answer", "it runs", "5 % less: answer", "it runs"]]
    known = scripts()
    rows = [row for row in result["rows"] if "failed" not in row]
    for row in rows:
        cells = []
        for one in row["cards"]:
            wrong = "" if is_right(one) else " (wrong)"
            cells += [f"{words(one)}{wrong}", "yes" if one["fits"] else "no"]
        peak = f"{row['peak'] >> 20:,} MiB"
        lines.append([known[row["script"]].title, peak, *cells])
    answers = [one for row in rows for one in row["cards"]]
    yes = [one for one in answers if one["says"] and not one["missed"]]
    limited = [one for one in answers if one["says"] and one["missed"]]
    no = [one for one in answers if not one["says"]]
    plain = [one["says_default"] == one["fits_default"] for one in answers]
    sums = (
        f"{len(rows)} scripts. *Yes* is right in {sum(map(is_right, yes))} of {len(yes)}, *no* in "
        f"{sum(map(is_right, no))} of {len(no)}. *Yes, but* occurs {len(limited)} times; "
        f"{sum(map(is_right, limited))} of these jobs run. For PyTorch without pgmo, "
        f"{sum(plain)} of {len(plain)} answers are right."
    )
    return f"{markdown(lines)}\n\n{sums}"


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--script", choices=list(scripts()), action="append")
    arguments = options.parse_args()
    names = arguments.script or (QUICK if arguments.quick else list(scripts()))
    os.environ["PYTHONPATH"] = PATHS  # the programs import modules of this folder
    known = scripts()
    packages = [*LIBRARIES, *(package for name in names for package in known[name].packages)]
    of = partial(measure, python=arguments.python, small=arguments.quick)
    run("fit_answers", arguments, tables, lambda: {"rows": measured(names, of)}, packages)


if __name__ == "__main__":
    main()
