"""Tests of the keepers that a census names, and of the objects that it does not change."""

import gc
import re
import sys
import types
import weakref
from collections import deque

import pytest

from pgmo.runner.keepers import census as census_module
from pgmo.runner.keepers import roots
from pgmo.runner.keepers.census import take_census
from pgmo.runner.keepers.cycles import _name_cycle, _owners
from pgmo.runner.keepers.groups import find_keepers
from pgmo.runner.keepers.parts import parts
from pgmo.runner.keepers.place import Place
from pgmo.runner.keepers.roots import _KEEPS_SNAPSHOT, _modules, _running

torch = pytest.importorskip("torch")

from tests.held_frames import without_collector  # noqa: E402

_RUNNER = re.compile(r"[/\\](_pytest|pluggy|xdist|execnet)[/\\]")

SIDE = 512
MIB = SIDE * SIDE * 4 >> 20


def block():
    return torch.ones(SIDE, SIDE)


@pytest.fixture
def program(monkeypatch):
    """Return an empty module of a program that has imported only PyTorch."""
    gc.collect()
    module = types.ModuleType("train")
    module.__file__ = "/home/user/train.py"
    monkeypatch.setitem(sys.modules, "train", module)
    monkeypatch.setattr(roots, "_running", lambda: _running_program(_running()))
    monkeypatch.setattr(roots, "_modules", lambda: _modules_of_program(_modules()))
    return module


def _running_program(frames):
    """Return the functions of a test, without those of pytest, which hold all tests of the run."""
    return [one for one in frames if not _RUNNER.search(one.f_code.co_filename)]


def _modules_of_program(modules):
    """Return the modules of a test, without those that other tests of the run have imported."""
    return [(name, one) for name, one in modules if name.partition(".")[0] in ("train", "torch")]


def keepers(error=None):
    """Return the keepers of blocks of at least 1 MiB each, as text."""
    found = take_census(error)
    blocks = [one for one in found.blocks if one.size >= MIB << 20]
    return [str(one) for one in find_keepers(blocks, most=20)]


def test_the_loader_of_a_module_is_no_variable_of_it(program):
    program.__loader__ = [block()]
    assert "__loader__" not in str(keepers())


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: [block(), block()], "kept (list of 2"),
        (lambda: {"best": {"weight": block(), "bias": block()}}, "kept['best'] (dict of 2"),
        (lambda: types.SimpleNamespace(outputs=[block(), block()]), "kept.outputs (list of 2"),
        (lambda: deque([block(), block()]), "kept (deque of 2"),
        (lambda: {3: (block(), block())}, "kept[3] (tuple of 2"),
    ],
)
def test_containers(program, make, name):
    program.kept = make()
    assert keepers() == [f"train.{name} tensors, 2.00 MiB)"]


def test_a_module_an_optimizer_and_their_gradients(program):
    program.model = torch.nn.Sequential(*(torch.nn.Linear(SIDE, SIDE) for _ in range(2)))
    program.optimizer = torch.optim.AdamW(program.model.parameters())
    program.model(torch.ones(1, SIDE)).sum().backward()
    program.optimizer.step()
    assert keepers() == [
        "state of train.optimizer (4 tensors, 4.00 MiB)",
        "gradients of train.model (2 tensors, 2.00 MiB)",
        "parameters of train.model (2 tensors, 2.00 MiB)",
    ]


def test_an_attribute_of_a_module(program):
    program.model = torch.nn.Sequential(torch.nn.Linear(SIDE, SIDE))
    program.model[0].cache = [block() for _ in range(4)]
    assert keepers()[0] == "train.model.0.cache (list of 4 tensors, 4.00 MiB)"


def test_a_hook_and_the_list_of_its_closure(program):
    def keeping():
        kept = [block(), block()]

        def keep(module, inputs, output):
            kept.append(output)

        return keep

    program.model = torch.nn.Linear(2, 2)
    program.model.register_forward_hook(keeping())
    (line,) = keepers()
    assert line.startswith("kept in the closure of test_a_hook_and_the_list_of_its_closure.keeping")
    assert line.endswith("keep() (list of 2 tensors, 2.00 MiB)")


