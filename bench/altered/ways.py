"""Training loop, and the ways to change it, as a user would write them."""

import argparse
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

import torch
from packed import pack
from torch import Tensor, nn

WAYS = (
    "plain",
    "bfloat16",
    "float16",
    "checkpoint",
    "sgd",
    "momentum",
    "adafactor",
    "offload",
    "lora",
    "lora8",
    "lora4",
    "fsdp",
)


def arguments(batch: int) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=batch)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--way", choices=WAYS, default="plain")
    parser.add_argument("--small", action="store_true", help="a tiny network, for tests")
    return parser.parse_args()


def train(
    given: argparse.Namespace,
    model: nn.Module,
    loss_of: Callable[[nn.Module], Tensor],
    blocks: Iterable[nn.Module],
    checkpoint: Callable[[], Any],
) -> None:
    """Train for `given.steps` steps in the way `given.way`."""
    if given.way == "checkpoint":
        checkpoint()
    if given.way.startswith("lora"):
        model = with_adapters(model)
    if given.way in ("lora8", "lora4"):
        pack(model, int(given.way[-1]))
    model.to("cuda").train()
    if given.way == "fsdp":
        shard(model, blocks)
    step = steps_of(given.way, [one for one in model.parameters() if one.requires_grad])
    scaler = torch.amp.GradScaler("cuda", enabled=given.way == "float16")
    short = given.way in ("bfloat16", "float16")
    for _ in range(given.steps):
        with torch.autocast("cuda", getattr(torch, given.way)) if short else nullcontext():
            loss = loss_of(model)
        scaler.scale(loss).backward()
        step(scaler)
        model.zero_grad()


def steps_of(way: str, trained: list[nn.Parameter]) -> Callable[[Any], None]:
    """Return a function that makes an optimizer step, given the gradient scaler."""
    if way == "offload":
        return offloaded(trained)
    optimizers: dict[str, Callable[[], torch.optim.Optimizer]] = {
        "sgd": lambda: torch.optim.SGD(trained, lr=1e-4),
        "momentum": lambda: torch.optim.SGD(trained, lr=1e-4, momentum=0.9),
        "adafactor": lambda: torch.optim.Adafactor(trained),
    }
    made = optimizers.get(way, lambda: torch.optim.AdamW(trained, lr=1e-4))()

    def step(scaler: Any) -> None:
        scaler.step(made)
        scaler.update()

    return step


def offloaded(trained: list[nn.Parameter]) -> Callable[[Any], None]:
    """Return a step of AdamW that moves its state from the host, a parameter at a time."""
    optimizers = [torch.optim.AdamW([one], lr=1e-4) for one in trained]

    def step(_scaler: Any) -> None:
        for one in optimizers:
            move(one, "cuda")
            one.step()
            move(one, "cpu")

    return step


def move(optimizer: torch.optim.Optimizer, device: str) -> None:
    """Move the optimizer's state, except step counts, which are always on the host."""
    for state in optimizer.state.values():
        for name, value in state.items():
            if name != "step":
                state[name] = value.to(device)


def with_adapters(model: nn.Module) -> nn.Module:
    """Add LoRA to all linear layers except a head that shares the weight of an embedding."""
    from peft import LoraConfig, get_peft_model
    from transformers.pytorch_utils import Conv1D

    kinds = (nn.Linear, Conv1D)
    shared = {id(one.weight) for one in model.modules() if isinstance(one, nn.Embedding)}
    names = [
        name
        for name, one in model.named_modules()
        if isinstance(one, kinds) and id(one.weight) not in shared
    ]
    return get_peft_model(model, LoraConfig(r=8, target_modules=names))


def shard(model: nn.Module, blocks: Iterable[nn.Module]) -> None:
    """Join the ranks; shard each block with FSDP2, and the other parameters as one unit."""
    from torch.distributed import init_process_group
    from torch.distributed.fsdp import fully_shard

    init_process_group("nccl")
    for block in blocks:
        fully_shard(block)
    fully_shard(model)
