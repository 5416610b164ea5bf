"""Records which blocks operators request on the stub, for what estimates are compared with.

    build/fakecuda/run PYTHON tests/fakecuda/fit/record_blocks.py

Each case of `tests/unit/fit/estimate/cases.py` runs twice, without cuDNN; the second run is kept.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import torch

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from tests.unit.fit.estimate.cases import CASES, Case  # noqa: E402

RECORDED = ROOT / "tests/unit/fit/estimate/recorded_blocks.json"


def prepare() -> None:
    """What a program takes once: workspaces of cuBLAS, on both threads."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    x = torch.ones(4, 4, device="cuda", requires_grad=True)
    torch.nn.functional.linear(x, x, x[0]).sum().backward()
    (x @ x).sum().backward()


def blocks_of(case: Case) -> list[int]:
    """Sizes in their order: those requested are above 0, those given back below."""
    case()
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, context=None)
    try:
        case()
        events = torch.cuda.memory._snapshot()["device_traces"][0]
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    signs = {"alloc": 1, "free_completed": -1}
    return [signs[one["action"]] * one["size"] for one in events if one["action"] in signs]


def main() -> None:
    prepare()
    found = {
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "capability": torch.cuda.get_device_capability(),
        "blocks": {name: blocks_of(case) for name, case in CASES.items()},
    }
    rows = ",\n".join(
        f"{json.dumps(name)}: {json.dumps(blocks)}" for name, blocks in found["blocks"].items()
    )
    head = json.dumps({key: value for key, value in found.items() if key != "blocks"}, indent=0)
    RECORDED.write_text(f'{head[:-2]},\n"blocks": {{\n{rows}\n}}\n}}\n')
    print(f"Wrote {RECORDED}")


if __name__ == "__main__":
    main()
