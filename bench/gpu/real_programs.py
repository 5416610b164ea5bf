"""Real programs on a card, unchanged: default allocator, expandable segments, pages, `pgmo run`.

    python bench/gpu/real_programs.py --seconds 120
    python bench/gpu/real_programs.py --quick              one program

The programs are those of `bench/programs` whose packages are installed. The script compares the
reserved peaks of torch over the whole run, and the losses and weights bit by bit. `repeats` states
whether a program gives the same bits twice under the default allocator, because some kernels add in
any order. Each run also counts the driver calls of pages, requests that map and waits, per
optimizer step of the last third, and its CPU time. Several run at a time, because memory does not
depend on time.
"""

import json
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from _launch import (
    HERE,
    Budget,
    OutOfTimeError,
    WorkerError,
    at_once,
    budget_of,
    device_or_exit,
    gpu_parser,
    run_worker,
    write_gpu_result,
)
from programs import PROGRAMS, script
from support.machine import show

ORDER = (
    "nanogpt",
    "trainer_padding",
    "timm_vision",
    "trainer_lora",
    "lightning_classifier",
    "trl_sft",
    "dcgan",
    "diffusers_unet",
    "generate",
    "trainer_by_length",
    "mnist",
    "lightning_gan",
    "accelerate_loop",
    "wgan_gp",
    "trl_dpo",
    "trl_grpo",
)
"""Programs in the order of measurement: if the time is over, the last ones are left out."""

CONTENDERS = ("default", "default again", "expandable", "pages", "pgmo_run")
STEPS, QUICK_STEPS = 40, 12
AT_ONCE = 6
Row = dict[str, Any]


def run(name: str, contender: str, budget: Budget, *, quick: bool) -> Row:
    """Run a program; return torch's counters, and the results of the program.

    Raises:
        WorkerError: if the program fails, or takes too long.
        OutOfTimeError: if the budget is over before the program ends.
    """
    with tempfile.TemporaryDirectory() as made:
        counted, result, of_pgmo = (Path(made, f"{part}.json") for part in ("c", "r", "p"))
        under = []
        if contender == "pgmo_run":
            under = ["-m", "pgmo", "run", "--json", str(of_pgmo), *PROGRAMS[name].options]
        own = ["--steps", str(QUICK_STEPS if quick else STEPS), "--result", str(result)]
        own += ["--small"] if quick else []
        wrapped = [str(HERE / "_program.py"), str(counted), contender, str(script(name)), *own]
        settings = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        allocator = contender.partition(" ")[0]
        run_worker([*under, *wrapped], allocator, budget, settings=settings, cwd=made)
        row: Row = {"contender": contender, **json.loads(counted.read_text())}
        row["computed"] = json.loads(result.read_text())
        if of_pgmo.exists():
            found = json.loads(of_pgmo.read_text())
            row["notes"] = found["notes"]
            row["summaries"] = [one["summary"] for one in found["sessions"]]
        return row


def measure(name: str, budget: Budget, *, quick: bool) -> Row:
    """Run a program under all contenders, and return its entry."""
    entry: Row = {"program": name, "rows": [], "errors": {}}
    missing = [one for one in PROGRAMS[name].packages if find_spec(one) is None]
    if missing:
        return entry | {"skipped": f"{', '.join(missing)} not installed"}
    computed = {}
    for contender in CONTENDERS:
        try:
            row = run(name, contender, budget, quick=quick)
        except (WorkerError, OutOfTimeError) as error:
            entry["errors"][contender] = str(error)
            continue
        computed[contender] = row.pop("computed")
        entry["rows"].append(row)
    default = computed.get("default")
    for row in entry["rows"] if default else ():
        row["cpu_over_default"] = row["cpu_seconds"] / entry["rows"][0]["cpu_seconds"]
    entry["repeats"] = default == computed.get("default again")
    entry["identical"] = {one: found == default for one, found in computed.items()}
    for row in entry["rows"]:
        show({"program": name, "repeats": entry["repeats"], **row})
    for contender, error in entry["errors"].items():
        show({"program": name, "contender": contender, "error": error})
    return entry


def main() -> None:
    parser = gpu_parser(__doc__, 180)
    parser.add_argument("--program", action="append", choices=ORDER, help="repeat for more")
    arguments = parser.parse_args()
    device_or_exit()
    budget, quick = budget_of(arguments), arguments.quick
    with ThreadPoolExecutor(at_once(AT_ONCE)) as pool:
        names = arguments.program or (ORDER[:1] if quick else ORDER)
        entries = list(pool.map(lambda name: measure(name, budget, quick=quick), names))
    result = {"steps": QUICK_STEPS if quick else STEPS, "entries": entries}
    write_gpu_result("real_programs", result, arguments.output, quick=quick)
    if any(entry.get("repeats") and not all(entry["identical"].values()) for entry in entries):
        sys.exit("the results of a program differ between allocators")


if __name__ == "__main__":
    main()
