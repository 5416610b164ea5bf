"""Memory snapshots in PyTorch's form, from a small deterministic model of a caching allocator.

device = Device()
address = device.alloc(1000)
device.free(address)
saved = snapshot(device)        # the dictionary that torch.cuda.memory._snapshot() returns
"""

import itertools
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MIB = 2**20
Frames = tuple[tuple[str, str, int], ...]
"""Stack of (function, file, line), innermost first."""

LAYER: Frames = (
    ("at::detail::empty_cuda(long)", "??", 0),
    ("at::_ops::addmm::call(at::Tensor const&)", "??", 0),
    ("forward", "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", 134),
    ("_call_impl", "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", 1779),
    ("forward", "/home/someone/model.py", 54),
    ("<module>", "/home/someone/train.py", 12),
)
BACKWARD: Frames = (
    ("at::_ops::mm::call(at::Tensor const&)", "??", 0),
    ("torch::autograd::Engine::evaluate_function(std::shared_ptr)", "??", 0),
    ("_engine_run_backward", "/venv/lib/python3.11/site-packages/torch/autograd/graph.py", 841),
    ("<module>", "/home/someone/train.py", 14),
)
OPTIMIZER: Frames = (
    ("at::_ops::_foreach_add_List::call(at::TensorList)", "??", 0),
    ("step", "/venv/lib/python3.11/site-packages/torch/optim/adamw.py", 232),
    ("<module>", "/home/someone/train.py", 15),
)


