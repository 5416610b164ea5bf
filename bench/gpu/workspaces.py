"""Workspaces of cuDNN: what a rehearsal's model says of them, and what this card's library takes.

    python bench/gpu/workspaces.py
    python bench/gpu/workspaces.py --quick           the same, to see that it works

Convolutions of ResNet-50, ConvNeXt and U-Net, and attention, forward and backward, at two batches
and in two types. A row has the bytes that were alive beside results at the operator's peak, on the
card and in a rehearsal of a card with its properties.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from _launch import HERE, budget_of, device_or_exit, environment, write_gpu_result
from _machine import add_common_options
from rehearsals import this_card

from pgmo.rehearsal import rehearse

SCRIPT = HERE / "_workspaces.py"
Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="time budget")
    add_common_options(parser)
    arguments = parser.parse_args()
    device_or_exit()
    budget = budget_of(arguments)
    with tempfile.TemporaryDirectory() as made:
        card, said = Path(made, "card.json"), Path(made, "said.json")
        settings = environment("default")
        command = [sys.executable, str(SCRIPT), str(card)]
        subprocess.run(command, env=settings, check=True, timeout=budget.left)
        answer = rehearse(
            [str(SCRIPT), str(said)],
            card=this_card(),
            way="default",
            environment={"PYTHONPATH": settings["PYTHONPATH"]},
            timeout=max(10, budget.left),
        )
        if not answer.fits:
            sys.exit(f"the rehearsal failed: {answer.reason}")
        pairs = zip(*(json.loads(one.read_text()) for one in (card, said)), strict=True)
        rows: list[Row] = [one | {"rehearsed": other["bytes"]} for one, other in pairs]
    for row in rows:
        print(
            f"{row['operator']:22}{row['type'][6:]:10}{row['shape']!s:36}"
            f"{row['bytes'] / 2**20:9.2f} MiB, rehearsed {row['rehearsed'] / 2**20:9.2f}"
        )
    write_gpu_result("workspaces", {"rows": rows}, arguments.output, quick=arguments.quick)


if __name__ == "__main__":
    main()