def test_an_attribute_of_a_class(program):
    class Trainer:
        cache = (block(),)

    Trainer.__module__ = "train"
    program.Trainer = Trainer
    assert keepers() == ["train.Trainer.cache[0] (1 tensor, 1.00 MiB)"]


def test_a_graph_that_is_kept(program):
    weight = torch.ones(1, requires_grad=True)
    total = torch.zeros(1)
    for _ in range(3):
        total = total + (block() * weight).exp().mean()
    program.total = total
    del weight, total
    (line,) = keepers()
    assert line == "graph of train.total (saved tensors, 6.00 MiB)"


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x * 1.5
        return ctx.result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.5


def test_a_cycle_through_a_context(program):
    with without_collector():
        for _ in range(3):
            Scale.apply(torch.ones(SIDE, SIDE, requires_grad=True))
        lines = keepers()
    assert lines == [
        "ctx.result of Scale, a reference cycle that only Python's garbage collector frees "
        "(6 tensors, 6.00 MiB)"  # each result with its input
    ]


def test_a_context_of_a_graph_that_is_alive(program):
    program.output = Scale.apply(torch.ones(SIDE, SIDE, requires_grad=True)).sum()
    assert keepers() == ["graph of train.output (saved tensors, 2.00 MiB)"]


def test_an_object_that_refers_to_itself(program):
    with without_collector():
        node = types.SimpleNamespace(result=block())
        node.own = node
        del node
        lines = keepers()
    assert lines == ["SimpleNamespace.result (1 tensor, 1.00 MiB)"]


@pytest.mark.skipif(not _KEEPS_SNAPSHOT, reason="frames keep no snapshot")
def test_functions_that_read_their_variables_are_left_out():
    gc.collect()

    def main():
        outputs = [block(), block()]
        mine = locals()
        lines = keepers()
        assert set(mine) == {"outputs"}  # a read of the frame would have added two names
        return lines, outputs

    assert main()[0] == []


def test_local_variables_of_a_running_function():
    gc.collect()

    def main():
        outputs = [block(), block()]
        return keepers(), outputs

    (line,) = main()[0]
    assert line == (
        "outputs in test_local_variables_of_a_running_function.main() (list of 2 tensors, 2.00 MiB)"
    )


def test_local_variables_of_the_functions_that_an_error_has_left():
    gc.collect()

    def train():
        outputs = [block(), block()]
        raise MemoryError(len(outputs))

    try:
        train()
    except MemoryError as error:
        lines = keepers(error)
    assert len(lines) == 1
    assert "outputs in " in lines[0]


def test_an_error_that_is_kept(program):
    def train():
        outputs = [block(), block()]
        raise ValueError(len(outputs))

    program.errors = []
    try:
        train()
    except ValueError as error:
        program.errors.append(error)
    assert keepers() == [
        "train.errors[0][0] (1 tensor, 1.00 MiB)",
        "train.errors[0][1] (1 tensor, 1.00 MiB)",
    ]


def test_a_loader_that_has_begun(program):
    data = torch.utils.data.TensorDataset(torch.ones(4, SIDE, SIDE))
    program.batches = iter(torch.utils.data.DataLoader(data, batch_size=2))
    next(program.batches)
    del data
    assert keepers() == ["train.batches._dataset.tensors[0] (1 tensor, 4.00 MiB)"]


def test_nothing_stays_alive_because_of_a_census(program):
    class Owner:
        pass

    program.owner = Owner()
    program.owner.tensors = [block()]
    owner, storage = weakref.ref(program.owner), weakref.ref(program.owner.tensors[0])
    with without_collector():
        found = take_census()
        del program.owner
        assert (owner(), storage()) == (None, None)
    assert found.blocks


def test_no_snapshot_of_local_variables_keeps_them():
    def main():
        tensor = block()
        alive = weakref.ref(tensor)
        take_census()
        del tensor
        return alive()

    assert main() is None


