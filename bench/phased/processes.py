"""Trainer, and an engine in its own process, which generates with the free memory of the card.

    trainer   train      | send weights | sleep                       | wake, train
    engine    sleep      | receive      | cache: 9/10 of free memory  | sleep

Weights are sent by CUDA IPC, in buckets of some layers, as real engines receive them. The stub
opens no `cudaIpc` handles of PyTorch's default segments, so these are copied through the host.
"""

import os
from typing import Any

import torch
import torch.multiprocessing as multiprocessing
from loops import Setting
from loops.decoding import decode
from loops.llama import llama
from loops.loop import BFLOAT16, adamw
from workloads.allocators import install_pages

from phased import OURS, PhasedJob
from phased.ways import Way, way_of

SHARE = 0.9
"""Share of the free memory that the engine takes for its cache, a usual default of engines."""
BUCKET = 64 << 20
"""Bytes of weights that are sent at once."""
PATIENCE = 300
"""Seconds after which a process stops waiting for the other one."""


def run(job: PhasedJob, way: Way) -> dict[str, Any]:
    """Train, and return the figures of trainer and engine; sizes in bytes."""
    spawn = multiprocessing.get_context("spawn")
    orders, answers = spawn.Queue(), spawn.Queue()
    other = spawn.Process(target=serve, args=(job, orders, answers))
    other.start()
    try:
        return _Trainer(job, way, orders, answers).run()
    finally:
        orders.put(("end", None))
        other.join(PATIENCE)
        if other.is_alive():
            other.kill()


class _Trainer:
    def __init__(self, job: PhasedJob, way: Way, orders: Any, answers: Any) -> None:
        self.job, self.way, self.orders, self.answers = job, way, orders, answers
        self.setting = Setting(0, job.small)
        self.policy = llama(self.setting)
        self.optimizer = adamw([self.policy], fused=True)
        self.by_ipc = job.contender not in ("default", "backup")

    def run(self) -> dict[str, Any]:
        caches, files, idle = [], [], []
        batch, length = self.setting.choose((8, 768), (4, 48))
        for _ in range(self.job.rounds):
            with self.way.phase("weights", [self.optimizer]):
                self.send()
            with self.way.phase("rollout", [self.optimizer, self.policy]):
                caches.append(self.ask("generate"))
            files.append(len(os.listdir("/proc/self/fd")) + self.ask("files"))
            with self.way.phase("training", []):
                for _ in range(2):
                    tokens = torch.zeros(batch, length, dtype=torch.long, device="cuda")
                    with torch.autocast("cuda", BFLOAT16):
                        self.policy(input_ids=tokens, labels=tokens).loss.backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    del tokens
            idle.append(self.used())
        return {"caches": caches, "files": files, "idle": idle}

    def send(self) -> None:
        """Send all weights in bfloat16, bucket by bucket."""
        weights: list[torch.Tensor] = []
        for one in self.policy.parameters():
            weights.append(one.detach().to(BFLOAT16).flatten())
            if sum(weight.nbytes for weight in weights) >= BUCKET:
                self.put(weights)
                weights = []
        if weights:
            self.put(weights)
        self.ask("loaded")

    def put(self, weights: list[torch.Tensor]) -> None:
        bucket = torch.cat(weights)
        self.ask("bucket", bucket if self.by_ipc else bucket.cpu())
        del bucket
        torch.cuda.ipc_collect()

    def ask(self, order: str, given: object = None) -> Any:
        self.orders.put((order, given))
        return self.answers.get(timeout=PATIENCE)

    def used(self) -> int:
        free, total = torch.cuda.mem_get_info()
        return total - free


def serve(job: PhasedJob, orders: Any, answers: Any) -> None:
    """Execute the trainer's orders in the engine's process."""
    install_pages(job.contender, OURS)
    setting, way = Setting(0, job.small), way_of(job.contender)
    engine = llama(setting, cache=True).to(BFLOAT16)
    received: list[int] = []
    while (one := orders.get(timeout=PATIENCE))[0] != "end":
        order, given = one
        del one
        if order == "bucket":
            with way.entered("weights", []):
                received.append(given.numel())
                target = torch.empty(given.shape, dtype=BFLOAT16, device="cuda")
                target.copy_(given)
                del target, given
                torch.cuda.ipc_collect()
            answers.put(None)
        elif order == "loaded":
            expected = sum(one.numel() for one in engine.parameters())
            assert sum(received) == expected, (sum(received), expected)
            received.clear()
            answers.put(None)
        elif order == "generate":
            answers.put(generate(way, engine, setting))
        elif order == "files":
            answers.put(len(os.listdir("/proc/self/fd")))


def generate(way: Way, engine: Any, setting: Setting) -> int:
    """Generate with a cache of `SHARE` of the free memory; return the cache's bytes."""
    batch, prompt, tokens = setting.choose((8, 256, 4), (4, 16, 2))
    with way.entered("rollout", []):
        free, _ = torch.cuda.mem_get_info()
        cache = torch.empty(int(SHARE * free), dtype=torch.uint8, device="cuda")
        size = cache.nbytes
        decode(engine, batch, prompt, tokens)
        del cache
    with way.entered("training", [engine]):
        pass
    return size
