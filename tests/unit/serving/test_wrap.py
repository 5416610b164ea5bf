"""Tests that a wrapped model is the same object, and that its calls are iterations."""

import copy
import gc
import pickle
import weakref

import pytest

import pgmo
from pgmo.errors import OptionError
from pgmo.serving import interception

torch = pytest.importorskip("torch")
nn = torch.nn


class Net(nn.Module):
    """A model whose `generate` calls the model `count` times."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(32, 256), nn.Linear(256, 32)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))

    def generate(self, x, count):
        for _ in range(count):
            x = self(x)
        return x


class Pipeline:
    """A pipeline that is no module, as in diffusers."""

    def __init__(self):
        self.net, self.scale = Net().eval(), 2.0

    def __call__(self, x):
        return self.net(x) * self.scale


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = Net().eval()
    yield made
    pgmo.unwrap(made)
    assert not pgmo.serving.wrap._services


def ask(model, count=8):
    with torch.inference_mode():
        return [model(torch.full((16, 32), float(number))) for number in range(count)]


def test_calls_are_served_from_a_plan_with_the_same_results(model):
    expected = ask(model)
    assert pgmo.wrap(model, device="cpu") is model
    assert pgmo.session_of(model) is None
    for _ in range(8):  # each result is freed before the next call
        ask(model, 1)
    session = pgmo.session_of(model)
    assert [one.hit_rate for one in session.history[-3:]] == [1, 1, 1]
    got = ask(model)
    assert all(torch.equal(*pair) for pair in zip(expected, got, strict=True))
    assert len(session.history) == 16


def test_it_stays_the_same_object(model):
    keys, name = list(model.state_dict()), repr(type(model).__name__)
    calls = []
    model.register_forward_hook(lambda *_: calls.append(len(calls)))
    attributes = dict(vars(model))
    pgmo.wrap(model)
    assert isinstance(model, Net)
    assert repr(type(model).__name__) == name
    assert list(model.state_dict()) == keys
    assert vars(model) == attributes
    assert model.to(torch.float64).eval() is model
    assert model(torch.ones(2, 32, dtype=torch.float64)).dtype == torch.float64
    assert calls == [0]
    assert pgmo.unwrap(model) is model
    assert type(model) is Net
    assert vars(model) == attributes
    assert pgmo.session_of(model) is None


@pytest.mark.parametrize(
    "copied",
    [
        copy.copy,
        copy.deepcopy,
        *(lambda m, p=p: pickle.loads(pickle.dumps(m, p)) for p in range(6)),
    ],
)
def test_copies_are_not_wrapped_and_need_no_pgmo(model, copied):
    pgmo.wrap(model)
    other = copied(model)
    assert type(other) is Net
    assert torch.equal(ask(other, 1)[0], ask(model, 1)[0])
    assert b"pgmo" not in pickle.dumps(model)


def test_training_is_passed_on_and_said_once(model):
    plain = copy.deepcopy(model).train()
    pgmo.wrap(model.train())
    with pytest.warns(UserWarning, match="training mode with gradients") as caught:
        for one in (plain, model):
            for _ in range(6):
                one(torch.ones(4, 32)).square().sum().backward()
    assert len(caught) == 1
    assert pgmo.session_of(model) is None
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad)
    with torch.no_grad():
        model(torch.ones(4, 32))
    assert len(pgmo.session_of(model).history) == 1


def test_gradients_through_a_call_in_evaluation_mode(model):
    plain = copy.deepcopy(model)
    pgmo.wrap(model)
    for _ in range(8):
        for one in (plain, model):
            one.zero_grad()
            one(torch.ones(4, 32)).square().sum().backward()
        for one, other in zip(plain.parameters(), model.parameters(), strict=True):
            assert torch.equal(one.grad, other.grad)
    assert len(pgmo.session_of(model).history) == 8


def test_an_error_in_a_call_is_the_programs(model):
    pgmo.wrap(model)
    for _ in range(5):
        ask(model, 1)
    with pytest.raises(RuntimeError, match="shapes"):
        model(torch.ones(4, 31))
    ask(model, 3)
    assert len(pgmo.session_of(model).history) == 9


@pytest.mark.parametrize("order", ["wrapped", "compiled", "in place"])
def test_compiled_models(model, order):
    expected = ask(model)
    if order == "wrapped":
        called = torch.compile(pgmo.wrap(model), backend="eager", fullgraph=True)
    elif order == "compiled":
        called = pgmo.wrap(torch.compile(model, backend="eager", fullgraph=True))
    else:
        model.compile(backend="eager", fullgraph=True)
        called = pgmo.wrap(model)
    got = ask(called)
    assert all(torch.equal(*pair) for pair in zip(expected, got, strict=True))
    if order != "wrapped":
        assert len(pgmo.session_of(called).history) == 8
    pgmo.unwrap(called)


def test_models_on_one_device_share_a_session(model):
    other = pgmo.wrap(Net().eval())
    pgmo.wrap(model)
    ask(model, 3), ask(other, 3)
    session = pgmo.session_of(model)
    assert session is pgmo.session_of(other)
    assert len(session.history) == 6
    pgmo.unwrap(model)
    assert session.phase != "closed"
    pgmo.unwrap(other)
    assert session.phase == "closed"


def test_the_session_of_a_lost_model_is_closed():
    model = pgmo.wrap(Net().eval())
    ask(model, 2)
    session, alive = pgmo.session_of(model), weakref.ref(model)
    del model
    gc.collect()
    assert alive() is None
    assert session.phase == "closed"


def test_inside_a_session_of_the_program_a_call_is_a_part_of_its_iterations(model):
    pgmo.wrap(model)
    with pgmo.optimize(device="cpu") as session:
        for _ in range(3):
            with session.iteration():
                ask(model, 2)
        assert len(session.history) == 3
    assert pgmo.session_of(model) is None
    ask(model, 2)
    assert len(pgmo.session_of(model).history) == 2


def test_a_session_of_the_program_takes_the_place(model):
    pgmo.wrap(model)
    ask(model, 3)
    first = pgmo.session_of(model)
    with pgmo.optimize(device="cpu") as session:
        session.step()
        ask(model, 2)
    assert first.phase == "closed"
    ask(model, 2)
    assert len(pgmo.session_of(model).history) == 2


def test_pipelines_are_objects_with_modules():
    pipeline = pgmo.wrap(Pipeline())
    ask(pipeline, 6)
    assert pgmo.session_of(pipeline).device == "cpu"
    assert len(pgmo.session_of(pipeline).history) == 6
    pgmo.unwrap(pipeline)
    assert type(pipeline) is Pipeline


def test_unwrapping_while_a_call_runs(model):
    pgmo.wrap(model)
    ask(model, 6)
    model.first.register_forward_hook(lambda *_: pgmo.unwrap(model) and None)
    expected = copy.deepcopy(model)
    assert torch.equal(ask(model, 1)[0], ask(expected, 1)[0])
    assert interception.interceptor_of(model) is None
    with pgmo.optimize(device="cpu") as session:  # the engine serves a new session
        for _ in range(8):
            with session.iteration():
                ask(expected, 1)
        assert session.history[-1].hit_rate == 1


@pytest.mark.parametrize(
    ("thing", "options", "message"),
    [
        (3, {}, "not an object whose calls"),
        (Net, {}, "not an object whose calls"),
        (len, {}, "not an object whose calls"),
        (Net(), {"methods": "encode"}, "has no method 'encode'; its public methods: .*forward"),
        (Net(), {"budjet": 1}, "there is no option 'budjet'"),
        (Net(), {"device": "tpu"}, "tpu"),
    ],
)
def test_invalid_objects_and_options_are_refused(thing, options, message):
    with pytest.raises(OptionError, match=message):
        pgmo.wrap(thing, **options)


def test_wrapping_twice_is_an_error(model):
    pgmo.wrap(model)
    with pytest.raises(OptionError, match="unwrap"):
        pgmo.wrap(model)


def test_other_options_on_the_same_device_are_said_to_be_of_no_use(model):
    other = pgmo.wrap(Net().eval(), tags=True)
    ask(other, 1)
    pgmo.wrap(model, tags=False)
    with pytest.warns(UserWarning, match="are ignored"):
        ask(model, 2)
    pgmo.unwrap(other)


def test_a_session_that_cannot_be_opened_is_warned_of_and_calls_go_on(model, tmp_path):
    expected = ask(model, 1)[0]
    pgmo.wrap(model, plan=tmp_path / "none.pgmoplan")
    with pytest.warns(UserWarning, match="continue without a session") as caught:
        for _ in range(3):
            assert torch.equal(ask(model, 1)[0], expected)
    assert len(caught) == 1