def test_no_code_of_the_program_runs(program):
    class Odd:
        def __init__(self):
            self.kept = [block()]

        def __getattr__(self, name):
            raise AssertionError(name)

        def __iter__(self):
            raise AssertionError("iterated")

        @property
        def result(self):
            raise AssertionError("read")

    class Items(dict):
        def items(self):
            raise AssertionError("items")

    program.odd, program.items = Odd(), Items(a=Odd())
    assert keepers() == [
        "train.items['a'].kept[0] (1 tensor, 1.00 MiB)",
        "train.odd.kept[0] (1 tensor, 1.00 MiB)",
    ]


def test_a_proxy_does_not_create_its_object(program):
    class Proxy:
        __slots__ = ("kept",)

        @property
        def __dict__(self):
            raise SystemExit("created")

    class Key:
        hashed = 0

        def __hash__(self):
            self.hashed += 1
            return 0

    class Owner:
        __slots__ = ("__dict__", "table")

    program.key, program.proxy, program.owner = Key(), Proxy(), Owner()
    program.owner.name, program.owner.table = "a", {program.key: block()}
    program.proxy.kept = [block(), block()]
    before = program.key.hashed
    names = {one.partition(" (")[0] for one in keepers()}
    assert names == {"train.proxy[0]", "train.proxy[1]", "train.owner[Key]"}
    assert program.key.hashed == before


@pytest.mark.skipif(not _KEEPS_SNAPSHOT, reason="frames keep no snapshot")
def test_variables_that_the_program_has_read_stay():
    def caller():
        tensor = block()
        names = reader()
        take_census()
        return names["tensor"] is tensor

    def reader():
        return sys._getframe(1).f_locals

    assert caller()


def test_tensors_without_memory_of_their_own_are_left_out(program):
    program.kept = [torch.ones(SIDE, SIDE, device="meta"), torch.nn.UninitializedParameter()]
    assert keepers() == []


def test_a_search_ends_at_its_limit(program, monkeypatch):
    monkeypatch.setattr(census_module, "_MOST_OBJECTS", 2)
    program.history = [[[block()]]]
    found = take_census()
    assert found.unknown["cpu"] >= 1 << 20


def test_a_census_searches_a_limited_number_of_parts(program, monkeypatch):
    monkeypatch.setattr(census_module, "_MOST_OBJECTS", 1000)
    taken = []

    def counted(value, place):
        for part in parts(value, place):
            taken.append(part.place)
            yield part

    monkeypatch.setattr(census_module, "parts", counted)
    program.history = [[[] for _ in range(900)] for _ in range(900)]
    take_census()
    assert len(taken) <= 1000


def test_a_search_ends_at_its_deadline(program, monkeypatch):
    monkeypatch.setattr(census_module, "_SECONDS", 0.0)
    program.output = Scale.apply(torch.ones(SIDE, SIDE, requires_grad=True)).sum()
    assert keepers() == []  # the search ends before the graph
    held, owner = [torch.ones(SIDE, SIDE)], type("Owner", (), {})()
    owner.kept = held[0]
    assert _owners(held, deadline=0.0) == {}
    assert _owners(held, deadline=float("inf")) == {id(held[0]): "Owner.kept"}
    names = {id(held[0]): "a list"}
    held[0].itself = held[0]
    _name_cycle(held[0], names, deadline=0.0)
    assert names == {id(held[0]): "a list"}
    _name_cycle(held[0], names, deadline=float("inf"))
    assert names[id(held[0])].startswith("a list, a reference cycle")


def test_growth_between_two_censuses(program):
    program.weights, program.history = [block() for _ in range(8)], [block()]
    before = take_census().blocks
    program.history += [block() for _ in range(3)]
    (one,) = find_keepers(take_census().blocks, before)
    assert (one.name, one.tensors, one.grown) == ("train.history", 4, 3 << 20)


def test_names_of_places():
    main = Place(None, "()main")
    items = Place(main, ".items")
    assert Place(items, "[3]").name == "items[3] in main()"
    assert Place(Place(items, "[3]"), "", whole="graph").name == "graph of items[3] in main()"
    assert Place(items, "kept in the closure of f()", alone=True).name == (
        "kept in the closure of f()"
    )
