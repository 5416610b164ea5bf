"""Tests of the part that the callbacks of all frameworks share."""

import pytest

from pgmo.integrations.training_hook import TrainingHook

pytest.importorskip("torch")


def test_an_error_in_the_figures_is_a_warning_once(monkeypatch):
    def session_metrics(_session):
        raise KeyError("arena_bytes")

    monkeypatch.setattr("pgmo.integrations.training_hook.session_metrics", session_metrics)
    hook = TrainingHook()
    hook.begin("cpu")
    with pytest.warns(UserWarning, match="could not be logged") as said:
        assert [hook.metrics(), hook.metrics()] == [{}, {}]
        hook.end()
    figures = [str(one.message) for one in said if "figures" in str(one.message)]
    assert figures == ["pgmo's figures could not be logged: KeyError: 'arena_bytes'"]
