"""Forks while threads allocate: children free inherited blocks, and train on the CPU.

Children use only functions of PyTorch's allocator that take no lock. A lock may be held at the
fork, with pgmo and without.
"""

import pytest

from tests.fakecuda.programs import run_program

PROGRAM = """
import json, os, signal, subprocess, sys, threading, warnings
# Compiles the adapter of the CPU, which takes a child longer than its alarm on a busy machine.
compile = "from pgmo.allocator.adapters.torch_cpu import torch_cpu; torch_cpu()"
subprocess.run([sys.executable, "-c", compile], check=True, stdout=sys.stderr)
import torch, pgmo

warnings.simplefilter("ignore")
torch.set_num_threads(1)
signal.alarm(600)  # a hang, rather than a wait for ever
{before}
MIB = 1 << 20
stop = threading.Event()
kept = []

def block(size):
    return torch.empty(size * MIB, dtype=torch.uint8, device="cuda")

def grow_and_shrink(number):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        while not stop.is_set():
            blocks = [block(size) for size in (1, 7, 3)]
            blocks[0].record_stream(torch.cuda.default_stream())
            kept[:] = blocks[:2]
            del blocks
            if number == 0:
                torch.cuda.empty_cache()

def child(inherited):
    signal.alarm(120)
    inherited.clear()
    with pgmo.optimize() as own:  # of the CPU: CUDA cannot be used in a child
        for _ in range(5):
            torch.ones(1000).add(1)
            own.step()
    return own.history[-1].hits > 0

with pgmo.optimize(device="cuda") as session:
    for _ in range(4):
        block(8)
        session.step()
    threads = [threading.Thread(target=grow_and_shrink, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    good = 0
    for _ in range({forks}):
        inherited = [block(5) for _ in range(3)]
        inherited[0].record_stream(torch.cuda.Stream())
        process = os.fork()
        if process == 0:
            code = 1
            try:
                code = 0 if child(inherited) else 2
            finally:
                os._exit(code)
        good += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
        del inherited
        block(8)
        session.step()
    stop.set()
    for thread in threads:
        thread.join()
print(json.dumps(good))
"""


@pytest.mark.parametrize("before", ["", "torch.cuda.memory._record_memory_history()"])
@pytest.mark.parametrize("forks", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_forks_beside_threads_that_allocate(before, forks):
    assert run_program(PROGRAM.format(before=before, forks=forks)) == forks
