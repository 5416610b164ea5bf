"""What torch gets, and what it says."""

import sys
import types
import warnings

import pytest

from pgmo import _core
from pgmo.allocator import torch_plugin as module
from pgmo.allocator.torch_plugin import LIMITS, plugin_allocator
from pgmo.errors import AdapterError


@pytest.fixture
def torch(monkeypatch):
    """As much of torch as `plugin_allocator` needs."""

    class Hooks:
        def __init__(self) -> None:
            self.set: dict[str, int] = {}

        def __getattr__(self, name: str):
            if name not in module._HOOKS:
                raise AttributeError(name)
            return lambda address: self.set.update({name: address})

    torch = types.SimpleNamespace(
        __version__="2.6.0",
        _C=types.SimpleNamespace(_CUDAPluggableAllocator=object),
        cuda=types.SimpleNamespace(
            memory=types.SimpleNamespace(
                CUDAPluggableAllocator=lambda *names: types.SimpleNamespace(
                    names=names, _allocator=Hooks()
                )
            ),
            init=lambda: None,
        ),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    plugin_allocator.cache_clear()
    module.torch_plugin.cache_clear()
    yield torch
    plugin_allocator.cache_clear()
    module.torch_plugin.cache_clear()


def test_every_hook_is_set_and_the_limits_are_told_once(torch):
    with pytest.warns(UserWarning, match="prebuilt plug-in") as caught:
        allocator = plugin_allocator()
    assert [str(one.message).count(limit) for one in caught for limit in LIMITS] == [1] * len(
        LIMITS
    )
    assert caught[0].filename == __file__
    assert allocator.names == (_core.__file__, "pgmo_plugin_alloc", "pgmo_plugin_free")
    assert allocator._allocator.set.keys() == module._HOOKS.keys()
    assert len(set(allocator._allocator.set.values())) == len(module._HOOKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert plugin_allocator() is allocator


def test_torch_without_a_needed_hook_is_refused(torch, monkeypatch):
    known = [name for name in module._HOOKS if name != "set_record_stream_fn"]
    monkeypatch.setattr(
        torch.cuda.memory,
        "CUDAPluggableAllocator",
        lambda *names: types.SimpleNamespace(
            _allocator=types.SimpleNamespace(**{name: lambda address: None for name in known})
        ),
    )
    with pytest.raises(AdapterError, match=r"2\.6\.0 does not have set_record_stream_fn\(\)"):
        plugin_allocator()


def test_torch_without_cuda_is_refused(torch):
    del torch._C._CUDAPluggableAllocator
    with pytest.raises(AdapterError, match="built without CUDA"):
        plugin_allocator()


def test_session_wants_the_plugin_to_be_torch_s_allocator(torch, libraries):
    with pytest.raises(AdapterError, match="change_current_allocator"):
        module.torch_plugin(0)
    libraries.plugin.pgmo_plugin_init(0)  # what torch does when it makes the allocator object
    with pytest.raises(AdapterError, match="change_current_allocator"):
        module.torch_plugin(0)
    libraries.plugin.pgmo_plugin_init(1)  # and when it starts CUDA with it
    assert module.torch_plugin(0).device == "cuda:0"
