"""Programs whose verdict `verdict.py` holds against a run of plain PyTorch."""

from dataclasses import dataclass

from loops import FAMILIES
from programs import PROGRAMS

ENDLESS = ("generate", "trl_grpo")
"""Programs that call `generate()`, which asks the device when to stop: the stub never says so."""

GROWING = (
    *("growing_splats", "sampled_graphs", "curriculum", "block_masks", "sliding_windows"),
    *("growing_images", "truncated_backpropagation", "evaluation", "graphs_per_size"),
    *("graphs_in_one_pool", "leak", "cache_emptied", "side_stream", "beam_search", "host_average"),
)
"""Loops of `growing.py`: sizes that grow, CUDA graphs, evaluations, streams."""

TITLES = {
    "growing_splats": "splats that are added and pruned",
    "sampled_graphs": "sampled neighbourhoods of a graph",
    "curriculum": "batch and length that grow",
    "block_masks": "documents packed with block masks",
    "sliding_windows": "U-Net, sliding windows in evaluation",
    "growing_images": "images that grow every four iterations",
    "truncated_backpropagation": "truncated backpropagation through time",
    "evaluation": "training, and evaluations that concatenate",
    "graphs_per_size": "a CUDA graph for each of 7 sizes",
    "graphs_in_one_pool": "the same in one pool",
    "leak": "a loop that keeps every output",
    "cache_emptied": "a loop that empties the cache",
    "side_stream": "copies on a stream of their own",
    "beam_search": "training, and beam search with growing caches",
    "host_average": "a moving average of the weights on the host",
}


@dataclass(frozen=True)
class Case:
    """One program, under one configuration of PyTorch's allocator.

    Args:
        kind: "loop" (`loops`), "program" (`programs`) or "growing" (`growing.py`).
        name: of the loop or program.
        seed: of what a loop draws.
        iterations: of a loop, or steps of a program.
        card: bytes of device memory.
        configuration: `PYTORCH_ALLOC_CONF`.
        small: whether networks are tiny, for tests.
    """

    kind: str
    name: str
    seed: int = 0
    iterations: int = 24
    card: int = 141 << 30
    configuration: str = ""
    small: bool = False

    @property
    def label(self) -> str:
        """The case in a line of a table."""
        seed = f" {self.seed}" if self.kind == "loop" else ""
        text = f"{self.name}{seed}"
        return f"{text}, {self.configuration}" if self.configuration else text


EXPANDABLE = "expandable_segments:True"


def all_cases(*, small: bool = False) -> list[Case]:
    """Every case, in the order of the table."""
    loops = [Case("loop", name, small=small) for name in FAMILIES if name != "trainer_callback"]
    programs = [
        Case("program", name, iterations=40, small=small)
        for name in PROGRAMS
        if name not in ENDLESS
    ]
    growing = [Case("growing", name, small=small) for name in GROWING]
    expandable = [
        Case("loop", name, configuration=EXPANDABLE, small=small)
        for name in ("llama_padded", "mixture_of_experts")
    ]
    return [*growing, *loops, *expandable, *programs]
