"""Sessions of several frameworks as one: CuPy with its driver replaced, and PyTorch on the CPU."""

import pytest

import pgmo
from pgmo.allocator.session.statistics import Phase
from pgmo.errors import AdapterError, OptionError, SessionError
from tests.unit.allocator.cupy_program import Program
from tests.unit.allocator.simulated import LAYERS, Loop

torch = pytest.importorskip("torch")

BOTH = ("torch", "cupy")


@pytest.fixture
def step(cupy, monkeypatch):
    """An iteration that uses both frameworks."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    loop = Loop(Program(cupy), LAYERS)

    def one():
        loop()
        return torch.ones(1000).sum().item()

    yield one
    loop.finish()


def test_one_boundary_ends_the_iterations_of_both(step):
    with pgmo.optimize(framework=BOTH) as session:
        assert session.frameworks == BOTH
        for _ in range(4):
            step()
            session.step()
        for _ in range(4):
            with session.iteration():
                step()
        for name in BOTH:
            assert len(session[name].history) == 8
            assert session[name].history[-1].hit_rate == 1
            assert session[name].plan.arena > 0
        assert [session[name].device for name in BOTH] == ["cpu", "cuda:0"]
        with pytest.raises(
            pgmo.errors.OptionError, match="no session of 'jax' here, only of torch and"
        ):
            session["jax"]
    text = str(session.summary())
    assert text.startswith("pgmo, torch: live bytes in slots peaked at ")
    assert "\npgmo, cupy: live bytes in slots peaked at " in text
    assert text.count("8 iterations, ") == 2
    assert [session[name].phase for name in BOTH] == [Phase.CLOSED] * 2


def test_each_gives_its_memory_back(step):
    with pgmo.optimize(framework=BOTH) as session:
        for _ in range(8):
            with session.iteration():
                step()
        for name in BOTH:
            session[name].release()
        with session.iteration():
            with pytest.raises(SessionError, match=r"inside session\.iteration"):
                session["torch"].release()
            step()
        assert session["torch"].history[-1].hit_rate == 0  # an arena of one block went as a whole
        with session.iteration():
            step()
        assert session["torch"].history[-1].hit_rate == 1
        with pytest.raises(AttributeError, match=r"call session\['torch'\]\.release"):
            session.release()


def test_an_exception_ends_the_iteration_of_both_early(step):
    with pgmo.optimize(framework=BOTH) as session:
        for _ in range(6):
            with session.iteration():
                step()
        with pytest.raises(ZeroDivisionError), session.iteration():
            step()
            raise ZeroDivisionError
        with session.iteration():
            step()
        for name in BOTH:
            assert len(session[name].history) == 8
            assert session[name].history[-1].hit_rate == 1


def test_a_pause_is_one_of_both(step, cupy):
    with pgmo.optimize(framework=BOTH) as session:
        for _ in range(6):
            with session.iteration():
                step()
        requests = [session[name].statistics["requests"] for name in BOTH]
        with session.pause():
            torch.ones(1000)
            cupy.cuda.get_allocator()(1000)
        assert [session[name].statistics["requests"] for name in BOTH] == requests


def test_plans_are_saved_and_given_by_framework(step, tmp_path):
    plans = {name: tmp_path / f"net-{name}.pgmoplan" for name in BOTH}
    phases = []
    for options in ({"save": tmp_path, "model_name": "net"}, {"plan": plans}):
        with pgmo.optimize(framework=BOTH, **options) as session:
            for _ in range(7):
                with session.iteration():
                    step()
            for name in BOTH:
                phases.append(session[name].history[1].phase)
                assert session[name].history[-1].hit_rate == 1
    assert phases == [Phase.RECORD] * 2 + [Phase.REPLAY] * 2
    with pgmo.optimize(framework=BOTH, save=tmp_path) as session:
        for _ in range(6):
            with session.iteration():
                step()
    assert {path.name for name in BOTH for path in session[name].saved} >= {
        "pgmo-torch.pgmoplan",
        "pgmo-cupy.pgmoplan",
    }


@pytest.mark.filterwarnings("ignore:a pgmo session ended without")
def test_where_one_cannot_be_opened_none_is(step, cupy):
    before = cupy.cuda.get_allocator()
    session = pgmo.optimize(framework=("cupy", "torch"), device="cuda:0")
    with pytest.raises(AdapterError):
        session.__enter__()
    assert cupy.cuda.get_allocator() == before
    with pytest.raises(SessionError, match="session has been closed"):
        session.step()
    with pgmo.optimize(framework="cupy") as again:  # nothing is left open
        again.step()


def test_the_rest_goes_on_when_one_is_closed(step):
    with pgmo.optimize(framework=BOTH) as session:
        for _ in range(6):
            with session.iteration():
                step()
        session["cupy"].close()
        with session.iteration():
            step()
        assert [len(session[name].history) for name in BOTH] == [7, 6]


def test_calls_of_a_function_are_iterations(step):
    @pgmo.optimize(framework=BOTH)
    def train():
        return step()

    assert [train() for _ in range(6)] == [1000.0] * 6
    assert [len(train.session[name].history) for name in BOTH] == [6, 6]
    train.close()


def test_a_function_may_come_before_the_options(step):
    train = pgmo.optimize(step, framework=BOTH)
    assert [train() for _ in range(6)] == [1000.0] * 6
    assert [len(train.session[name].history) for name in BOTH] == [6, 6]
    train.close()


def test_options_that_make_no_sense():
    with pytest.raises(OptionError, match="options go by name"):
        pgmo.optimize("net.pgmoplan", framework=BOTH)
    with pytest.raises(OptionError, match="is not one of"):
        pgmo.optimize(framework=(["torch"],))
    with pytest.raises(OptionError, match="different ones"):
        pgmo.optimize(framework=("torch", "torch"))
    with pytest.raises(OptionError, match="framework='numpy' is not one of"):
        pgmo.optimize(framework=("torch", "numpy"))
    with pytest.raises(OptionError, match=r"dictionary by their names, as in \{'torch'"):
        pgmo.optimize(framework=BOTH, plan="net.pgmoplan")
    with pytest.raises(OptionError, match="dictionary"):
        pgmo.optimize(framework=BOTH, plan={"numpy": "net.pgmoplan"})
