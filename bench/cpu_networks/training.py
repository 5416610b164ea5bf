"""Training of one network in its own process, so that the process's peak memory is its own.

    python -m cpu_networks.training '{"network": "gpt", "mode": "pgmo"}'

The last line on standard output is the outcome as JSON.
"""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STEADY_FROM = 7
"""First iteration that counts for step times and steady memory. A session replays by then."""

ENVIRONMENT = {"OMP_WAIT_POLICY": "PASSIVE", "OMP_DYNAMIC": "FALSE"}
"""Settings with which OpenMP threads do not spin, and keep their number (tests/README.md)."""

_HERE = Path(__file__).resolve()


@dataclass(frozen=True)
class Job:
    """One training run.

    Args:
        network: name of the network.
        mode: "default" leaves PyTorch's allocator alone, "pgmo" trains in a session.
        iterations: steps to train.
        plan: file of a saved plan to begin with; only with mode "pgmo".
        save_as: file to which the plan is saved; only with mode "pgmo".
    """

    network: str
    mode: str = "default"
    iterations: int = 20
    plan: str | None = None
    save_as: str | None = None


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Args:
        seconds: seconds of each step.
        losses: loss of each step, as an exact hexadecimal float.
        digest: SHA-256 (hex) of all final weights and buffers.
        rss: peak resident memory of the process in bytes, over the whole run.
        rss_steady: peak resident memory in bytes from iteration `STEADY_FROM` on.
        threads: number of threads that torch used.
        torch: version of torch.
        planned: `hit_rate`, `arena` and `max_load` (bytes); None without pgmo.
    """

    seconds: list[float]
    losses: list[str]
    digest: str
    rss: int
    rss_steady: int
    threads: int
    torch: str
    planned: dict[str, float] | None = None

    @property
    def results(self) -> tuple[list[str], str]:
        """Losses and digest of the final weights, which no allocator may change."""
        return self.losses, self.digest


def launch(job: Job, environment: Mapping[str, str] | None = None) -> Outcome:
    """Run the job in a fresh process, with further environment variables."""
    paths = os.pathsep.join(str(_HERE.parents[up]) for up in (1, 2))
    done = subprocess.run(
        [sys.executable, "-m", "cpu_networks.training", json.dumps(asdict(job))],
        env={**os.environ, **ENVIRONMENT, "PYTHONPATH": paths, **(environment or {})},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return Outcome(**json.loads(done.stdout.splitlines()[-1]))


def run(job: Job) -> Outcome:
    """Run the job in this process."""
    import torch

    import pgmo

    from . import create

    # Until this call MKL may change the number of threads, and round differently.
    torch.set_num_threads(torch.get_num_threads())
    network = create(job.network, seed=0)
    planned = None
    if job.mode == "default":
        measured = _train(network, job.iterations, contextlib.nullcontext)
    else:
        with pgmo.optimize(plan=job.plan, model_name=job.network) as session:
            measured = _train(network, job.iterations, session.iteration)
        plan = session.plan
        replayed = [one for one in session.history if one.phase == "replay"][1:]
        hits, requests = (
            sum(getattr(one, key) for one in replayed) for key in ("hits", "requests")
        )
        planned = {"hit_rate": hits / requests, "arena": plan.arena, "max_load": plan.max_load}
        if job.save_as is not None:
            plan.save(job.save_as)
    total = hashlib.sha256()
    for name, tensor in network.model.state_dict().items():
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return Outcome(
        **measured,
        digest=total.hexdigest(),
        threads=torch.get_num_threads(),
        torch=str(torch.__version__),
        planned=planned,
    )


def _train(network: Any, iterations: int, iteration: Any) -> dict[str, Any]:
    seconds, losses, early = [], [], 0
    for index in range(iterations):
        if index == STEADY_FROM:
            early = _peak_resident()
            Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM, see proc(5)
        batch = network.batch(index)
        begin = time.perf_counter()
        with iteration():
            loss = network.step(batch)
        seconds.append(time.perf_counter() - begin)
        losses.append(float(loss.item()).hex())
    late = _peak_resident()
    peaks = {"rss": max(early, late), "rss_steady": late}
    return {"seconds": seconds, "losses": losses, **peaks}


def _peak_resident() -> int:
    """Return the peak resident memory in bytes since the process began, or since a reset."""
    lines = Path("/proc/self/status").read_text(errors="replace").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) * 1024


if __name__ == "__main__":
    print(json.dumps(asdict(run(Job(**json.loads(sys.argv[1]))))), flush=True)
