"""Tests of sizes of CUDA contexts that were measured on the machine."""

from pgmo.cards import find
from pgmo.doctor.contexts import keep_context
from pgmo.doctor.removal import clear
from pgmo.rehearsal.contexts import FOLDER, measured_contexts
from pgmo.rehearsal.environment import context_bytes


def test_a_measured_context_takes_the_place_of_the_estimate(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    card, other = find("H200"), find("L4")
    estimates = context_bytes(card), context_bytes(other)
    keep_context("NVIDIA H200", 700 << 20)
    keep_context("A card of mine", 300 << 20)
    assert measured_contexts() == {
        "NVIDIA H200": 700 << 20,
        "H200": 700 << 20,
        "A card of mine": 300 << 20,
    }
    assert (context_bytes(card), context_bytes(other)) == (700 << 20, estimates[1])
    assert [one.files for one in clear(["contexts"])] == [1]
    assert context_bytes(card) == estimates[0]


def test_a_damaged_file_counts_as_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path))
    keep_context("H200", 700 << 20)
    (tmp_path / FOLDER / "contexts.json").write_bytes(b"{}")
    assert measured_contexts() == {}
