"""Tests of the examples and the benchmark for CuPy, with NumPy's arrays for those of CuPy.

tests/gpu/test_cupy.py runs the examples on a device in a session.
"""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from pgmo.allocator.adapters import cupy as adapter
from tests.unit import fake_cupy

ROOT = Path(__file__).parents[2]


@pytest.fixture
def example(monkeypatch):
    """Return a function that imports a script by its path."""
    cupy = types.ModuleType("cupy")
    cupy.cuda, cupy.__version__ = fake_cupy.make().cuda, "14.0.0"
    cupy.__getattr__ = lambda name: getattr(np, name)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(adapter, "_adapters", {})

    def load(name):
        spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look up their module
        monkeypatch.setattr(sys, "path", list(sys.path))
        spec.loader.exec_module(module)
        return module

    return load


def test_the_network_learns(example):
    network = example("examples/cupy_mlp").Network(batch=64, hidden=128)
    network.step()
    before = float(network.loss)
    for _ in range(50):
        network.step()
    assert float(network.loss) < 0.7 * before


@pytest.mark.filterwarnings("ignore:.*allocate nothing:UserWarning")  # of NumPy
def test_conjugate_gradients_solve_the_system(example, capsys):
    residual = example("examples/cupy_conjugate_gradient").main(60, size=200)
    assert residual < 1e-8
    assert "60 iterations" in capsys.readouterr().out
