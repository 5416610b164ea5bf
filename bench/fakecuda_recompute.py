"""The largest batch on a card with recomputation: pgmo's against PyTorch's own.

Needs no GPU: the real CUDA build of PyTorch runs on the stub CUDA runtime of pgmo/rehearsal.

    python bench/fakecuda_recompute.py --python .venv-fakecuda/bin/python
    python bench/fakecuda_recompute.py --python .venv-fakecuda/bin/python --ways plain checkpoint
    python bench/fakecuda_recompute.py --table

GPT-2 medium (512 tokens, bfloat16 autocast, AdamW) on a 16 GiB card, each way in a process of its
own that runs a job of `bench/gpu/recompute.py`. The job looks for the largest batch with which two
steps run. All ways have expandable segments.
"""

import json
import time
from typing import Any

from support.machine import print_earlier, show, write_result
from support.stub_jobs import stub_parser
from workloads.columns import markdown
from workloads.job import process_settings
from workloads.launch import ROOT, Stub

CARD, QUICK_CARD = 16 << 30, 1 << 29
SETTINGS = {"FAKECUDA_COPY_LIMIT": str(1 << 20), "PYTHONWARNINGS": "ignore"}
SCRIPT = ROOT / "bench/gpu/recompute.py"

WAYS: dict[str, dict[str, Any]] = {
    "plain": {"way": "plain", "setting": None},
    "checkpoint": {"way": "checkpoint", "setting": "each block"},
    "budget 0.5": {"way": "activation_memory_budget", "setting": 0.5},
    "budget 0.2": {"way": "activation_memory_budget", "setting": 0.2},
    "pgmo": {"way": "pgmo", "setting": "min"},
}
TITLES = {
    "plain": "as it is",
    "checkpoint": "`torch.utils.checkpoint` around each block",
    "budget 0.5": "`activation_memory_budget` 0.5",
    "budget 0.2": "`activation_memory_budget` 0.2",
    "pgmo": '`pgmo.recompute`, `"min"`',
}
"""Names of the ways in the table."""


def found(stub: Stub, name: str, samples: int, longest: float, *, quick: bool) -> dict[str, Any]:
    """Run the job of a way; return its result, and the seconds that it took."""
    workload, card = ("tiny", QUICK_CARD) if quick else ("gpt2_medium", CARD)
    job = {"workload": workload, "samples": samples, "limit": card, **WAYS[name]}
    begin = time.monotonic()
    settings = process_settings("expandable", card) | SETTINGS
    row = stub.result_of((str(SCRIPT), "--job", json.dumps(job)), settings, longest)
    return {"name": name} | job | row | {"seconds": time.monotonic() - begin}


def table(result: dict[str, Any]) -> str:
    """Return the table of bench/details.md, one row per way."""
    samples = result["rows"][0]["samples"]
    lines = [["", "largest batch", "reserved there", f"reserved at batch {samples}"]]
    for row in result["rows"]:
        largest = row["largest_batch"]
        sizes = (row["reserved"][str(batch)] for batch in (largest, samples))
        cells = (f"{size / 2**30:.2f} GiB" for size in sizes)
        lines.append([TITLES[row["name"]], str(largest), *cells])
    return markdown(lines, right=range(1, 4))


def main() -> None:
    parser = stub_parser(__doc__)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--samples", type=int, default=4, help="in the first batch (default: 4)")
    parser.add_argument("--longest", type=float, default=600, help="seconds of a way")
    arguments = parser.parse_args()
    if print_earlier("fakecuda_recompute", arguments, table):
        return
    stub = Stub.build(arguments.python, arguments.stub.resolve())
    quick = arguments.quick
    longest = 3600 if quick else arguments.longest
    rows = []
    for name in ("plain", "pgmo") if quick else arguments.ways:
        rows.append(found(stub, name, arguments.samples, longest, quick=quick))
        show(rows[-1])
        result = {"card": QUICK_CARD if quick else CARD, "rows": rows}
        write_result("fakecuda_recompute", result, arguments.output, quick=quick)
    print(table(result))


if __name__ == "__main__":
    main()
