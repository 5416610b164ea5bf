"""Tests of the tags of stacks."""

import pytest

from pgmo.profiler.importers.earlier_blocks import Rows
from pgmo.profiler.importers.frames import MOST_LINES, Frame, Labels, tag_of
from pgmo.profiler.importers.torch_memory.odd_values import OddValues
from pgmo.profiler.importers.torch_memory.stacks import Stacks

USER = Frame("main", "/home/someone/train.py", 9)
MODULE = Frame("_call_impl", "/v/site-packages/torch/nn/modules/module.py", 1)
OPTIMIZER = Frame("step", "/v/site-packages/torch/optim/sgd.py", 1)
ENGINE = Frame("torch::autograd::Engine::thread_main(std::shared_ptr)", "??", 0)
BACKWARD = Frame("_engine_run_backward", "/v/site-packages/torch/autograd/graph.py", 1)


def tag(*frames):
    return tag_of(frames, Labels(frames))


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        ((MODULE, USER), "forward"),
        ((USER,), "other"),
        ((Frame("forward", MODULE.file, 9), USER), "forward"),
        ((Frame("__init__", MODULE.file, 9), USER), "other"),  # construction of a module
        ((Frame("_apply", MODULE.file, 9), USER), "other"),  # Module.to()
        ((ENGINE, Frame("clone3", "clone3.S", 81)), "backward"),
        ((BACKWARD, USER), "backward"),
        ((OPTIMIZER, USER), "optimizer"),
        ((MODULE, BACKWARD, USER), "backward"),  # a checkpoint that runs again
        ((MODULE, OPTIMIZER, USER), "optimizer"),  # an optimizer with a closure
        ((), "backward"),  # autograd's thread without C++ frames
    ],
)
def test_phases(frames, phase):
    assert tag(*frames).phase == phase


@pytest.mark.parametrize(
    ("names", "op"),
    [
        (["at::_ops::add_Tensor::call(at::Tensor const&)"], "aten.add"),
        (["at::_ops::sum_dim_IntList::call(at::Tensor)"], "aten.sum"),
        (["at::_ops::_foreach_add_List::redispatch(c10::DispatchKeySet)"], "aten._foreach_add"),
        (["at::_ops::native_layer_norm::call()"], "aten.native_layer_norm"),
        (["at::_ops::empty_memory_format::call()", "at::_ops::zeros::call()"], "aten.zeros"),
        (["at::_ops::empty_memory_format::call()"], "aten.empty"),
        (["at::_ops::addmm::call()", "at::_ops::linear::call()"], "aten.addmm"),
        (["main"], ""),
    ],
)
def test_operators(names, op):
    assert tag(*(Frame(name, "??", 0) for name in names)).op == op


def test_the_file_is_the_innermost_of_the_users_own():
    own = Frame("loss", "/home/someone/loss.py", 3)
    library = Frame("enter", "/usr/lib/python3.11/contextlib.py", 1)
    compiled = Frame("at::empty(long)", "Memory.cpp", 12)
    found = tag(compiled, MODULE, library, own, USER)
    assert found.file == "loss.py:3 in loss"
    assert found.stack == (
        "module.py:1 in _call_impl",
        "contextlib.py:1 in enter",
        "loss.py:3 in loss",
        "train.py:9 in main",
    )


def test_alike_file_names_get_their_folder():
    other = Frame("main", "/home/someone/other/train.py", 2)
    frames = [USER, other, Frame("f", "/home/someone/lib/__init__.py", 1)]
    assert tag(*frames).stack == (
        "someone/train.py:9 in main",
        "other/train.py:2 in main",
        "lib/__init__.py:1 in f",
    )


@pytest.mark.parametrize(
    ("file", "line", "python"),
    [
        ("<string>", 1, True),
        ("/tmp/ipykernel_7/12.py", 1, True),
        ("/usr/bin/torchrun", 8, True),
        ("clone3.S", 81, False),
        ("??", 0, False),
        ("", 0, False),
        ("memory_snapshot.cpp", 4, False),
        ("/lib/libc.so.6", 0, False),
    ],
)
def test_python_frames_are_recognized(file, line, python):
    assert Frame("f", file, line).is_python is python


def test_of_a_long_stack_the_middle_is_left_out():
    stack = [Frame("f", f"/me/a{number}.py", 1) for number in range(200)]
    lines = tag_of(stack, Labels(stack)).stack
    assert (lines[0], lines[-1], len(lines)) == ("a0.py:1 in f", "a199.py:1 in f", MOST_LINES)


def test_of_more_frames_than_are_looked_at_the_outermost_count():
    stacks = Stacks(OddValues())
    frames = [
        stacks.frame({"name": "f", "filename": f"/me/a{number}.py"}) for number in range(3000)
    ]
    number = stacks.number(frames)
    _, (tag,) = stacks.tagged(Rows.make([(0, 64, 8, 0, number)]))
    assert (tag.stack[0], tag.stack[-1]) == ("a0.py:0 in f", "a2999.py:0 in f")
    assert len(tag.stack) == MOST_LINES


def test_the_size_of_a_tag_is_limited():
    long = "x" * 1000
    stack = [Frame(long, f"/{long}/{number}{long}.py", number) for number in range(200)]
    assert sum(map(len, tag_of(stack, Labels(stack)).stack)) < 64 * 110


def test_a_file_name_that_is_no_utf_8_can_be_printed():
    frame = Frame("run", "/home/someone/\udcff.py", 3)
    assert Labels([frame]).line(frame).encode() == rb"\udcff.py:3 in run"
