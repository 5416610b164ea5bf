import copy
import pickle

import pytest
import torch
from torch import nn

import pgmo
from pgmo.recompute.planners.planning import plan_choice
from tests.unit.recompute.traced import Normed


class Twice(Normed):
    """A model that branches on a value, and so has two graphs."""

    def forward(self, x):
        x = self.conv(x)
        if x.sum() > 0:
            x = -x
        return self.act(x).square().mean()


@pytest.mark.parametrize("make", [Normed, Twice])
def test_a_compiled_model_gives_the_same_bits(make):
    torch.manual_seed(0)
    plain = make()
    other = copy.deepcopy(plain)
    backend = pgmo.recompute.backend("min", measure=False)
    compiled = torch.compile(other, backend=backend, dynamic=False)
    x = torch.randn(2, 3, 8, 8)
    for model in (plain, compiled):
        model(x).backward()
    for one, two in zip(plain.parameters(), other.parameters(), strict=True):
        assert torch.equal(one.grad, two.grad)
    for one, two in zip(plain.buffers(), other.buffers(), strict=True):
        assert torch.equal(one, two)


def test_unknown_kernels_are_refused():
    with pytest.raises(pgmo.errors.OptionError, match="triton"):
        pgmo.recompute.backend("1 MiB", kernels="triton")


class TestWhatInductorIsGiven:
    @pytest.fixture
    def given(self, monkeypatch):
        from torch._inductor import compile_fx

        calls = []
        monkeypatch.setattr(compile_fx, "compile_fx", lambda *_, **options: calls.append(options))

        def patches(*arguments, options=None, **keywords):
            backend = pgmo.recompute.backend(*arguments, kernels="inductor", **keywords)
            backend(None, [], mode="max-autotune-no-cudagraphs", options=options)
            return calls[-1]["config_patches"]

        return patches

    def test_mode_and_options_are_passed_on(self, given):
        patches = given("1 MiB", options={"epilogue_fusion": False})
        assert patches["max_autotune"] is True
        assert patches["epilogue_fusion"] is False

    def test_the_cache_key_depends_on_the_budget(self, given):
        def key(*arguments, **keywords):
            partitioner = given(*arguments, **keywords)["custom_partitioner_fn"]
            assert copy.deepcopy(partitioner) is partitioner
            return partitioner.uuid(), pickle.dumps(partitioner)

        assert key("1 MiB") == key(1024**2)
        keys = [key("1 MiB"), key("min"), key(None), key("min", measure=False)]
        assert len(set(keys)) == 4
        assert key("min", planner=plan_choice) != key("min", planner=plan_choice)


def test_backend_reports_an_impossible_budget():
    backend = pgmo.recompute.backend("1 KiB", measure=False)
    compiled = torch.compile(nn.Linear(64, 64), backend=backend, dynamic=False)
    with pytest.raises(Exception, match=r"1\.00 KiB"):
        compiled(torch.ones(8, 64))
