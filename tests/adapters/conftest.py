"""Worlds without CUDA, and the real adapter in them. See build.py."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgmo.allocator.adapters import torch_cuda
from pgmo.allocator.build.compile import find_compiler
from pgmo.errors import AdapterError
from tests.adapters.build import build
from tests.adapters.world import World


@pytest.fixture(scope="session")
def libraries() -> dict[str, Path]:
    pytest.importorskip("torch", reason="the adapter is compiled against PyTorch's headers")
    try:
        find_compiler("the tests")
    except AdapterError as error:
        pytest.skip(str(error).splitlines()[0])
    return build()


@pytest.fixture
def new_world(libraries, tmp_path, monkeypatch) -> Iterator[Callable[[str], World]]:
    """Makes worlds; the engine checks itself in them, and the runtime must not complain."""
    import torch

    monkeypatch.setenv("PGMO_CHECK", "1")
    monkeypatch.setattr(torch_cuda, "_adapters", {})
    monkeypatch.setattr(torch_cuda, "_open", set())
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(torch.cuda, "memory_snapshot", list)
    monkeypatch.setattr(torch.cuda.memory, "get_allocator_backend", lambda: "native")
    made: list[World] = []

    def make(library: str = "sound") -> World:
        # A copy is another library, with an adapter in its first state.
        path = tmp_path / f"{library}-{len(made)}.so"
        shutil.copy(libraries[library], path)
        made.append(World(path))
        monkeypatch.setattr(torch_cuda, "adapter_library", lambda: made[-1].adapter)
        return made[-1]

    yield make
    for world in made:
        assert world.complaints() == []


@pytest.fixture
def world(new_world) -> World:
    return new_world("sound")


@pytest.fixture
def adapter_of(world) -> Callable[[int], torch_cuda.TorchCuda]:
    """The adapter's Python half for a device, installed."""

    def make(index: int) -> torch_cuda.TorchCuda:
        made = torch_cuda.TorchCuda(index)
        torch_cuda._adapters[index, 0] = made
        made.install()
        world.log()  # what the allocator beneath was asked for that
        return made

    return make


@pytest.fixture
def adapter(adapter_of) -> torch_cuda.TorchCuda:
    """Of device 0."""
    return adapter_of(0)
