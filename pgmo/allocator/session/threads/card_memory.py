"""Memory that this process holds on a card. Idle memory is freed between turns."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import cuda_adapter
from pgmo.share.client import MemoryHolder, Sizes
from pgmo.share.host_memory import host_memory

if TYPE_CHECKING:
    from pgmo.allocator.adapters.torch_cuda import TorchCuda


def card_memory(
    adapter: Adapter, give_back: Callable[[], object]
) -> tuple[MemoryHolder, str, int] | None:
    """Return a session's memory on its device, the device's unique name, and its total bytes.

    Return None for CuPy and unified memory, whose arenas are not freed between turns.
    """
    if adapter.device == "cpu":
        return HostMemory(adapter, give_back), "cpu", host_memory()[0]
    cuda = cuda_adapter(adapter)
    if cuda is None:
        return None
    import torch

    about = torch.cuda.get_device_properties(cuda.index)
    key = str(getattr(about, "uuid", "") or f"cuda:{cuda.index}")
    return CudaMemory(cuda), key, int(about.total_memory)


class CudaMemory:
    """Memory of a CUDA device, whose idle pages can be freed."""

    def __init__(self, adapter: "TorchCuda") -> None:
        self._adapter = adapter
        self._lasting = 0  # bytes held after idle memory was last freed

    def begin(self) -> None:
        """Do nothing at the beginning of an iteration, because pages are mapped when needed."""

    def sizes(self) -> Sizes:
        """Return the bytes that the process holds and could free, and the card's free bytes."""
        import torch

        index = self._adapter.index
        held = torch.cuda.memory_reserved(index)
        lasting = max(self._lasting, torch.cuda.memory_allocated(index))
        return Sizes(held, max(0, held - lasting), torch.cuda.mem_get_info(index)[0])

    def give_back(self, *, between_turns: bool) -> None:
        """Free idle memory, unless a graph is captured. After a turn, first wait for the device."""
        import torch

        if torch.cuda.is_current_stream_capturing():
            return
        if not between_turns:  # between turns, waiting could break another thread's capture
            self._adapter.synchronize()
        self._adapter.free_idle()
        self._lasting = torch.cuda.memory_reserved(self._adapter.index)


class HostMemory:
    """Memory of the CPU. Idle pages of arenas go back to the system at the end of a turn."""

    def __init__(self, adapter: Adapter, give_back: Callable[[], object]) -> None:
        self._engine = adapter.engine
        self._give_back = give_back
        self._given = False

    def begin(self) -> None:
        """Count arenas as held again: from now on, the iteration touches their memory."""
        self._given = False

    def sizes(self) -> Sizes:
        """Return the bytes of arenas, 0 for bytes that could be freed now, and the free bytes."""
        arenas = int(self._engine.statistics()["arena_bytes"])
        return Sizes(0 if self._given else arenas, 0, host_memory()[1])

    def give_back(self, *, between_turns: bool) -> None:
        """Free the arenas' memory at the end of a turn.

        Do nothing between turns, because an iteration without a turn may use the arenas.
        """
        if not between_turns:
            self._give_back()
            self._given = True
