"""Tests of compiled programs in a session and under `pgmo run`, with the same graphs and bits."""

import json

import pytest

from tests.integration.running import run
from tests.same_bits import assert_same_bits

pytest.importorskip("torch")

from tests.integration.compiled_programs import PROGRAMS

MODULE = "tests.integration.compiled_programs"


def _found(folder, *command):
    return json.loads(run(folder, *command).stdout.splitlines()[-1])


OFTEN = ("graph_breaks", "whole_step")
"""Programs that `make test` runs; `make test-all` runs all."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in OFTEN else pytest.mark.slow) for name in PROGRAMS],
)
def test_the_same_graphs_and_the_same_bits(tmp_path, name):
    plain = _found(tmp_path, "-m", MODULE, name)
    session = _found(tmp_path, "-m", MODULE, name, "session")
    served = session.pop("session")
    assert_same_bits(plain, session, lambda: _found(tmp_path, "-m", MODULE, name))
    assert served["replayed"] > 0
    run_by_pgmo = _found(tmp_path, "-m", "pgmo", "run", "-m", MODULE, name)
    assert_same_bits(plain, run_by_pgmo, lambda: _found(tmp_path, "-m", MODULE, name))


def test_untagged(tmp_path):
    plain = _found(tmp_path, "-m", MODULE, "whole_model")
    session = _found(tmp_path, "-m", MODULE, "whole_model", "session", "untagged")
    assert session.pop("session")["tags"] == []
    assert session == plain


def test_compiled_code_has_one_tag_and_the_rest_has_tags_of_operators(tmp_path):
    tags = _found(tmp_path, "-m", MODULE, "in_place", "session")["session"]["tags"]
    assert "Blocks torch.compile" in tags
    assert {"AdamW aten.sqrt", " aten.mean", "Blocks aten.native_layer_norm_backward"} <= set(tags)
    # Tags of the iteration that compiles, which makes the optimizer's state, are dropped.
    assert "AdamW aten.zeros_like" not in tags


@pytest.mark.slow
def test_kernels_of_inductor_have_their_names(tmp_path):
    session = _found(tmp_path, "-m", MODULE, "inductor_with_planned_memory", "session")["session"]
    assert {"extern_kernels.addmm", "extern_kernels.mm"} <= {
        one.split()[-1] for one in session["used"]
    }
    assert any(" cpp_fused_gelu_native_dropout" in one for one in session["used"])
    assert any(" pool" in one for one in session["used"])
    assert not any("torch.compile" in one for one in session["used"])
