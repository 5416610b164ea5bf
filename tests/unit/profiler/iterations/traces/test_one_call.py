"""Tests of loops within one call of a module, and of iterations that look like such a loop."""

import pytest

from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot
from pgmo.profiler.iterations.from_trace import profile_of
from pgmo.report.findings.leaks import find_leaks
from tests.unit.profiler.importers.snapshots import MIB, Device, Frames, save, snapshot

LAYERS = 12
SITE = "/v/lib/python3.12/site-packages/"
CALL: Frames = (
    ("_call_impl", f"{SITE}torch/nn/modules/module.py", 1786),
    ("_wrapped_call_impl", f"{SITE}torch/nn/modules/module.py", 1775),
)
SEQUENTIAL = ("forward", f"{SITE}torch/nn/modules/container.py", 250)


def script(line: int) -> Frames:
    return (("main", "/home/someone/run.py", line), ("<module>", "/home/someone/run.py", 90))


def block(device: Device, called_by: Frames, requests: int = 56) -> None:
    """Run a block without gradients, which frees all that it requests."""
    for number in range(requests):
        line = 31 if number < requests // 2 else 32
        where: Frames = (("forward", "/home/someone/block.py", line), *called_by)
        device.free(device.alloc((1 + number % 5) * MIB, frames=where))


def around(device: Device, line: int, count: int) -> None:
    """Make requests of the script itself, before the blocks and after them."""
    for number in range(count):
        device.alloc((7 + number) * 10_000, frames=script(line))


def imported(tmp_path, device):
    (own,) = read_torch_snapshot(save(snapshot(device), tmp_path / "a.pickle"))
    return profile_of(own.trace)


@pytest.mark.parametrize(
    "loop", [SEQUENTIAL, ("forward", "/home/someone/encoder.py", 77)], ids=["sequential", "own"]
)
def test_one_pass_through_twelve_layers_is_one_iteration(tmp_path, loop):
    device = Device()
    around(device, 10, 3)
    for _ in range(LAYERS):
        block(device, (*CALL, loop, *CALL, *script(12)))
    around(device, 14, 6)
    profile = imported(tmp_path, device)
    assert not profile.circular
    assert profile.ticks == 681
    why = "12 times 56 requests are not iterations: all come from a single call of a module"
    assert why in profile.meta.notes["iterations"]
    leaks = find_leaks(profile)
    assert (leaks.found, leaks.judged) == ((), False)


def test_layers_of_a_method_that_is_called_by_its_name_are_one_iteration(tmp_path):
    device = Device()
    vision = "/home/someone/vision.py"
    for line in (70, 71):
        where: Frames = (("forward_features", vision, line), *script(12))
        device.free(device.alloc(line * 1000, frames=where))
    for _ in range(LAYERS):
        block(device, (*CALL, ("forward_features", vision, 77), *script(12)))
    profile = imported(tmp_path, device)
    assert not profile.circular
    assert "from a single call of a module" in profile.meta.notes["iterations"]


@pytest.mark.parametrize(
    "wrapper",
    [
        ("forward", f"{SITE}torch/nn/parallel/distributed.py", 1661),
        ("compile_wrapper", f"{SITE}torch/_dynamo/eval_frame.py", 832),
        ("decorate_context", f"{SITE}torch/utils/_contextlib.py", 120),
    ],
)
def test_iterations_through_a_wrapper_are_iterations(tmp_path, wrapper):
    device = Device()
    around(device, 10, 3)
    for _ in range(LAYERS):
        block(device, (*CALL, wrapper, *CALL, *script(12)))
    profile = imported(tmp_path, device)
    assert (profile.circular, profile.ticks) == (True, 56)


def test_iterations_of_a_sequence_of_several_layers_are_iterations(tmp_path):
    device = Device()
    around(device, 10, 3)
    for _ in range(LAYERS):
        for name, line in (("linear", 134), ("activation", 133), ("linear", 134)):
            layer = ("forward", f"{SITE}torch/nn/modules/{name}.py", line)
            called: Frames = (layer, *CALL, SEQUENTIAL, *CALL, *script(12))
            device.free(device.alloc(len(name) * MIB, frames=called))
    profile = imported(tmp_path, device)
    assert (profile.circular, profile.ticks) == (True, 3)


def train(device: Device, iterations: int, between=lambda: None) -> None:
    """Run iterations, of which the first makes the optimizer's state."""
    gradients: list[int] = []
    for number in range(iterations):
        kept = [device.alloc(size * MIB, frames=script(20 + size)) for size in (3, 5, 7, 9)]
        for address in gradients:
            device.free(address)
        gradients = [device.alloc(size * MIB, frames=script(30 + size)) for size in (2, 4)]
        for address in kept:
            device.free(address)
        if number == 0:
            for size in (2, 4, 2, 4):
                device.alloc(size * MIB + 512, frames=script(40))
        device.free(device.alloc(6 * MIB, frames=script(41)))
        between()


@pytest.mark.parametrize("iterations", [3, 5, 9])
def test_all_recorded_iterations_are_counted(tmp_path, iterations):
    device = Device()
    train(device, iterations)
    note = imported(tmp_path, device).meta.notes["iterations"]
    alike = f"{iterations}, of which {iterations - 1} make the same 7 requests"
    assert note == f"{alike}, found by their period"


def test_a_piece_of_an_iteration_is_not_counted(tmp_path):
    device = Device()
    train(device, 6)
    device.forget(3 * 9 + 9)  # the first iteration, and a part of the second
    profile = imported(tmp_path, device)
    assert 4.2 * profile.ticks < profile.trace.requests < 4.8 * profile.ticks
    assert profile.meta.notes["iterations"] == "4 with 7 requests each, found by their period"


def loop_that_leaks(device: Device, iterations: int, *, backward: bool) -> None:
    """Run iterations that keep a block each; the first eight request larger sizes."""
    for number in range(iterations):
        more = max(0, 8 - number) * MIB
        freed = [device.alloc(4 * MIB + more, frames=script(20))]
        device.alloc(9 * MIB + more, frames=script(21))  # a kept loss with its graph
        freed.append(device.alloc(5 * MIB + more, frames=() if backward else script(22)))
        for address in freed:
            device.free(address)


def test_a_training_loop_that_leaks_has_iterations(tmp_path):
    device = Device()
    loop_that_leaks(device, 24, backward=True)
    leaks = find_leaks(imported(tmp_path, device))
    assert leaks.judged
    assert [(one.origin, one.growth) for one in leaks.found] == [
        ("run.py:21 in main (other)", 9 * MIB)
    ]


def test_without_a_backward_pass_it_may_be_layers(tmp_path):
    device = Device()
    loop_that_leaks(device, 24, backward=False)
    profile = imported(tmp_path, device)
    assert not profile.circular
    assert not find_leaks(profile).judged
