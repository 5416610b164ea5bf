"""Storages of tensors, read without side effects on the program."""

import gc
import sys
from collections.abc import Iterator
from typing import Any

StorageKey = tuple[str, int]
"""Device and address of a storage."""

_WITHOUT_MEMORY = ("FakeTensor", "FunctionalTensor")
"""Names of tensor types that warn if their address is read."""


def is_tensor(value: object) -> bool:
    """Return whether an object is a tensor, without running code of the object."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and issubclass(type(value), torch.Tensor)


def storage_of(tensor: Any) -> tuple[StorageKey, int] | None:
    """Return the storage of a tensor, and its bytes; None if the tensor has no memory of its own.

    Wrapper subclasses, fake tensors and uninitialized parameters have no memory.
    """
    if type(tensor).__name__ in _WITHOUT_MEMORY:
        return None
    torch: Any = sys.modules["torch"]
    try:
        with torch._C.DisableTorchFunctionSubclass(), torch._C._DisableTorchDispatch():
            storage = tensor.untyped_storage()
            address, size = storage.data_ptr(), storage.nbytes()
            device = str(tensor.device)
    except Exception:  # subclasses of tensors raise errors of any type
        return None
    return ((device, address), size) if address and size else None


def python_tensors() -> list[Any]:
    """Return the tensors that exist as Python objects."""
    return [one for one in gc.get_objects() if is_tensor(one)]


def attribute(tensor: Any, name: str) -> Any:
    """Return an attribute of a tensor; None if reading it raises an error."""
    torch: Any = sys.modules["torch"]
    try:
        with torch._C.DisableTorchFunctionSubclass():
            return getattr(tensor, name)
    except Exception:  # for example for `grad_fn` of a view that was changed in place
        return None


def gradient(tensor: Any) -> Any:
    """Return the gradient of a leaf tensor; None if it has no gradient, or is no leaf."""
    return attribute(tensor, "grad") if attribute(tensor, "is_leaf") else None


def saved_tensors(node: Any) -> Iterator[Any]:
    """Yield the tensors that a node of an autograd graph has saved, without unpacking them."""
    for name in dir(type(node)):
        if not name.startswith("_raw_saved_"):
            continue
        try:
            saved = getattr(node, name)
        except RuntimeError:  # The backward pass has freed them.
            continue
        for one in saved if isinstance(saved, (tuple, list)) else (saved,):
            data = getattr(one, "data", None)
            if data is not None and is_tensor(data):
                yield data
