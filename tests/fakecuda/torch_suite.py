"""PyTorch's own allocator tests on the stub, without pgmo and with pgmo, compared.

    build/fakecuda/run PYTHON -m tests.fakecuda.torch_suite test_cuda.py
    build/fakecuda/run PYTHON -m tests.fakecuda.torch_suite test_cuda.py --mode graphs -k graph

The file is PyTorch's `test/test_cuda.py` of the version that is installed, or
`test/inductor/test_cudagraph_trees.py`, which needs `TRITON_LIBCUDA_PATH=build/fakecuda`. Both
files are in PyTorch's repository, but not in its wheel, and import `expecttest` and `psutil`. Each
test runs in a fork of a process that has imported everything, so that a crash affects only one
test.

    plain      PyTorch's own allocator. Tests that fail here need a GPU, and do not run again
    plugin     pages serve without a session, as by pgmo.torch_allocator(). Pages begin in the
               test's process: pgmo serves nothing in a child of a process that used pgmo
    session    pgmo.optimize() around the test
    step       pgmo.optimize() around the test, which is an iteration
    graphs     like `plugin`, and graphs of different pools share pages (PGMO_GRAPHS=1)

`torch.cuda._sleep` holds the stream until the program waits for it, which keeps the order of
delayed work. Tests of optimizers are left out. The exit code is 1 if a test that is not in
`EXPECTED` fails under pgmo.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import select
import signal
import sys
import time
import traceback
import unittest
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial, wraps
from pathlib import Path
from typing import Any

MODES = ("plain", "plugin", "session", "step", "graphs")

TIME_LIMIT = 120
"""Time limit of a test in seconds. A test that exceeds it, as in a deadlock, has failed."""

_SEGMENTS = "the history has no segments that come and go: there are pages"

_RUNS = "a pool's segments are runs of pages, whose idle pages serve others"

_STATISTICS = "`segment` and `small_pool` do not include pages"

EXPECTED = {
    "test_memory_plots_free_segment_stack": _SEGMENTS,
    "test_memory_snapshot": _SEGMENTS,
    "test_nested_mempool": _RUNS,
    "test_mempool_no_split": _RUNS,
    "test_mempool_emptycache_multithread": _RUNS,
    "test_graph_memory_stats_and_use_result_after_destroy_graph": _STATISTICS,
    "test_allocator_settings": "roundup_power2_divisions is for the blocks of PyTorch's allocator",
}
"""Tests that fail only under pgmo, with the reason."""

Outcome = tuple[str, str]


def main() -> None:
    """Run the tests in all modes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, help="PyTorch's test_cuda.py")
    parser.add_argument("-k", dest="part", default="", help="only tests with this in their names")
    parser.add_argument("--mode", choices=MODES[1:], action="append", help="only these, and plain")
    parser.add_argument("--conf", default="", help="PYTORCH_CUDA_ALLOC_CONF, in all modes")
    parser.add_argument("--out", type=Path, help="JSON: every test's outcome in every mode")
    arguments = parser.parse_args()
    if arguments.conf:
        os.environ["PYTORCH_CUDA_ALLOC_CONF"] = arguments.conf
    outcomes: dict[str, dict[str, Outcome]] = {}
    wanted: list[str] | None = None
    for mode in ("plain", *(arguments.mode or MODES[1:])):
        found = in_child(partial(run_mode, arguments.file, mode, arguments.part, wanted))
        if isinstance(found, str):
            sys.exit(f"{mode}: {found}")
        for name, outcome in found:
            outcomes.setdefault(name, {})[mode] = outcome
        if wanted is None:
            wanted = [name for name, outcome in found if outcome[0] == "pass"]
        print(f"{mode:8} {dict(Counter(outcome[0] for _, outcome in found))}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(outcomes, indent=1))
    sys.exit(report_differences(outcomes))


def report_differences(outcomes: dict[str, dict[str, Outcome]]) -> bool:
    """Print the tests that fail only under pgmo; return whether any is not expected."""
    surprising = False
    for name, of_modes in outcomes.items():
        expected = EXPECTED.get(name.rpartition(".")[2])
        for mode, (outcome, why) in of_modes.items():
            if mode != "plain" and outcome != "pass":
                surprising = surprising or expected is None
                print(f"{mode:8} {outcome:5} {name}: {expected or why}")
    return surprising


def in_child(work: Callable[[Callable[[Any], None]], None], limit: float | None = None) -> Any:
    """Run a function in a fork; return what it sends, or its exit status as text."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            with os.fdopen(writer, "w") as answer:
                work(partial(json.dump, fp=answer))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(0)
    os.close(writer)
    deadline = None if limit is None else time.monotonic() + limit
    parts = []
    while True:
        rest = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([reader], [], [], rest)[0]:
            os.kill(child, signal.SIGKILL)
            break
        if not (part := os.read(reader, 1 << 20)):
            break
        parts.append(part)
    os.close(reader)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return json.loads(b"".join(parts)) if parts else f"it ended with {status}"


def run_mode(
    file: Path, mode: str, part: str, wanted: list[str] | None, send: Callable[[Any], None]
) -> None:
    """Run each test of the file, and send the outcomes."""
    import torch

    prepare(torch)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    assert torch.cuda.memory_reserved() == 0, "a child has no use for its parent's memory"
    vars(module).pop("load_tests", None)
    outcomes = []
    for test in flat(unittest.TestLoader().loadTestsFromModule(module)):
        name = test.id().partition(".")[2]
        if part in name and (wanted is None or name in wanted):
            found = in_child(partial(run_test, test, mode), TIME_LIMIT)
            outcomes.append((name, ("crash", found) if isinstance(found, str) else found))
    send(outcomes)


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of nested suites."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from flat(one)
        else:
            yield one


def prepare(torch: Any) -> None:
    """Prepare torch for the stub: no cuDNN, no checks of values, and delays that hold streams."""
    import torch.testing._internal.common_cuda as common_cuda
    import torch.testing._internal.common_device_type as common_device_type
    import torch.testing._internal.common_utils as common

    from pgmo.rehearsal import control

    torch._C._set_cudnn_enabled(False)
    torch.cuda._is_in_bad_fork = lambda: False
    torch.cuda._sleep = lambda _: control.hold(torch.cuda.current_stream())
    common.get_cycles_per_ms = lambda: 1000.0
    # The originals would allocate memory while the file is imported.
    torch.cuda.is_bf16_supported = lambda *_, **__: True
    common_cuda.TEST_CUDNN = False
    common_device_type.instantiate_device_type_tests = lambda *_, **__: None
    for name in ("assertEqual", "assertNotEqual", "assertTrue"):
        check = getattr(common.TestCase, name)
        setattr(common.TestCase, name, but_for_values(torch, check))
    torch.Tensor.item = marked_as_computed(torch.Tensor.item)
    torch.cuda.init()


class Computed:
    """Number that a kernel should have computed, which equals every other value."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class ComputedInt(Computed, int):
    """Integer that a kernel should have computed."""


class ComputedFloat(Computed, float):
    """Floating-point number that a kernel should have computed."""


def marked_as_computed(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Wrap `Tensor.item` so that the checks recognize numbers from the device."""

    @wraps(item)
    def marked(tensor: Any) -> Any:
        number = item(tensor)
        if not tensor.is_cuda or isinstance(number, (bool, complex)):
            return number
        return ComputedInt(number) if isinstance(number, int) else ComputedFloat(number)

    return marked


def but_for_values(torch: Any, check: Callable[..., None]) -> Callable[..., None]:
    """Wrap a check so that it ignores values of the device: no kernel has computed them."""

    def is_computed(value: Any) -> bool:
        if isinstance(value, (dict, list, tuple)):
            return any(map(is_computed, value.values() if isinstance(value, dict) else value))
        return isinstance(value, Computed) or (isinstance(value, torch.Tensor) and value.is_cuda)

    @wraps(check)
    def checked(test: unittest.TestCase, *values: Any, **options: Any) -> None:
        if not any(is_computed(value) for value in values):
            check(test, *values, **options)

    return checked


def run_test(test: unittest.TestCase, mode: str, send: Callable[[Outcome], None]) -> None:
    """Run a test, and send its outcome with the reason."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    result = unittest.TestResult()
    ctypes.CDLL(os.environ["PGMO_FAKECUDA"]).cudaGetLastError()  # clears the last error
    try:
        with ExitStack() as stack:
            os.environ["PGMO_GRAPHS"] = "1" if mode == "graphs" else "0"
            if mode in ("plugin", "graphs"):
                from pgmo.allocator.adapters.torch_cuda import serve_without_session

                serve_without_session()
            if mode in ("session", "step"):
                import pgmo

                session = stack.enter_context(pgmo.optimize())
                if mode == "step":
                    stack.enter_context(session.iteration())
            test.run(result)
    except Exception:
        send(("error", reason(traceback.format_exc())))
        return
    wrong = [text for _, text in result.errors + result.failures]
    if wrong:
        send(("fail", reason(wrong[0])))
    else:
        send(("skip", result.skipped[0][1]) if result.skipped else ("pass", ""))


def reason(text: str) -> str:
    """Return the last location and the message of a traceback."""
    lines = [line for line in text.partition("\nTo execute this test")[0].splitlines() if line]
    files = [line.strip() for line in lines if line.startswith("  File")]
    places = [place for place in files if __file__ not in place]
    said = [line for line in lines if not line.startswith(" ")][1:]
    return f"{places[-1].rpartition(', in ')[0]}: {' '.join(said)}" if places else text


if __name__ == "__main__":
    main()
