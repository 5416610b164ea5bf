"""What this process has of a card, and how what idles of it goes back; for its turns."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from pgmo import _core
from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import cuda_adapter
from pgmo.share.client import MemoryHolder, Sizes

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda

_MEMORY = "/proc/meminfo"


def card_memory(
    adapter: Adapter, give_back: Callable[[], object]
) -> tuple[MemoryHolder, str, int] | None:
    """The holder of a session's device, the device's name on this machine, and its bytes.

    None for frameworks that take no turns with other processes: CuPy, and unified memory, whose
    arenas are blocks that go back when the session ends.

    Args:
        adapter: of the session.
        give_back: gives back what idles in its arenas.
    """
    if adapter.device == "cpu":
        return HostMemory(adapter, give_back), "cpu", _meminfo("MemTotal")
    cuda = cuda_adapter(adapter)
    if cuda is None:
        return None
    import torch

    about = torch.cuda.get_device_properties(cuda.index)
    key = str(getattr(about, "uuid", "") or f"cuda:{cuda.index}")
    return CudaMemory(cuda), key, int(about.total_memory)


class CudaMemory:
    """A CUDA device's, whose pages go back one by one.

    Args:
        adapter: of the device; of any session on it.
    """

    def __init__(self, adapter: "TorchCuda") -> None:
        self._adapter = adapter
        self._lasting = 0  # when what idles was given back last

    def begin(self) -> None:
        """Nothing to do: pages come as they are needed."""

    def sizes(self) -> Sizes:
        """What the process has there."""
        import torch

        index = self._adapter.index
        held = torch.cuda.memory_reserved(index)
        lasting = max(self._lasting, torch.cuda.memory_allocated(index))
        return Sizes(held, max(0, held - lasting), torch.cuda.mem_get_info(index)[0])

    def give_back(self, *, between_turns: bool) -> None:
        """Gives back what idles, once the device has done with it."""
        import torch

        adapter = self._adapter
        if torch.cuda.is_current_stream_capturing():
            return
        if not between_turns:  # else another thread may be capturing, which a wait would break
            adapter.synchronize()
        for _ in range(2):  # the first time records what the second finds completed
            adapter.empty_cache(pages=True)
        if adapter.pages:
            _core.forget_peak(adapter.space)
        self._lasting = torch.cuda.memory_reserved(adapter.index)


class HostMemory:
    """The CPU's: arenas, whose memory the system takes while nobody is served.

    Args:
        adapter: of the session.
        give_back: gives arenas back.
    """

    def __init__(self, adapter: Adapter, give_back: Callable[[], object]) -> None:
        self._engine = adapter.engine
        self._give_back = give_back
        self._given = False

    def begin(self) -> None:
        """The arena's memory comes as it is touched."""
        self._given = False

    def sizes(self) -> Sizes:
        """The arenas; of the rest nobody knows how long it stays. None of it goes between turns."""
        arenas = int(self._engine.statistics()["arena_bytes"])
        return Sizes(0 if self._given else arenas, 0, _meminfo("MemAvailable"))

    def give_back(self, *, between_turns: bool) -> None:
        """Arenas' memory goes back at the end of a turn; between two the loop may do anything."""
        if not between_turns:
            self._give_back()
            self._given = True


def _meminfo(name: str) -> int:
    try:
        with open(_MEMORY) as lines:
            found = next(line for line in lines if line.startswith(f"{name}:"))
        return int(found.split()[1]) << 10
    except (OSError, StopIteration, ValueError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
