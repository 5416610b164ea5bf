"""Tests of answers of rehearsals as values, and of their printed text."""

from pgmo.cards import find
from pgmo.cli.commands.programs.rehearse import lines
from pgmo.rehearsal.answer import Rehearsal, read_answer
from pgmo.rehearsal.environment import context_bytes, of_card, of_way


def test_figures_of_the_child_become_an_answer():
    found = {"card_peak": 30, "reserved_peak": 20, "allocated_peak": 10, "unknown": 1}
    answer = read_answer(found | {"profile": "a.pgmoprof"}, exit_code=0, seconds=2.0)
    assert answer.fits
    assert not answer.failed
    assert answer.to_fields()["profile"] == "a.pgmoprof"
    short = read_answer(found | {"out_of_memory": "x"}, exit_code=1, seconds=2.0)
    assert not short.fits
    assert not short.failed
    broken = read_answer(found, exit_code=1, seconds=2.0)
    assert broken.failed


def test_out_of_memory_is_reported_with_its_line():
    error = "CUDA out of memory. Tried to allocate 1 GiB. GPU 0\ntrain.py:3: x = f()"
    answer = Rehearsal(1, False, 4 << 30, 2 << 30, 1 << 30, out_of_memory=error)
    shown = list(lines(answer, "train.py", find("RTX 4090"), "expandable"))
    assert shown[0].endswith("with expandable segments: it does not fit")
    assert shown[-2:] == ["error       CUDA out of memory", "at          train.py:3: x = f()"]


def test_pinned_memory_of_the_host_is_shown_if_there_is_some():
    plain = list(lines(Rehearsal(0, True, 3, 2, 1), "train.py", find("L4"), "pgmo"))
    pinned = Rehearsal(0, True, 3, 2, 1, pinned_peak=1 << 30)
    host = [one for one in lines(pinned, "train.py", find("L4"), "pgmo") if one not in plain]
    assert host == ["host        1.00 GiB pinned at the peak"]


def test_the_environment_of_a_card():
    card = find("T4")
    variables = of_card(card, 4)
    assert variables["FAKECUDA_BYTES"] == str(card.usable)
    assert variables["FAKECUDA_CAPABILITY"] == "7.5"
    assert variables["FAKECUDA_DEVICES"] == "4"
    assert context_bytes(find("H100 SXM")) > context_bytes(card)
    assert of_way("default", {}) == {}
    assert of_way("expandable", {}) == {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
