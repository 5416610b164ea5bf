"""Bytes that cuDNN asks for beside what it returns: `python _workspaces.py FILE`.

Runs unchanged on a card and in a rehearsal, and writes a row for each operator to FILE.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

CONVOLUTIONS = (
    # channels in and out, kernel, stride, side, groups: of ResNet-50, ConvNeXt and U-Net
    (3, 64, 7, 2, 224, 1),
    (64, 64, 1, 1, 56, 1),
    (64, 64, 3, 1, 56, 1),
    (128, 128, 3, 2, 56, 1),
    (256, 256, 3, 1, 14, 1),
    (512, 512, 3, 1, 7, 1),
    (1024, 512, 1, 2, 14, 1),
    (3, 96, 4, 4, 224, 1),
    (96, 96, 7, 1, 56, 96),
    (384, 384, 7, 1, 14, 384),
    (256, 128, 3, 1, 64, 1),
)
SAMPLES = (8, 64)
ATTENTION = ((4, 16, 256, 64), (8, 12, 1024, 64), (2, 32, 2048, 128))
"""Batch, heads, length, width of a head."""

TYPES = (torch.float32, torch.bfloat16)


def beside(work: Callable[[], Any]) -> int:
    """Bytes that were alive at the peak beside what is left at the end."""
    work()  # what is made once: handles, and plans that are found by a search
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    kept = work()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated()
    del kept
    return extra


def convolutions() -> list[dict[str, Any]]:
    rows = []
    for kind in TYPES:
        for samples in SAMPLES:
            for inputs, outputs, size, stride, side, groups in CONVOLUTIONS:
                x = torch.randn(samples, inputs, side, side, device="cuda", dtype=kind)
                w = torch.randn(outputs, inputs // groups, size, size, device="cuda", dtype=kind)
                given = [stride, stride], [size // 2] * 2, [1, 1], False, [0, 0], groups
                out = torch.ops.aten.convolution(x, w, None, *given)

                def forward(x: Tensor = x, w: Tensor = w, given: Any = given) -> Any:
                    return torch.ops.aten.convolution(x, w, None, *given)

                def backward(
                    out: Tensor = out, x: Tensor = x, w: Tensor = w, given: Any = given
                ) -> Any:
                    mask = [True, True, False]
                    return torch.ops.aten.convolution_backward(out, x, w, [0], *given, mask)

                about = [samples, inputs, outputs, size, stride, side, groups]
                for name, work in (("forward", forward), ("backward", backward)):
                    row = {"operator": f"convolution {name}", "type": str(kind), "shape": about}
                    rows.append(row | {"bytes": beside(work)})
    return rows


def attention() -> list[dict[str, Any]]:
    rows = []
    for shape in ATTENTION:
        q, k, v = (
            torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(3)
        )

        def forward(q: Tensor = q, k: Tensor = k, v: Tensor = v) -> Tensor:
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        out = forward()
        gradient = torch.randn_like(out)

        def backward(
            out: Tensor = out, q: Tensor = q, k: Tensor = k, v: Tensor = v, g: Tensor = gradient
        ) -> Any:
            return torch.autograd.grad(out, (q, k, v), g, retain_graph=True)

        for name, work in (("forward", forward), ("backward", backward)):
            row = {"operator": f"attention {name}", "type": "torch.bfloat16", "shape": list(shape)}
            rows.append(row | {"bytes": beside(work)})
    return rows


def main() -> None:
    Path(sys.argv[1]).write_text(json.dumps(convolutions() + attention()))


if __name__ == "__main__":
    main()
