import pytest

torch = pytest.importorskip("torch")

from pgmo.recompute.capture.memory_use.meter import meter  # noqa: E402

CPU = torch.device("cpu")


def test_sections_have_start_peak_and_net():
    with meter(CPU) as measured:
        first = torch.empty(256)
        with measured.section("one"):
            second = torch.empty(512)
            del first
        with measured.section("two"):
            third = torch.empty(64)
            del third
    one, two = measured.sections
    assert (one.label, one.start, one.peak, one.net) == ("one", 1024, 2048, 1024)
    assert (two.label, two.start, two.peak, two.net) == ("two", 2048, 256, 0)
    assert (measured.whole.peak, measured.whole.net) == (3072, second.nbytes)


def test_there_is_one_profile_at_a_time():
    with meter(CPU):
        assert meter(CPU) is None


def test_nothing_is_measured_elsewhere():
    assert meter(torch.device("meta")) is None


def test_the_environment_is_left_alone(monkeypatch):
    import os

    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    with meter(CPU):
        pass
    assert "KINETO_LOG_LEVEL" not in os.environ
