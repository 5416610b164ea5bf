"""What a captured step took from Python, and whether that is still so.

While a forward pass is traced, what it reads is noted (`reads`, `code`). What it changes itself is
refused then, since the captured step would not; the rest is compared at each call.
"""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from pgmo.errors import GraphError
from pgmo.recompute.capture.compat import is_fake
from pgmo.recompute.frozen.code import Mention, closure_reads, global_reads, mentions, objects
from pgmo.recompute.frozen.draws import ADVICE, Draws
from pgmo.recompute.frozen.places import is_foreign, line, of_assignment
from pgmo.recompute.frozen.reads import INSIDES, Read, Reads, of_class
from pgmo.recompute.frozen.remembered import MISSING, is_generator, is_plain, remember

if TYPE_CHECKING:
    from types import CodeType


_HOOKS = frozenset(name for name in INSIDES if "_hooks" in name)


class Attributes:
    """Those of a module as they were before it ran, with the contents of containers, and hooks."""

    def __init__(self, module: nn.Module) -> None:
        self._values = dict(_own(module))
        self._contents = {
            name: (copy.copy(value), remember(value))
            for name, value in self._values.items()
            if isinstance(value, (list, dict, set))
        }
        self._hooks = {name: copy.copy(value) for name, value in _hooks(module)}

    def is_same(self, name: str, value: object) -> bool:
        """Whether an attribute has this value, with these contents."""
        if name in self._contents:
            return remember(value) == self._contents[name][1]
        before = self._values.get(name, MISSING)
        return value is before or remember(value) == remember(before)

    def put_back(self, module: nn.Module, *names: str) -> None:
        """Makes the module have them again, or those of some names.

        With all of them go the hooks that were registered since: an attribute that says that they
        are there would be gone, and the next forward pass register them once more.
        """
        for name, value in () if names else _hooks(module):
            if value.keys() != self._hooks.get(name, {}).keys():
                value.clear()
                value.update(self._hooks.get(name, {}))
        for name in names or {*self._values, *(name for name, _ in _own(module))}:
            if name not in self._values:
                del vars(module)[name]
                continue
            value = vars(module)[name] = self._values[name]
            if name in self._contents and remember(value) != self._contents[name][1]:
                contents = self._contents[name][0]
                value.clear()
                value.extend(contents) if isinstance(value, list) else value.update(contents)

    def put_back_values(self, module: nn.Module) -> None:
        """Put back the values that were there; new flags and new hooks stay.

        A library may install hooks at the first call, and note that in a new attribute.
        """
        now = dict(_own(module))
        new = {name for name in now if name not in self._values}
        flags = {name for name in new if isinstance(now[name], (bool, int, str))}
        self.put_back(module, *self._values, *(new - flags))


