"""Tests of the watcher with programs, each in its own process, as the watcher stays in torch."""

import pytest

from tests import forked

pytest.importorskip("torch")

PRELUDE = """
import copy, torch
from torch import nn
from pgmo.runner.watcher import Watcher

class Listener:
    def begin(self, devices): print("begin", *devices)
    def end_iteration(self): print("end")
    def pause(self): print("pause")
    def resume(self): print("resume")

watcher = Watcher(Listener())
watcher.attach()

def make(*sizes):
    return nn.Sequential(*(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])))

def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()

model = make(4, 8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


# Each program follows a line with its name, and with the calls of the listener and its own prints.
PROGRAMS = """
## training begins with the first forward pass that needs gradients -> now, begin cpu
with torch.no_grad():
    model(torch.ones(1, 4))
model.eval()
model(torch.ones(1, 4))
model.train()
print("now")
model(torch.ones(1, 4))

## no hook on forward passes is left -> begin cpu, end, 0
step(model, optimizer)
print(len(nn.modules.module._global_forward_pre_hooks))

## a function without modules begins with the second iteration -> begin cpu, end, end
weight = nn.Parameter(torch.ones(3))
own = torch.optim.SGD([weight], lr=0.1)
del optimizer
for _ in range(3):
    own.zero_grad()
    weight.sum().backward()
    own.step()

## evaluation pauses until the model is trained again -> begin cpu, end, pause, resume, end
step(model, optimizer)
model.eval()
model(torch.ones(1, 4))
model.train()
step(model, optimizer)

## a mode that is set back in another way is seen -> begin cpu, end, pause, back, resume, end
step(model, optimizer)
model.eval()
for module in model.modules():
    module.training = True
print("back")
step(model, optimizer)

## a part that stays in evaluation mode is no evaluation -> begin cpu, end, end
step(model, optimizer)
model[0].eval()
step(model, optimizer)

## a model that trains in eval mode is paused once -> begin cpu, end, pause, resume, end, end, end
step(model, optimizer)
for _ in range(3):
    model.train()
    model.eval()
    step(model, optimizer)

## a second training goes on -> begin cpu, end, end, end
step(model, optimizer)
del model, optimizer
model = make(4, 4)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
step(model, optimizer)
step(model, optimizer)

## hooks and schedulers of the program work as before -> begin cpu, own, end, True
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
optimizer.register_step_post_hook(lambda *_: print("own"))
step(model, optimizer)
scheduler.step()
print(optimizer.param_groups[0]["lr"] < 0.1)

## a step that fails ends nothing -> begin cpu, end, failed, end
step(model, optimizer)
def fail():
    raise ZeroDivisionError
try:
    optimizer.step(fail)
except ZeroDivisionError:
    print("failed")
step(model, optimizer)

## compiled models are seen -> begin cpu, end, end
compiled = torch.compile(model, backend="eager")
step(compiled, optimizer)
step(compiled, optimizer)

## steps inside of an engine are no iterations -> begin cpu, end, step, end, step, end, step
# DeepSpeed steps its optimizer once for each part of the parameters, or never.
import sys, types
module = types.ModuleType("deepspeed.runtime.engine")

class DeepSpeedEngine:
    optimizer, basic_optimizer = None, optimizer
    def _take_model_step(self, parts):
        for part in range(parts):
            optimizer.step()

module.DeepSpeedEngine = DeepSpeedEngine
sys.modules[module.__name__] = module
watcher._attach_to_deepspeed()  # as once it has been imported
for group in optimizer.param_groups:
    group["params"] = []
engine = DeepSpeedEngine()
for parts in (3, 0, 3):
    model(torch.ones(2, 4)).sum().backward()
    engine._take_model_step(parts)
    print("step")
"""


def programs():
    for part in PROGRAMS.split("\n## ")[1:]:
        title, _, program = part.partition("\n")
        name, _, expected = title.partition(" -> ")
        yield pytest.param(program, expected.split(", "), id=name)


def seen(program):
    ended = forked.run(PRELUDE + program)
    assert ended.exit_code == 0, ended.errors
    return ended.output.split("\n")[:-1]


@pytest.mark.parametrize(("program", "expected"), programs())
def test_calls_of_the_listener(program, expected):
    assert seen(program) == expected


def test_a_copied_optimizer_counts():
    program = """
other = copy.deepcopy(optimizer)
for _ in range(2):
    step(model, optimizer)
    other.step()
"""
    assert seen(program)[-1] == "end"


def test_threads_have_patterns_of_their_own():
    """Two threads train at the same time, one of them with two alternating optimizers."""
    program = """
import threading
ends = []
Listener.end_iteration = lambda self: ends.append(threading.current_thread().name)
generator, critic = make(4, 4), make(4, 4)
several = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (generator, critic)]
one_alone = torch.optim.SGD(make(4, 4).parameters(), lr=0.1)
del optimizer
gates = [threading.Semaphore(1), threading.Semaphore(0)]

def turns(own, *optimizers):
    for _ in range(12):
        for optimizer in optimizers:
            gates[own].acquire()
            optimizer.step()
            gates[1 - own].release()

threads = [
    threading.Thread(target=turns, args=(0, *several), name="two"),
    threading.Thread(target=turns, args=(1, one_alone, one_alone), name="one"),
]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(ends[-12:].count("two"), ends[-12:].count("one"))
"""
    assert seen(program)[-1] == "4 8"


def test_a_step_that_is_left_out_while_another_thread_steps():
    """The scaler skips its step, during which another thread steps another optimizer."""
    program = """
import threading
step(model, optimizer)
other = torch.optim.SGD(make(4, 4).parameters(), lr=0.1)
class Scaler(torch.amp.GradScaler):
    def _maybe_opt_step(self, *args, **kwargs):
        thread = threading.Thread(target=other.step)
        thread.start()
        thread.join()
        return None
scaler = Scaler("cpu")
scaler.scale(model(torch.ones(2, 4)).sum()).backward()
print("now")
scaler.step(optimizer)
"""
    assert seen(program)[-2:] == ["end", "end"]


def test_switching_modes_on_two_threads():
    """One thread is inside of `train()` while another thread calls `eval()`."""
    program = """
import threading
class Slow(nn.Linear):
    def train(self, mode=True):
        thread = threading.Thread(target=model.eval)
        thread.start()
        thread.join()
        return super().train(mode)
step(model, optimizer)
print("now")
Slow(4, 4).train()
step(model.train(), optimizer)
"""
    assert seen(program)[-4:] == ["now", "pause", "resume", "end"]


def test_optimizers_that_are_made_and_stepped_on_many_threads():
    program = """
import threading
errors = []
def work():
    try:
        for _ in range(30):
            own = make(4, 4)
            step(own, torch.optim.SGD(own.parameters(), lr=0.1))
            own.eval(); own.train()
    except BaseException as error:
        errors.append(error)
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(errors)
"""
    assert seen(program)[-1] == "[]"
