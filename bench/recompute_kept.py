"""What `pgmo.recompute(..., keep=True)` takes the first time, and with what was kept of it.

    python bench/recompute_kept.py
    python bench/recompute_kept.py --quick              # one model, to see that it works
    python bench/recompute_kept.py --models GPT-2 BERT  # some of them
    python bench/recompute_kept.py --table              # the table of the README

Each model of `workloads/zoo`, and a Llama of 24 layers, in two processes: one captures, plans and
runs three steps, with which the step is written; the other one reads it. Seconds of the processor,
since capturing is work of one thread; the same bits of losses and gradients in both.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # else each profile is announced

import torch
from _machine import add_common_options, result_path, write_result
from workloads.zoo import NAMES, create

import pgmo
import pgmo.recompute.apply  # what it imports is imported once, whatever is kept

DEEP, DEEP_GPT = "Llama, 24 layers", "GPT-2, 24 layers"
QUICK = ("GPT-2",)


def _model(name: str) -> tuple[torch.nn.Module, Any]:
    if name == DEEP_GPT:
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.manual_seed(0)
        gpt = GPT2Config(n_embd=128, n_layer=24, n_head=4, vocab_size=1000, use_cache=False)
        words = torch.randint(0, 1000, (8, 128))
        return GPT2LMHeadModel(gpt), {"input_ids": words, "labels": words}
    if name != DEEP:
        made = create(name)
        return made.model, made.batch(made.samples)
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=24,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=1000,
        use_cache=False,
    )
    words = torch.randint(0, 1000, (8, 128))
    return LlamaForCausalLM(config), {"input_ids": words, "labels": words}


def measure(name: str) -> dict[str, Any]:
    """What this process takes; it reads what another one has kept, if that is there."""
    model, batch = _model(name)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        begin = time.process_time()
        twin, plan = pgmo.recompute(model, batch, budget=0.7, keep=True)
        seconds = time.process_time() - begin
        digest = hashlib.sha256()
        for seed in range(3):
            torch.manual_seed(seed)
            results = twin(**batch) if isinstance(batch, dict) else twin(*batch)
            loss = results["loss"] if isinstance(results, dict) else results
            loss.sum().backward()
            digest.update(loss.detach().numpy().tobytes())
        for one in model.parameters():
            if one.grad is not None:
                digest.update(one.grad.numpy().tobytes())
    unkept = [str(one.message) for one in told if "not kept" in str(one.message)]
    return {
        "seconds": seconds,
        "kept": plan.was_kept,
        "operations": len(plan.graph.operations),
        "peak": plan.peak,
        "bits": digest.hexdigest(),
        "unkept": unkept[0] if unkept else None,
    }


def _row(name: str, against: str | None) -> dict[str, Any]:
    """Both processes of a model, and one of an earlier version."""
    with TemporaryDirectory() as folder:
        environment = {**os.environ, "PGMO_CACHE_DIR": folder}
        command = [sys.executable, __file__, "--process", name]
        found = []
        for path in [against, None, None] if against else [None, None]:
            there = {**environment, "PYTHONPATH": path} if path else environment
            there |= {"PGMO_CACHE_DIR": f"{folder}/former"} if path else {}
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=there)
            if done.returncode:
                return {"model": name, "failed": f"the process ended with {done.returncode}"}
            found.append(json.loads(done.stdout.splitlines()[-1]))
        sizes = [one.stat().st_size for one in Path(folder).glob("steps/*.step")]
    *former, first, second = found
    row = {
        "model": name,
        "operations": first["operations"],
        "former_seconds": former[0]["seconds"] if former else None,
        "same_bits_as_former": former[0]["bits"] == first["bits"] if former else None,
        "captured_seconds": first["seconds"],
        "kept": second["kept"],
        "why": first["unkept"],
        "read_seconds": second["seconds"],
        "same_bits": first["bits"] == second["bits"] and first["peak"] == second["peak"],
        "file_bytes": sum(sizes),
    }
    print(row, file=sys.stderr, flush=True)
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """One table in Markdown."""
    head = ["model", "operations", "captured", "before", "read", "ratio", "same bits", "file"]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        if "failed" in row or not row["kept"]:
            lines.append([row["model"], row.get("failed") or row["why"] or "not kept", *[""] * 6])
            continue
        lines.append(
            [
                *(row["model"], f"{row['operations']:,}", f"{row['captured_seconds']:.1f} s"),
                f"{row['former_seconds']:.1f} s" if row.get("former_seconds") else "",
                f"{row['read_seconds']:.2f} s",
                f"{row['captured_seconds'] / row['read_seconds']:.0f}",
                "yes" if row["same_bits"] else "no",
                f"{row['file_bytes'] / 1024:.0f} KiB",
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Measures the models and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="+", choices=[DEEP, DEEP_GPT, *NAMES])
    parser.add_argument("--process", choices=[DEEP, DEEP_GPT, *NAMES], help=argparse.SUPPRESS)
    parser.add_argument("--table", action="store_true", help="print the table of the results")
    parser.add_argument("--against", help="a built checkout of an earlier version, also measured")
    add_common_options(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.process:
        print(json.dumps(measure(arguments.process)))
        return
    if arguments.table:
        text = result_path("recompute_kept", arguments.output).read_text(encoding="utf-8")
        print(table(json.loads(text)["rows"]))
        return
    rows = []
    for name in arguments.models or (QUICK if arguments.quick else (DEEP, DEEP_GPT, *NAMES)):
        rows.append(_row(name, arguments.against))
        result = {"torch": torch.__version__, "rows": rows}
        write_result("recompute_kept", result, arguments.output, quick=arguments.quick)
    print(table(rows))


if __name__ == "__main__":
    main()