class Guard:
    """Watches the forward pass of a model while it is traced, and later what it depends on."""

    def __init__(self, model: nn.Module) -> None:
        self._paths = {id(one): path for path, one in model.named_modules()}
        self._modules = list(model.modules())  # alive, so that no other has its identity
        self._forwards = [vars(one).get("forward") for one in self._modules]  # and these
        self._reads: list[Read] = []
        self._codes: dict[CodeType, dict[str, Any]] = {}
        self._earlier: list[tuple[Read, object]] = []  # at the end of the last run
        self._first: list[Attributes] = []  # before a forward pass that is not traced

    @contextmanager
    def watching(self, traced: bool) -> Iterator[Reads]:
        """Inside, a forward pass runs on tensors without contents.

        Args:
            traced: whether it becomes a graph; before that it runs once to be looked at.

        Yields:
            What it reads, as it comes.

        Raises:
            GraphError: it keeps tensors, draws random numbers, or, when it is traced, changes
                attributes. All of these are put back.
        """
        reads, draws = self._of_forwards(), Draws()
        for code, names in self._codes.items():  # that ran when the forward pass was looked at
            reads.codes.setdefault(code, names)
        known = list(objects(mentions(reads)))
        before = [Attributes(one) for one in self._modules]
        self._first = self._first if traced and self._first else before
        try:
            with ExitStack() as stack:
                stack.enter_context(draws.noting())
                stack.enter_context(reads.noting())
                for one in known:
                    reads.watch(one)
                yield reads
            self._refuse_kept(before)
            found = mentions(reads)
            self._codes = reads.codes
            draws.refuse([one for _, one in found])
            every = self._every(reads, found)
            if traced:
                self._refuse_changes(before, reads)
                self._take(every)
                self._first = []  # what attributes held is not kept alive
            self._earlier = [(read, remember(read.now())) for read in every]
        except Exception:
            for module, attributes in zip(self._modules, self._first, strict=True):
                attributes.put_back(module)
            raise

    def _of_forwards(self) -> Reads:
        """With the code of all forward methods."""
        reads = Reads()
        for module in self._modules:
            for kind in type(module).__mro__:
                reads.see(vars(kind).get("forward"))
            reads.see(vars(module).get("forward"))
        return reads

    def _every(self, reads: Reads, found: list[tuple[dict[str, Any], Mention]]) -> list[Read]:
        kinds = {type(one) for one in self._modules}
        every = [*reads.found.values(), *global_reads(found), *map(_forward, kinds)]
        every += closure_reads(kinds, reads.codes, reads.functions.values())
        return every

    def _take(self, every: list[Read]) -> None:
        lasting = [read for read in every if not is_generator(read.value)]
        # Numbers and words first, which say more in a message than objects that hold them.
        self._reads = sorted(lasting, key=lambda read: not is_plain(read.value))

    def check(self) -> None:
        """Looks whether all that was read is as it was.

        Raises:
            GraphError: something is not.
        """
        for read in self._reads:
            if read.has_changed():
                self._refuse(read)

    def _refuse(self, read: Read) -> None:
        now = read.now()
        name = self._name(read.owner, read.name)
        was = "of other contents" if now is read.value else _show(read.value, "another one")
        raise GraphError(
            f"{name} is {_show(now)} and was {was} when the step was captured. The forward pass "
            f"reads it at {line(*read.where)}. A captured step runs no Python code, and is good "
            "for one value alone. Keep a number that changes often in a "
            f'buffer (self.register_buffer("{read.name}", torch.tensor(...)), then '
            f"model.{read.name}.fill_(...)) or give it as a tensor to the call"
        )

    def _refuse_kept(self, before: list[Attributes]) -> None:
        """Tensors that it leaves in attributes have no contents, now and later."""
        for module, attributes in zip(self._modules, before, strict=True):
            for name, value in _own(module):
                if not _holds_fakes(value) or attributes.is_same(name, value):
                    continue
                if _is_of_torch(module, name):
                    attributes.put_back(module, name)  # made anew each time
                    continue
                raise GraphError(
                    f"the forward pass keeps a tensor in {self._name(module, name)}"
                    f"{_at(module, name)}. A captured step has none to put there: return it"
                )

    def _refuse_changes(self, before: list[Attributes], reads: Reads) -> None:
        changed = [read for read in reads.found.values() if read.has_changed()]
        changed += [read for read, was in self._earlier if remember(read.now()) != was]
        for read in changed:
            if is_generator(read.value):
                raise GraphError(
                    f"the forward pass changes {self._name(read.owner, read.name)}: it draws "
                    f"random numbers, at {line(*read.where)}. {ADVICE}"
                )
        owners = [(read.owner, read.name) for read in changed]
        for module, attributes in zip(self._modules, before, strict=True):
            owners += [
                (module, name)
                for name, value in _own(module)
                if not attributes.is_same(name, value)
            ]
        for owner, name in owners:
            if _is_of_torch(owner, name):
                continue
            raise GraphError(
                f"the forward pass changes {self._name(owner, name)} each time that it runs"
                f"{_at(owner, name)}. A captured step runs no Python code, and would leave it as "
                f'it is. Make it a buffer (self.register_buffer("{name}", torch.tensor(0))), which '
                "is captured, or change it outside of the forward pass"
            )

    def _name(self, owner: object, name: str) -> str:
        if isinstance(owner, dict):
            return f"the global {name}"
        path = self._paths.get(id(owner))
        if path is not None:
            return ".".join(filter(None, ["model", path, name]))
        kind = owner if isinstance(owner, type) else type(owner)
        return f"{name} of a closure" if kind.__name__ == "cell" else f"{kind.__name__}.{name}"


def _forward(kind: type) -> Read:
    """The forward method of a class of modules, which libraries put others in the place of."""
    value = of_class(kind, "forward")
    code = getattr(value, "__code__", None)
    where = (code.co_filename, code.co_firstlineno) if code else ("", 0)
    return Read(kind, "forward", value, remember(value), where, of_class)


def _at(owner: object, name: str) -> str:
    found = of_assignment(type(owner), name)
    return f", at {found}" if found else ""


def _holds_fakes(value: object) -> bool:
    if isinstance(value, (list, tuple, set)):
        return any(_holds_fakes(one) for one in value)
    if isinstance(value, dict):
        return any(_holds_fakes(one) for one in value.values())
    return isinstance(value, Tensor) and is_fake(value)


def _own(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in vars(module).items() if name not in INSIDES]


def _hooks(module: nn.Module) -> list[tuple[str, dict[int, Any]]]:
    """The dictionaries of a module's hooks, by name."""
    return [(name, value) for name, value in vars(module).items() if name in _HOOKS]


def _is_of_torch(owner: object, name: str) -> bool:
    """Whether PyTorch's own code keeps an attribute: weights in one piece, or that a hook makes."""
    if type(owner).__module__.startswith("torch."):
        return True
    parameters = getattr(owner, "_parameters", {})
    if f"{name}_g" in parameters or f"{name}_orig" in parameters:
        return True
    found = of_assignment(type(owner), name)
    return found is not None and not is_foreign(found)


def _show(value: object, otherwise: str = "another one now") -> str:
    if value is MISSING:
        return "not there"
    shown = repr(value)
    return shown if len(shown) < 80 else otherwise
