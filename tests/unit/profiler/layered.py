"""Snapshots of a network of equal layers, whose repetition looks like iterations."""

from dataclasses import dataclass, field

from tests.unit.profiler.importers.snapshots import MIB, Device, Frames

ROOT: Frames = (
    ("_call_impl", "/v/site-packages/torch/nn/modules/module.py", 9),
    ("step", "/home/someone/train.py", 30),
    ("<module>", "/home/someone/train.py", 3),
)
LAYERS: Frames = (("forward", "/home/someone/model.py", 21), *ROOT)
HEAD: Frames = (("forward", "/home/someone/model.py", 25), *ROOT)
UPDATE: Frames = (
    ("step", "/v/site-packages/torch/optim/sgd.py", 80),
    ("<module>", "/home/someone/train.py", 5),
)
AGAIN: Frames = (
    ("forward", "/home/someone/model.py", 21),
    ("unpack_hook", "/v/site-packages/torch/utils/checkpoint.py", 1129),
)


@dataclass
class Network:
    """A network whose layers make equal requests, with a backward pass without Python frames.

    Args:
        stacks: whether stacks are recorded.
        recompute: whether layers keep only their input, and run again in the backward pass.
        kept: MiB that a layer keeps for the backward pass.
        weight: MiB of a layer's gradient.
    """

    device: Device = field(default_factory=Device)
    layers: int = 24
    stacks: bool = True
    recompute: bool = False
    kept: int = 8
    weight: int = 3
    saved: list[list[int]] = field(default_factory=list)
    gradients: list[int] = field(default_factory=list)

    def forward(self, keep: bool = True) -> None:
        passing = self.take(2 * MIB, HEAD)
        for _ in range(self.layers):
            inner = self._layer(LAYERS)
            if not keep:
                self.saved.append([])
                self._free(inner)
            elif self.recompute:
                self.saved.append(inner[:1])
                self._free(inner[1:])
            else:
                self.saved.append(inner)
        self._free([passing, self.take(MIB, HEAD)])
        if not keep:
            self.saved.clear()

    def backward(self) -> None:
        flow = self.take(MIB, ())
        while self.saved:
            inner = self.saved.pop()
            if self.recompute:
                inner += self._layer(AGAIN)
            self.gradients.append(self.take(self.weight * MIB, ()))
            following = self.take(MIB, ())
            self._free([*inner, flow])
            flow = following
        self._free([flow])

    def update(self) -> None:
        self._free([self.take(3 * MIB, UPDATE)])
        self._free(self.gradients)
        self.gradients = []

    def step(self) -> None:
        self.forward()
        self.backward()
        self.update()

    def take(self, size: int, frames: Frames) -> int:
        return self.device.alloc(size, frames=frames if self.stacks else ())

    def _layer(self, frames: Frames) -> list[int]:
        sizes = (MIB // 2, self.kept * MIB, MIB)
        made = [
            self.take(size, (("f", "/home/someone/a.py", at), *frames))
            for at, size in enumerate(sizes)
        ]
        self._free([made.pop()])
        return made

    def _free(self, addresses: list[int]) -> None:
        for address in addresses:
            self.device.free(address)
