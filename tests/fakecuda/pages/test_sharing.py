"""Tensors in pages can be sent to other processes, like those of PyTorch's allocator."""

import pytest

from tests.fakecuda.programs import run_command

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

IN_EVERY_STEP = """
import os
from tests.fakecuda.control import driver_calls, own_files, used

def descriptors():
    return len(os.listdir("/proc/self/fd")) - own_files()  # the stub has one for each handle

def send(tensor):
    "As if another process had received it and let go of it."
    shared = tensor.untyped_storage()._share_cuda_()
    torch.UntypedStorage._release_ipc_counter_cuda(shared[4], shared[5])
    return shared[1]

def held():
    torch.cuda.ipc_collect()
    torch.cuda.empty_cache()
    return used() >> 20

def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    kept = torch.empty(20 << 20, dtype=torch.uint8, device="cuda")
    said = {"kept": len({send(kept) for _ in range(50)}), "exports": driver_calls()["export"]}
    before, most = held(), 0
    others = []
    for step in range(100):
        new = torch.empty((20 + step % 3) << 20, dtype=torch.uint8, device="cuda")
        send(new)
        most = max(most, descriptors())
        del new
        torch.cuda.ipc_collect()
        if step % 10 == 0:  # takes the pages that were sent
            others.append(torch.empty(20 << 20, dtype=torch.uint8, device="cuda"))
    others.clear()
    said["bytes kept"], said["few descriptors"] = held() - before, most <= 300
    large = torch.empty(600 << 20, dtype=torch.uint8, device="cuda")
    before = descriptors()
    try:
        large.untyped_storage()._share_cuda_()
    except RuntimeError as error:
        said["error"] = str(error).splitlines()[0]
    said["left open"] = descriptors() - before
    files = [open(os.devnull) for _ in range(50)]
    send(kept)
    print(json.dumps(said))
"""

TO_A_RECEIVER = """
from pgmo.rehearsal.control import driver_calls

def receive(queue, answers):
    for _ in range(10):
        tensor = queue.get(timeout=60)
        answers.put([len(tensor), float(tensor.cpu().min()), float(tensor.cpu().max())])
        del tensor

def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    torch.cuda.memory.change_current_allocator(pgmo.torch_allocator())
    spawn = multiprocessing.get_context("spawn")
    queue, answers = spawn.Queue(), spawn.Queue()
    other = spawn.Process(target=receive, args=(queue, answers))
    other.start()
    said, others = [], []
    for step in range(10):
        tensor = filled(7 << 20, float(step))
        queue.put(tensor)
        said.append(answers.get(timeout=60))
        del tensor
        torch.cuda.ipc_collect()
        others.append(filled(7 << 20, 99.0))  # takes the pages that were sent
    other.join()
    print(json.dumps([said, float(others[0].cpu().max()), driver_calls()["export"]]))
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
    """Run the program from a file, which other processes import; return its output."""
    path = path / "program.py"
    path.write_text(
        COMMON.format(pgmo_there=pgmo_there)
        + program
        + "\nif __name__ == '__main__':\n    main()\n"
    )
    return run_command(path.parent, str(path))


@pytest.mark.parametrize("pgmo_there", [False, True])
def test_values_arrive_and_come_back(tmp_path, pgmo_there):
    answer, back = run(tmp_path, FROM_WINDOWS, pgmo_there=pgmo_there)
    assert answer == [[1000, 1, 1], [5 << 20, 2, 2], [1000, 3, 3]]
    assert back == [5, 5]


def test_a_slot_is_shared_as_well(tmp_path):
    assert run(tmp_path, FROM_A_SLOT) == [[[3 << 20, 1, 1]], [5, 5]]


def test_more_pages_than_a_process_may_have_descriptors(tmp_path):
    assert run(tmp_path, WITH_FEW_DESCRIPTORS) == [[[80 << 20, 1, 1]], [5, 5]]


def test_repeated_sends_keep_neither_memory_nor_descriptors(tmp_path):
    said = run(tmp_path, IN_EVERY_STEP)
    error = said.pop("error")
    assert said == {
        "kept": 1,
        "exports": 10,
        "bytes kept": 0,
        "few descriptors": True,
        "left open": 0,
    }
    assert error.startswith(
        "pgmo cannot send this tensor of 600.00 MiB to another process: no file"
    )
    assert "the limit is 300 descriptors. Raise the limit (ulimit -Hn)" in error


def test_a_receiver_finds_each_of_many_tensors_that_take_turns_on_descriptors(tmp_path):
    said, other, exports = run(tmp_path, TO_A_RECEIVER)
    assert said == [[7 << 20, step, step] for step in range(10)]
    assert other == 99
    assert exports > 60  # of about 100 exports, the sender has closed some


def test_an_arena_without_pages_says_what_to_do(tmp_path):
    assert "session.pause()" in run(tmp_path, WITHOUT_PAGES)
