import io
import sys

import torch
from torch import nn

import pgmo


class Terminal(io.StringIO):
    def isatty(self):
        return True


def said(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)), nn.Tanh())
    pgmo.recompute(model, torch.ones(64, 8), budget="min")
    return stream.getvalue()


def test_a_terminal_shows_what_is_done_and_is_clear_at_the_end(monkeypatch):
    text = said(monkeypatch, Terminal())
    assert "captures a step of Sequential" in text
    assert "plans for " in text
    assert text.endswith("\r\x1b[2K")
    assert "\n" not in text


def test_no_progress_is_written_to_a_file(monkeypatch):
    assert said(monkeypatch, io.StringIO()) == ""
