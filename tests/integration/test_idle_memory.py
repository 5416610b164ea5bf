"""Arenas on the CPU in pauses: what idles goes back to the system, what lives stays."""

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402

MEBIBYTE = 1 << 20


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def _iteration(kept):
    a = torch.ones(16 * MEBIBYTE)
    b = a + 1
    kept[:] = [b[:1000].clone(), torch.full((3 * MEBIBYTE,), 7.0)]
    c = b * 2
    return float(c[0])


def test_an_evaluation_gets_the_pages_of_an_idle_arena():
    kept = []
    with pgmo.optimize(device="cpu") as session:
        for _ in range(8):
            assert _iteration(kept) == 4.0
            session.step()
        assert session.phase == "replay"
        arena = session.statistics["arena_bytes"]
        assert arena > 128 * MEBIBYTE
        before = _resident()
        with session.pause():
            assert _resident() < before - arena + 40 * MEBIBYTE
            # These have slots, and keep what they hold.
            assert torch.equal(kept[0], torch.full((1000,), 2.0))
            assert torch.equal(kept[1], torch.full((3 * MEBIBYTE,), 7.0))
        for _ in range(2):
            assert _iteration(kept) == 4.0
            session.step()
        assert session.history[-1].hit_bytes_rate == 1.0


def test_nothing_is_taken_from_an_engine_that_serves():
    kept = []
    with pgmo.optimize(device="cpu") as session:
        for _ in range(8):
            _iteration(kept)
            session.step()
        engine = session._known.lifecycle.state.adapter.engine
        assert engine.discard_idle_host_memory() == 0