@dataclass
class Device:
    """A model of a device, which places blocks by first fit in the segments of their stream.

    Args:
        number: number of the device.
        expandable: whether segments grow and shrink by pages of 2 MiB, as expandable segments do.
    """

    number: int = 0
    expandable: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    clock: int = 1_700_000_000_000_000
    segments: list[dict[str, int]] = field(default_factory=list)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    _stacks: dict[Frames, list[dict[str, Any]]] = field(default_factory=dict)
    _next: int = 1 << 32

    def alloc(self, size: int, stream: int = 0, frames: Frames = LAYER) -> int:
        """Request a block, and return its address."""
        rounded = -(-size // 512) * 512
        address = self._fit(rounded, stream)
        self.blocks[address] = {
            "size": rounded,
            "requested_size": size,
            "state": "active_allocated",
            "stream": stream,
            "frames": self._stack(frames),
        }
        self._event("alloc", address, size, stream, frames)
        return address

    def free(self, address: int, complete: bool = True) -> None:
        """Free a block; unless `complete`, it waits for another stream."""
        block = self.blocks[address]
        self._event("free_requested", address, block["requested_size"], block["stream"])
        block["state"] = "active_awaiting_free"
        if complete:
            self.complete(address)

    def complete(self, address: int) -> None:
        """Complete the free of a block that waits."""
        block = self.blocks.pop(address)
        self._event("free_completed", address, block["requested_size"], block["stream"])

    def out_of_memory(self, size: int, device_free: int = 0, stream: int = 0) -> None:
        """Record a request that failed."""
        self._event("oom", device_free, size, stream)
        self.events[-1]["device_free"] = self.events[-1].pop("addr")

    def empty_cache(self) -> None:
        """Release segments without blocks, and the pages at the end of expandable segments."""
        for segment in list(self.segments):
            low, size = segment["address"], segment["total_size"]
            used = [a for a in self.blocks if low <= a < low + size]
            if used and not self.expandable:
                continue
            if not self.expandable:
                self._event("segment_free", low, size, segment["stream"])
                self.segments.remove(segment)
                continue
            top = max((a + self.blocks[a]["size"] for a in used), default=low)
            kept = -(-(top - low) // (2 * MIB)) * 2 * MIB
            if kept < size:
                self._event("segment_unmap", low + kept, size - kept, segment["stream"])
                segment["total_size"] = kept
        self.segments = [segment for segment in self.segments if segment["total_size"]]

    def forget(self, events: int) -> None:
        """Drop the oldest events, as a full history does."""
        del self.events[:events]

    def state(self) -> list[dict[str, Any]]:
        """Return the segments with their blocks, as a snapshot has them."""
        return [self._segment(segment) for segment in self.segments]

    def _fit(self, size: int, stream: int) -> int:
        for segment in self.segments:
            if segment["stream"] != stream:
                continue
            at = low = segment["address"]
            top = low + segment["total_size"]
            for taken in sorted(a for a in self.blocks if low <= a < top):
                if taken - at >= size:
                    break
                at = taken + self.blocks[taken]["size"]
            else:
                if self.expandable and top - at < size:
                    more = -(-(size - (top - at)) // (2 * MIB)) * 2 * MIB
                    self._event("segment_map", top, more, stream)
                    segment["total_size"] += more
                    return at
                if top - at < size:
                    continue
            return at
        total = -(-size // (2 * MIB)) * 2 * MIB
        low, self._next = self._next, self._next + (2**40 if self.expandable else 2 * total)
        self.segments.append({"address": low, "total_size": total, "stream": stream})
        self._event("segment_map" if self.expandable else "segment_alloc", low, total, stream)
        return low

    def _segment(self, segment: dict[str, int]) -> dict[str, Any]:
        low, total = segment["address"], segment["total_size"]
        rows: list[dict[str, Any]] = []
        at = low
        for address in sorted(a for a in self.blocks if low <= a < low + total):
            block = self.blocks[address]
            if address > at:
                rows.append(_idle(at, address - at))
            own = {key: value for key, value in block.items() if key != "stream"}
            rows.append({"address": address, **own})
            at = address + block["size"]
        if at < low + total:
            rows.append(_idle(at, low + total - at))
        allocated = [b for b in rows if b["state"] == "active_allocated"]
        active = [b for b in rows if b["state"] != "inactive"]
        return {
            "device": self.number,
            "address": low,
            "total_size": total,
            "allocated_size": sum(block["size"] for block in allocated),
            "active_size": sum(block["size"] for block in active),
            "requested_size": sum(block["requested_size"] for block in active),
            "stream": segment["stream"],
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": self.expandable,
            "frames": [],
            "blocks": rows,
        }

    def _event(
        self, action: str, address: int, size: int, stream: int, frames: Frames = ()
    ) -> None:
        self.clock += 10
        self.events.append(
            {
                "action": action,
                "addr": address,
                "size": size,
                "stream": stream,
                "time_us": self.clock,
                "compile_context": "N/A",
                "user_metadata": "",
                "frames": self._stack(frames),
            }
        )

    def _stack(self, frames: Frames) -> list[dict[str, Any]]:
        if frames not in self._stacks:
            self._stacks[frames] = [
                {"name": name, "filename": file, "line": line} for name, file, line in frames
            ]
        return self._stacks[frames]


def _idle(address: int, size: int) -> dict[str, Any]:
    return {
        "address": address,
        "size": size,
        "requested_size": 0,
        "state": "inactive",
        "frames": [],
    }


def snapshot(
    *devices: Device,
    annotations: Iterable[dict[str, Any]] = (),
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return what `torch.cuda.memory._snapshot()` would return for devices 0, 1 ..."""
    return {
        "segments": [segment for device in devices for segment in device.state()],
        "device_traces": [device.events for device in devices],
        "allocator_settings": settings or {"expandable_segments": devices[0].expandable},
        "external_annotations": list(annotations),
    }


def save(value: object, path: Path, protocol: int | None = None) -> Path:
    """Pickle a value as PyTorch does."""
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    return path


def train(
    device: Device,
    iterations: int,
    sizes: tuple[int, ...] = (4096, 70_000, 3 * MIB, 512),
    between: Callable[[int], None] = lambda number: None,
) -> list[int]:
    """Run training iterations, and return the addresses of the parameters.

    An iteration makes an activation and a gradient for each layer, and a temporary in its
    optimizer. The next iteration frees the gradients after its activations. `between` is called
    after each iteration, with its number.
    """
    parameters = [device.alloc(size) for size in sizes]
    gradients: list[int] = []
    for number in range(iterations):
        activations = [device.alloc(2 * size) for size in sizes]
        for address in gradients:
            device.free(address)
        gradients = []
        for size, activation in zip(reversed(sizes), reversed(activations), strict=True):
            gradients.append(device.alloc(size, frames=BACKWARD))
            device.free(activation)
        temporary = device.alloc(1000, frames=OPTIMIZER)
        device.free(temporary)
        between(number)
    return parameters


def step_annotations(device: Device) -> tuple[list[dict[str, Any]], Callable[[int], None]]:
    """Return a list of annotations, and a function that adds those of an optimizer step to it."""
    made: list[dict[str, Any]] = []

    def note(number: int) -> None:
        del number
        for stage, ahead in (("START", 15), ("END", 0)):
            made.append(
                {
                    "stage": stage,
                    "name": "Optimizer.step#AdamW.step",
                    "device": device.number,
                    "time_us": device.clock - ahead,
                }
            )

    return made, note


def live_at_end(saved: dict[str, Any]) -> dict[int, int]:
    """Return the requested bytes of each active block in a snapshot's segments, by address."""
    return {
        block["address"]: block["requested_size"]
        for segment in saved["segments"]
        for block in segment["blocks"]
        if block["state"] != "inactive"
    }


def counted(events: Iterable[dict[str, Any]]) -> dict[str, int]:
    """Return the number of events of each action."""
    actions = sorted(event["action"] for event in events)
    return {action: len(list(group)) for action, group in itertools.groupby(actions)}
