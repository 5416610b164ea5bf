"""Profiles recorded from the networks of `cpu_networks` at ten times their size, on the CPU."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgmo.profiler.profile import Profile

TIMES = 10
ITERATIONS = 5
NAMES = ("resnet", "unet", "gpt", "lstm")


def record_large_networks(
    times: int = TIMES, names: Sequence[str] = NAMES
) -> Iterator[tuple[str, Profile]]:
    """Train networks of `times` their depth under `pgmo.optimize`, and yield their profiles.

    Needs torch.
    """
    import torch
    from cpu_networks import create
    from cpu_networks.gpt import GPT
    from cpu_networks.lstm import Seq2Seq
    from cpu_networks.resnet import ResNet
    from cpu_networks.unet import UNet

    import pgmo

    def deep_resnet() -> torch.nn.Module:
        return ResNet(width=24, blocks=2 * times)

    def stacked_u_nets() -> torch.nn.Module:  # ten times as deep, the resolution would fall below 1
        return torch.nn.Sequential(*(UNet(width=16, depth=3) for _ in range(times)))

    def deep_gpt() -> torch.nn.Module:
        return GPT(width=256, layers=4 * times, heads=4, longest=160)

    def deep_lstm() -> torch.nn.Module:
        return Seq2Seq(width=128, hidden=256, layers=2 * times)

    for name, make in (
        ("resnet", deep_resnet),
        ("unet", stacked_u_nets),
        ("gpt", deep_gpt),
        ("lstm", deep_lstm),
    ):
        if name not in names:
            continue
        network = create(name, seed=0)
        given = network.optimizer.defaults
        options = {key: given[key] for key in ("lr", "momentum") if key in given}
        network.model = make()
        network.optimizer = type(network.optimizer)(network.model.parameters(), **options)
        with tempfile.TemporaryDirectory() as folder:
            with pgmo.optimize(device="cpu", save=folder, model_name=name) as session:
                for index in range(ITERATIONS):
                    with session.iteration():
                        network.step(network.batch(index))
            yield f"{name} x{times}", Profile.load(Path(folder, f"{name}.pgmoprof"))
