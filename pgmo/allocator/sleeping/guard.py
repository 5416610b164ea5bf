"""Errors when a program uses sleeping optimizers or modules.

The guard refuses optimizer steps, module calls, `state_dict()`, and modules' `load_state_dict()`.

Without the guard, a kernel that reads an address without pages fails later on the device, without
naming the tensor. After that failure, the process cannot use the device.
"""

from typing import Any
from weakref import WeakSet

from pgmo.allocator.sleeping.storages import listed
from pgmo.errors import SessionError

_ADVICE = ": begin a pgmo.phase() that does not list it, or call session.resume()"


class SleepGuard:
    """Guard that makes uses of sleeping optimizers and modules raise `SessionError`."""

    def __init__(self, objects: object) -> None:
        import torch
        from torch.nn.modules.module import register_module_forward_pre_hook
        from torch.optim.optimizer import register_optimizer_step_pre_hook
        from torch.utils.weak import WeakIdKeyDictionary

        self._sleeping: WeakSet[Any] = WeakSet()
        self._tensors = WeakIdKeyDictionary()  # listed tensors, including parameters
        self._handles: list[Any] = []
        for one in listed(objects):
            if isinstance(one, torch.optim.Optimizer):
                self._sleeping.add(one)
                self._handles.append(one.register_state_dict_pre_hook(self._refuse_state))
            elif isinstance(one, torch.nn.Module):
                self._sleeping.update(one.modules())
                self._tensors.update((parameter, None) for parameter in one.parameters())
                for inner in one.modules():
                    hooked: Any = inner
                    self._handles += (
                        hooked.register_state_dict_pre_hook(self._refuse_state),
                        hooked.register_load_state_dict_pre_hook(self._refuse_state),
                    )
            else:
                self._tensors[one] = None
        if self._tensors or any(isinstance(one, torch.optim.Optimizer) for one in self._sleeping):
            self._handles.append(register_optimizer_step_pre_hook(self._refuse_step))
        if self._tensors or any(isinstance(one, torch.nn.Module) for one in self._sleeping):
            self._handles.append(register_module_forward_pre_hook(self._refuse_call))

    def _refuse_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        del args, kwargs  # otherwise the traceback would keep their tensors alive
        if optimizer in self._sleeping:
            raise SessionError(f"the state of this {type(optimizer).__name__} sleeps{_ADVICE}")
        if any(one in self._tensors for group in optimizer.param_groups for one in group["params"]):
            raise SessionError(f"parameters of this {type(optimizer).__name__} sleep{_ADVICE}")

    def _refuse_call(self, module: Any, args: Any) -> None:
        del args
        # Compiled code calls the hooks of its wrapper, but not the hooks of the modules inside.
        compiled = module._modules.get("_orig_mod")
        used = [module] if compiled is None else list(compiled.modules())
        if any(map(self._sleeps, used)):
            raise SessionError(f"the memory of this {type(used[0]).__name__} sleeps{_ADVICE}")

    def _sleeps(self, module: Any) -> bool:
        own = (one for one in module._parameters.values() if one is not None)
        return module in self._sleeping or any(one in self._tensors for one in own)

    def _refuse_state(self, owner: Any, *args: Any) -> None:
        del args
        raise SessionError(f"the contents of this {type(owner).__name__} sleep{_ADVICE}")

    def end(self) -> None:
        """Allow the use of the objects again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
