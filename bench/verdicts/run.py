"""Run of one program, which writes the counters of PyTorch and of the stub card.

    run PYTHON -m verdicts.run CASE OUT             plain PyTorch
    run PYTHON -m pgmo run -m verdicts.run CASE OUT

CASE is a `verdicts.Case` as JSON, OUT a file for JSON. The module imports only the control of the
stub from pgmo.
"""

import json
import runpy
import sys
from pathlib import Path

import torch

from verdicts import Case


def main() -> None:
    """Run the case, and write the figures, in bytes."""
    case, out = Case(**json.loads(sys.argv[1])), Path(sys.argv[2])
    error = ""
    try:
        _run(case)
    except torch.OutOfMemoryError as problem:
        error = str(problem).partition("\n")[0]
    from pgmo.rehearsal import control

    counted = torch.cuda.memory_stats()
    figures = {
        "card_peak": control.peak(0),
        "reserved": counted["reserved_bytes.all.peak"],
        "live": counted["requested_bytes.all.peak"],
        "error": error,
    }
    out.write_text(json.dumps(figures), encoding="utf-8")


def _run(case: Case) -> None:
    if case.kind == "loop":
        from loops import Setting, create

        create(case.name, Setting(case.seed, case.small)).run(case.iterations, lambda: None)
    else:
        _run_program(case)


def _run_program(case: Case) -> None:
    from programs import script

    # Triton's kernels need a driver. Without Triton, libraries use PyTorch's operators.
    sys.modules["triton"] = None  # type: ignore[assignment]
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    small = ["--small"] if case.small else []
    sys.argv = [str(script(case.name)), "--steps", str(case.iterations), *small]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
