import torch

from pgmo.recompute.capture.memory_use.meter import meter, peak_and_net

CPU = torch.device("cpu")


def test_a_block_has_a_peak_a_net_and_marks():
    with meter(CPU) as measured:
        first = torch.empty(256)
        measured.mark("one")
        second = torch.empty(512)
        del first
        measured.mark("two")
        third = torch.empty(64)
        del third
    assert (measured.peak, measured.net) == (3072, second.nbytes)
    place = measured.changes.index(("two", 0))
    assert peak_and_net(measured.changes[:place]) == (3072, 2048)
    assert peak_and_net(measured.changes[place:]) == (256, 0)


def test_there_is_one_profile_at_a_time():
    with meter(CPU):
        assert meter(CPU) is None


def test_devices_without_memory_events_are_not_measured():
    assert meter(torch.device("meta")) is None


def test_the_environment_is_restored(monkeypatch):
    import os

    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    with meter(CPU):
        pass
    assert "KINETO_LOG_LEVEL" not in os.environ
