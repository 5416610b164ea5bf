import pytest

import pgmo
from pgmo.allocator.one_pass import record_once
from pgmo.allocator.session import open_sessions
from pgmo.errors import SessionError

torch = pytest.importorskip("torch")


def work():
    """Use a weight twice, so that its gradients are summed, and return the sum."""
    weight = torch.ones(64, 1024, requires_grad=True)
    batch = torch.ones(8, 64)
    (batch @ weight).relu().sum().backward()
    ((batch @ weight).sum() + (batch @ weight).square().sum()).backward()
    return weight.grad


def untagged():
    """Return the profile of `work`, recorded without observed operators."""
    with pgmo.optimize(device="cpu", tags=False) as session:
        work()
        profile = session.recording
        session.step()
    return profile


def test_it_equals_the_requests_of_an_unobserved_program():
    plain = untagged()
    with record_once("cpu", name="work") as recorded:
        work()
    assert recorded.profile.size.tolist() == plain.size.tolist()
    assert recorded.peak == plain.max_load()
    assert recorded.profile.meta.model == "work"


def test_values_are_the_same():
    expected = work()
    with record_once("cpu"):
        assert torch.equal(work(), expected)


def test_blocks_from_before_the_recording_do_not_count():
    before = torch.ones(1 << 20)
    with record_once("cpu") as recorded:
        del before
        torch.ones(1024)
    assert recorded.peak == 4096


def test_blocks_have_the_names_of_operators():
    with record_once("cpu") as recorded:
        work()
    assert recorded.profile.tags


def test_nothing_requested():
    with record_once("cpu") as recorded:
        pass
    assert recorded.profile is None
    assert recorded.peak == 0


def test_beside_a_session_it_says_what_to_do():
    with pgmo.optimize(device="cpu") as session:
        with pytest.raises(SessionError, match="is open on cpu"):
            with record_once("cpu"):
                pass
        work()
        session.step()


def test_a_session_inside_is_served_and_said():
    with pytest.raises(SessionError, match="opened while pgmo recorded"):
        with record_once("cpu"):
            with pgmo.optimize(device="cpu") as session:
                for _ in range(5):
                    work()
                    session.step()
            assert session.summary().replayed > 0
    assert not open_sessions.any_open()


def test_after_an_error_the_allocator_is_as_it_was():
    with pytest.raises(ZeroDivisionError):
        with record_once("cpu"):
            1 / 0  # noqa: B018
    assert not open_sessions.any_open()
    with record_once("cpu") as recorded:
        torch.ones(1024)
    assert recorded.peak == 4096
