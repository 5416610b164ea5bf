"""A dispatch mode in which CUDA tensors have sizes and no storage, and CPU tensors are as ever.

    operator(cpu, cpu)              runs: data sets, schedules and lengths have their real values
    operator(cuda, ...)             FakeTensorMode says what comes out; the ledger notes its storage
    a large factory on the CPU      fake as well: weights of models that the machine cannot hold

What it computes has no values. Where the program reads one, it gets an assumed one, and that is
noted.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch._subclasses import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from pgmo.fit.estimate import shares
from pgmo.fit.estimate.attention import of_plain_operators
from pgmo.fit.estimate.kernels.table import Kernels
from pgmo.fit.estimate.ledger import Ledger

LARGE = 1 << 14
"""Elements from which on a new tensor on the CPU is fake: a batch of numbers is smaller."""

_aten = torch.ops.aten
_DEVICE = torch.ops.prim.device.default
_META = torch.device("meta")
_CARD = torch.device("cuda", 0)
_IN_PLACE = frozenset(
    {
        _aten.add.Tensor,
        _aten.index_put.default,
        _aten.scatter_add.default,
        _aten.scatter.src,
        _aten.scatter.value,
        _aten.index_add.default,
    }
)
"""What torch itself does in place, unless a mode or a subclass of tensors watches."""
_IN_PLACE_OF_LOGITS = frozenset({_aten.sub.Tensor, _aten.mul.Tensor})
_LOGITS = "BinaryCrossEntropyWithLogitsBackward0"
"""The same, in one formula of a gradient."""
_FACTORIES = frozenset(
    {
        _aten.empty.memory_format,
        _aten.empty_strided.default,
        _aten.zeros.default,
        _aten.ones.default,
        _aten.full.default,
        _aten.randn.default,
        _aten.randn.generator,
        _aten.rand.default,
        _aten.rand.generator,
    }
)
_FINITE = frozenset({"isnan", "isinf", "any", "isneginf", "isposinf"})


class _FakeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """Never looks for the card, whatever `torch.cuda.is_available` says meanwhile."""

    @property
    def avoid_device_init(self) -> bool:
        return True


class FakeCard(TorchDispatchMode):
    """Runs every operator, real or fake, and notes storages on the card.

    Args:
        ledger: where they are noted.
        kernels: know what operators take and give back besides.

    Attributes:
        wants_meta: whether the program itself asks for the device "meta".
        assumed: what was read from the card, in words, with how often.

    Example:
        >>> ledger = Ledger()  # in a FakeRun, which pretends that there is a card
        >>> with FakeCard(ledger, Kernels(ledger, card)):  # doctest: +SKIP
        ...     x = torch.zeros(1024, device="cuda:0")
        >>> x.device, len(ledger)  # doctest: +SKIP
        (device(type='cuda', index=0), 1)
    """

    def __init__(self, ledger: Ledger, kernels: Kernels) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.fake = _FakeMode(allow_non_fake_inputs=True)
        self.wants_meta = False
        self.assumed: dict[str, int] = {}
        self._ledger = ledger
        self._kernels = kernels

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Runs one operator."""
        if func is _DEVICE:
            return self._device_of(args[0])
        kwargs = kwargs or {}
        device = kwargs.get("device")
        if device is not None and device.type == "meta" and not self.wants_meta:
            device = _CARD
            kwargs = {**kwargs, "device": device}
        if FakeTensor not in types and not self._is_fake(func, args, device):
            return func(*args, **kwargs)
        rule = _RULES.get(func)
        if rule is not None:
            done, out = rule(self, func, args, kwargs)
            if done:
                return out
        with self.fake:
            out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        return out

    def _note(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        on_card = [one for one in _tensors(out) if one.fake_device.type == "cuda"]
        if on_card or any(one.fake_device.type == "cuda" for one in _tensors(args)):
            self._kernels.run(func, args, kwargs, out)
        if on_card:
            shares.note(func, args, kwargs, out)
            self._ledger.born(on_card)
            if (func in _IN_PLACE and not args[0]._is_view() and _by_torch_itself(args)) or (
                func in _IN_PLACE_OF_LOGITS and _runs(_LOGITS)
            ):
                self._ledger.may_inherit(out.untyped_storage(), args[0].untyped_storage())

    @staticmethod
    def _device_of(tensor: Any) -> torch.device:
        """What C++ is told: the card, but for the backward pass.

        There autograd would ask for the card's streams, as soon as it knows that it is one.
        """
        if tensor.fake_mode.in_kernel_invocation or _engine_asks():
            return _META
        device: torch.device = tensor.fake_device
        return device

    @staticmethod
    def _is_fake(func: Any, args: Any, device: torch.device | None) -> bool:
        if device is not None and device.type != "cpu":
            return device.type == "cuda"
        if func not in _FACTORIES or not args:
            return False
        elements = 1
        for size in args[0]:
            elements *= size
        return elements >= LARGE

    # --- operators that need values -------------------------------------------------------------

    def _assume(self, what: str) -> None:
        self.assumed[what] = self.assumed.get(what, 0) + 1

    def _item(self, _func: Any, args: Any, _kwargs: Any) -> tuple[bool, Any]:
        (tensor,) = args
        if tensor.constant is not None:
            return False, None
        if tensor.dtype is torch.bool:
            self._assume("a truth value read from the card: true, but for tests of nan and any()")
            return True, getattr(tensor, "_pgmo_made_by", "") not in _FINITE
        if tensor.dtype.is_floating_point:
            self._assume("a number read from the card: 1.0")
            return True, 0.0 if _in_scaler() else 1.0
        self._assume("an integer read from the card: 1")
        return True, complex(1) if tensor.dtype.is_complex else 1

    def _truth(self, func: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        with self.fake:
            out = func(*args, **kwargs)
        self._note(func, args, kwargs, out)
        out._pgmo_made_by = func.overloadpacket.__name__
        return True, out

    def _to_copy(self, _func: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """What is on the card already is not copied there: C++ was told of another device."""
        tensor = args[0]
        device = kwargs.get("device")
        same = (
            isinstance(tensor, FakeTensor)
            and device is not None
            and device.type == "cuda"
            and tensor.fake_device.type == "cuda"
            and kwargs.get("dtype") in (None, tensor.dtype)
            and kwargs.get("memory_format") in (None, torch.preserve_format)
        )
        if not same:
            return False, None
        with self.fake:
            return True, _aten.alias.default(tensor)

    def _nonzero(self, _func: Any, args: Any, _kwargs: Any) -> tuple[bool, Any]:
        (tensor,) = args
        count = self._chosen("positions of what is not zero", tensor, tensor.numel())
        out = tensor.new_empty((tensor.dim(), count), dtype=torch.int64)
        return True, out.t()  # so a card lays them out

    def _masked_select(self, _func: Any, args: Any, _kwargs: Any) -> tuple[bool, Any]:
        tensor, mask = args
        most = torch.broadcast_shapes(tensor.shape, mask.shape).numel()  # type: ignore[no-untyped-call]
        return True, tensor.new_empty((self._chosen("elements that a mask selects", mask, most),))

    def _chosen(self, what: str, mask: Any, most: int) -> int:
        """How many elements a mask chooses, of so many."""
        share = shares.share_of(mask)
        if share is None:
            self._assume(f"{what}: all of them")
            return most
        self._assume(f"{what}: {share:.3g} of them, as if chosen at random")
        return max(1, round(share * most)) if most else 0

    def _contiguous(self, func: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """A gradient of an input that is contiguous on a card, whatever the input is."""
        with self.fake:
            out = func(*args, **kwargs)
            if out[0] is not None and not _dense(out[0]):
                out = (torch.empty(out[0].shape, dtype=out[0].dtype, device=_CARD), *out[1:])
        self._note(func, args, kwargs, out)
        return True, out

    def _grouped(self, func: Any, args: Any, kwargs: Any) -> tuple[bool, Any]:
        """A product of groups, whose sizes are on the card; torch says it of bfloat16 alone."""
        left, right, offsets = (*args, None)[:3]
        if left.dim() == 3 and right.dim() == 3:
            return False, None
        shape: tuple[int, ...] = (left.shape[-2], right.shape[-1])
        if left.dim() == 2 and right.dim() == 2:
            shape = (offsets.shape[0], *shape)
        unit = 16 // left.element_size()  # rows begin at multiples of 16 bytes
        width = -(-shape[-1] // unit) * unit
        strides = (shape[-2] * width, width, 1)[-len(shape) :]
        out = left.new_empty_strided(shape, strides)
        self._note(func, args, kwargs, out)
        return True, out


_RULES: dict[Any, Callable[[FakeCard, Any, Any, Any], tuple[bool, Any]]] = {
    _aten._local_scalar_dense.default: FakeCard._item,
    _aten._to_copy.default: FakeCard._to_copy,
    _aten.nonzero.default: FakeCard._nonzero,
    _aten.masked_select.default: FakeCard._masked_select,
    _aten.isnan.default: FakeCard._truth,
    _aten.isinf.default: FakeCard._truth,
    _aten.any.default: FakeCard._truth,
    _aten.any.dim: FakeCard._truth,
    _aten.native_layer_norm_backward.default: FakeCard._contiguous,
    _aten.native_batch_norm_backward.default: FakeCard._contiguous,
}
if hasattr(_aten, "_grouped_mm"):
    _RULES[_aten._grouped_mm.default] = FakeCard._grouped


def _dense(tensor: Any) -> bool:
    """Whether its elements lie in the order of its dimensions, or channel after channel."""
    last = tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
    return bool(last or tensor.is_contiguous())


def _tensors(value: Any) -> Iterator[Any]:
    """The fake tensors among an operator's arguments or results."""
    if isinstance(value, FakeTensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)


def _by_torch_itself(args: Any) -> bool:
    """Whether C++ code calls the operator that would write in place, were it not watched."""
    code = _caller().f_code
    if code.co_name == _ENGINE:
        return not torch.is_grad_enabled()
    if code.co_filename.endswith(_LINEAR):  # a bias, where the product has more than two dimensions
        return isinstance(args[1], FakeTensor) and args[1].dim() == 1
    return code is of_plain_operators.__code__


def _runs(node: str) -> bool:
    """Whether autograd runs a node of this name."""
    running = torch._C._current_autograd_node()
    return running is not None and running.name() == node


def _engine_asks() -> bool:
    """Whether no Python of the program lies between the operator and autograd's engine."""
    return _caller().f_code.co_name == _ENGINE


def _caller() -> FrameType:
    """The innermost frame of Python that is none of the modes'."""
    frame: Any = sys._getframe(2)
    while frame.f_globals.get("__name__") in _OURS:
        frame = frame.f_back
    found: FrameType = frame
    return found


_ENGINE = "_engine_run_backward"
_LINEAR = ("torch/nn/modules/linear.py", "torch/nn/functional.py")
_OURS = (
    __name__,
    "pgmo.fit.estimate.calls",
    "torch.overrides",
    "pgmo.profiler.tagging.operator_mode",
    "torch._compile",
    "torch._dynamo.eval_frame",
    "torch._ops",
)


def _in_scaler() -> bool:
    frame: Any = sys._getframe(3)
    while frame is not None:
        if frame.f_code.co_filename.endswith("grad_scaler.py"):
            return True
        frame = frame.f_back
    return False
