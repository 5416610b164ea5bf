"""Predictions of `pgmo fit --what-if`, compared with scripts that make the change.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/what_if.py --python .venv-fakecuda/bin/python
    python bench/what_if.py --python .venv-fakecuda/bin/python --way lora8 --way lora4
    python bench/what_if.py --table

The scripts of `altered/` train in each way, as a user would write it. The figures are peaks of live
tensors' bytes. A prediction is computed from a rehearsal of the script with AdamW, or rehearsed
with a change that pgmo makes. The prediction is compared with the peak of PyTorch's allocator if
the script itself trains that way. Weights in fewer bits are packed by `altered/packed.py` as
bitsandbytes stores them. 8-bit Adam needs kernels of another library, and is compared with nothing.
"""

import json
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from altered import LIBRARIES, PROGRAMS
from workloads.columns import markdown
from workloads.scripts import Result, parser, run

from pgmo.cards import find
from pgmo.fit.evidence import Job, collect
from pgmo.fit.largest import unlimited
from pgmo.fit.laws.law import Law
from pgmo.fit.what_if.arithmetic import COMPUTED, Model, curves_of, peak
from pgmo.rehearsal import rehearse

CARD = "H100"
FOLDER = Path(__file__).parent / "altered"
BATCHES = (("gpt2", 8), ("gpt2", 1), ("resnet50", 32))
QUICK = (("gpt2", 2),)
FAR = 0.03
"""Relative error above which a prediction is wrong, unless it is too high and stated as a limit."""


@dataclass(frozen=True)
class Way:
    """Row of the table of `pgmo fit`, and the script's option for it.

    Attributes:
        name: name of the row.
        way: value of the script's option `--way`.
        change: change that pgmo makes in the rehearsal; None if the prediction is computed.
        ranks: number of ranks of the job.
    """

    name: str
    way: str
    change: str | None = None
    ranks: int = 1


WAYS = (
    Way("autocast to bfloat16", "bfloat16", "autocast:bfloat16"),
    Way("autocast to float16", "float16", "autocast:bfloat16"),
    Way("checkpointing of each block", "checkpoint", "checkpoint"),
    Way("SGD without momentum", "sgd"),
    Way("SGD with momentum", "momentum"),
    Way("Adam", "plain"),
    Way("Adafactor", "adafactor"),
    Way("optimizer state offloaded to the host", "offload"),
    Way("LoRA", "lora"),
    Way("LoRA on weights in 8 bits", "lora8"),
    Way("LoRA on weights in 4 bits", "lora4"),
    Way("FSDP over 2 cards", "fsdp", ranks=2),
    Way("FSDP over 8 cards", "fsdp", ranks=8),
)
QUICK_WAYS = ("SGD without momentum", "checkpointing of each block")


def measure(
    name: str, batch: int, python: str, *, small: bool, ways: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Return a row per way of a script, or per way in `ways`; end the program if a run fails."""
    command = [str(FOLDER / f"{name}.py"), "--batch-size", str(batch)]
    if small:
        command.append("--small")
    job = Job(tuple(command), python=python)
    card = unlimited(find(CARD))
    evidence = collect(job, card, work=False)
    model, curves = Model.of(evidence.known), curves_of(Law([evidence]).at(None))
    computed = {one.name: one for one in COMPUTED}
    rehearsed: dict[str, int] = {}
    rows = []
    for one in WAYS:
        if (small and one.name not in QUICK_WAYS) or (ways and one.way not in ways):
            continue
        limits = ""
        if one.change is None:
            change = computed[one.name]
            size, limits = peak(change.apply(curves, model)), change.limits(model)
        else:
            if one.change not in rehearsed:
                made = collect(job, card, change=one.change, work=False)
                rehearsed[one.change] = Law([made]).at(None).peak
            size = rehearsed[one.change]
        done = rehearse(
            [*command, "--way", one.way], card=card, way="default", world=one.ranks, python=python
        )
        if not done.fits:
            sys.exit(f"{name} {one.way}: {done.error}")
        row = {
            "program": name,
            "batch": batch,
            "name": one.name,
            "source": "rehearsed" if one.change else "computed",
            "predicted": size,
            "took": done.allocated_peak,
            "error": size / done.allocated_peak - 1,
            "limits": limits,
        }
        rows.append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
    return rows


def far(row: dict[str, Any]) -> bool:
    """Return whether a prediction is too low, or too high and not stated as an upper limit."""
    return row["error"] < -FAR or (row["error"] > FAR and not row["limits"])


def table(result: dict[str, Any]) -> str:
    """Return the table of bench/details.md."""
    heads = list(dict.fromkeys((row["program"], row["batch"]) for row in result["rows"]))
    names = [f"{PROGRAMS[name]}, batch {batch}" for name, batch in heads]
    lines = [["way", "source", *names]]
    for name in dict.fromkeys(row["name"] for row in result["rows"]):
        cells = [row for row in result["rows"] if row["name"] == name]
        found = {(row["program"], row["batch"]): row for row in cells}
        lines.append([name, cells[0]["source"], *(_cell(found.get(head)) for head in heads)])
    return markdown(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    at_most = ", stated as a limit" if row["limits"] else ""
    return f"{row['took'] / 2**20:,.0f} MiB, {row['error']:+.2%}{at_most}"


def measured(python: str, *, small: bool, ways: Collection[str]) -> Result:
    """Measure all scripts one after the other."""
    batches = QUICK if small else BATCHES
    return {
        "rows": [
            row
            for name, batch in batches
            for row in measure(name, batch, python, small=small, ways=ways)
        ]
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument(
        "--way", choices=[one.way for one in WAYS], action="append", default=[], help="some of them"
    )
    arguments = options.parse_args()
    quick = arguments.quick
    result = run(
        "what_if",
        arguments,
        table,
        lambda: measured(arguments.python, small=quick, ways=arguments.way),
        LIBRARIES,
    )
    if result and not quick and any(far(row) for row in result["rows"]):
        sys.exit(f"a prediction is off by more than {FAR:.0%}, and not stated as a limit")


if __name__ == "__main__":
    main()
