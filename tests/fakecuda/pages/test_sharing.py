"""Tensors in pages go to other processes, as those of PyTorch's own allocator do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pgmo

COMMON = """
import json, resource
import torch
import torch.multiprocessing as multiprocessing
import pgmo

if __name__ == "__mp_main__" and {pgmo_there}:
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())

def look(tensors, answers, seen):
    here = [tensor.cpu() for tensor in tensors]
    tensors[0].copy_(torch.full(tensors[0].shape, 5.0))
    answers.put([[len(one), float(one.min()), float(one.max())] for one in here])
    seen.wait(60)

def share(*tensors):
    "Answers of another process, and the first tensor when it has written there."
    spawn = multiprocessing.get_context("spawn")
    answers, seen = spawn.Queue(), spawn.Event()
    other = spawn.Process(target=look, args=(tensors, answers, seen))
    other.start()
    try:
        answer = answers.get(timeout=60)
        return answer, tensors[0].cpu()[:2].tolist()
    finally:
        seen.set()
        other.join()
        assert other.exitcode == 0

def filled(size, value):
    return torch.full((size,), value).cuda()  # copied there, as the stub runs no kernel
"""

FROM_WINDOWS = """
def main():
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    print(json.dumps(share(filled(1000, 1.0), filled(5 << 20, 2.0), filled(1000, 3.0))))
"""

FROM_A_SLOT = """
def main():
    with pgmo.optimize(device="cuda") as session:
        for _ in range(8):
            tensor = filled(3 << 20, 1.0)
            del tensor
            session.step()
        tensor = filled(3 << 20, 1.0)
        assert session.statistics["live_slot_bytes"] == 12 << 20
        print(json.dumps(share(tensor)))
        del tensor
"""

WITH_FEW_DESCRIPTORS = """
def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (120, 4096))
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    print(json.dumps(share(filled(80 << 20, 1.0))))
"""

WITHOUT_PAGES = """
def main():
    with pgmo.optimize(device="cuda", pages=False) as session:
        for _ in range(8):
            tensor = filled(3 << 20, 1.0)
            del tensor
            session.step()
        try:
            filled(3 << 20, 1.0).untyped_storage()._share_cuda_()
        except RuntimeError as error:
            print(json.dumps(str(error)))
"""


def run(path, program, *, pgmo_there=False):
    """What the program prints, in a file of its own: other processes import it."""
    path = path / "program.py"
    path.write_text(
        COMMON.format(pgmo_there=pgmo_there)
        + program
        + "\nif __name__ == '__main__':\n    main()\n"
    )
    done = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "PYTHONPATH": str(Path(pgmo.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("pgmo_there", [False, True])
def test_values_arrive_and_come_back(tmp_path, pgmo_there):
    answer, back = run(tmp_path, FROM_WINDOWS, pgmo_there=pgmo_there)
    assert answer == [[1000, 1, 1], [5 << 20, 2, 2], [1000, 3, 3]]
    assert back == [5, 5]


def test_a_slot_is_shared_as_well(tmp_path):
    assert run(tmp_path, FROM_A_SLOT) == [[[3 << 20, 1, 1]], [5, 5]]


def test_more_pages_than_a_process_may_have_descriptors(tmp_path):
    assert run(tmp_path, WITH_FEW_DESCRIPTORS) == [[[80 << 20, 1, 1]], [5, 5]]


def test_an_arena_without_pages_says_what_to_do(tmp_path):
    assert "session.pause()" in run(tmp_path, WITHOUT_PAGES)
