"""Tests of the operations of an iteration, counted with torch's formulas."""

import pytest

torch = pytest.importorskip("torch")

from pgmo.fit.observer import work  # noqa: E402


def test_a_product_with_a_wider_result_counts_as_any_other():
    one, other = torch.ones(4, 8), torch.ones(8, 16)
    bias = torch.ones(4, 16)
    formulas = work.flop_registry
    aten = torch.ops.aten
    plain = work._flops(formulas[aten.mm], aten.mm.default, (one, other), {}, bias)
    wider = work._flops(formulas[aten.mm], aten.mm.dtype, (one, other, torch.float32), {}, bias)
    added = work._flops(
        formulas[aten.addmm], aten.addmm.dtype, (bias, one, other, torch.float32), {}, bias
    )
    assert plain == wider == added == 2 * 4 * 8 * 16


def test_a_formula_that_does_not_fit_counts_nothing():
    def strange(*_, **__):
        raise TypeError("multiple values")

    assert work._flops(strange, torch.ops.aten.mm.default, (), {}, None) == 0
