"""What a captured step depends on beside the model: code, versions, machine, and settings.

name of the file   versions, machine, settings of the plan, the call's signature
in the file        the files whose code ran, by their contents or their size and time
"""

import functools
import hashlib
import json
import os
import platform
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pgmo.recompute.capture.compat import flatten
from pgmo.recompute.capture.flat import places
from pgmo.recompute.frozen.modes import modes
from pgmo.recompute.frozen.places import is_foreign, is_scanned
from pgmo.recompute.frozen.reads import OPTIONS, is_of_torch
from pgmo.recompute.kept.looks import look
from pgmo.recompute.kept.unfit import UnfitError
from pgmo.version import __version__

_SITES = tuple(
    os.path.join(os.path.realpath(sysconfig.get_path(name)), "") for name in ("purelib", "platlib")
)


def key(model: nn.Module, call: object, settings: Iterable[object]) -> str:
    """The name of a kind of call of a model under settings, in any process.

    Args:
        model: the module.
        call: positional and keyword arguments.
        settings: of the plan.

    Raises:
        UnfitError: an argument has no words that say all of it.
    """
    parts: list[Any] = [_machine(), [repr(one) for one in settings], _call(call), _model(model)]
    parts += [repr(modes()), getattr(sys.modules.get("__main__"), "__file__", None)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:40]


@functools.cache
def _own_code() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _machine() -> list[Any]:
    devices = [
        [one.name, one.major, one.minor, one.total_memory]
        for one in map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    ]
    return [
        *(__version__, _own_code(), torch.__version__, torch.version.git_version, sys.version),
        *(platform.machine(), torch.backends.cpu.get_cpu_capability(), torch.get_num_threads()),
        devices,
    ]


def _call(call: object) -> list[Any]:
    leaves, spec = flatten(call)
    looks = []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            looks.append([*_tensor(leaf), leaf.requires_grad])
        else:
            shown = look(leaf)
            if shown[0] == "object":
                raise UnfitError(f"an argument is a {shown[2]}")
            looks.append(shown)
    return [str(spec), looks, list(places(leaves).values())]


def _model(model: nn.Module) -> list[Any]:
    numbers: dict[int, int] = {}
    found = []
    for path, one in model.named_modules():
        options = [repr(each) for each in vars(one).values() if isinstance(each, OPTIONS)]
        found.append(
            [
                *(path, type(one).__module__, type(one).__qualname__, one.training),
                options if is_of_torch(type(one)) else [],
                look(vars(one).get("forward")),
            ]
        )
        for names in (one._parameters, one._buffers):
            for name, tensor in names.items():
                if tensor is not None:
                    number = numbers.setdefault(id(tensor), len(numbers))
                    found.append([name, number, *_tensor(tensor), tensor.requires_grad])
    return found


def _tensor(one: Tensor) -> list[Any]:
    shape = [list(one.shape), list(one.stride()), str(one.dtype), str(one.device)]
    return [type(one).__name__, *shape]


def files(model: nn.Module, codes: Iterable[Any]) -> dict[str, Any]:
    """The files whose code may have run, with what tells whether they are the same.

    Of a program, all that it has imported, by contents; of installed packages with code that ran,
    all that was imported of them, by size and time.

    Raises:
        UnfitError: some code is in no file.
    """
    ran = {code.co_filename for code in codes}
    for kind in {base for one in model.modules() for base in type(one).__mro__}:
        home = sys.modules.get(kind.__module__)
        ran.add(getattr(home, "__file__", None) or "")
        if kind.__module__ == "__main__" and not getattr(home, "__file__", None):
            raise UnfitError(f"{kind.__qualname__} is defined in no file")
    ran = {one for one in ran if one and is_scanned(one)}
    missing = sorted(one for one in ran if not os.path.isfile(one))
    if missing:
        raise UnfitError(f"code that ran is in no file: {missing[0]}")
    imported = {
        path for one in list(sys.modules.values()) if (path := getattr(one, "__file__", None))
    }
    packages = {package for one in ran if (package := _package(one))}
    return {
        path: _same(path)
        for path in sorted(ran | imported)
        if is_scanned(path)
        and is_foreign(path)
        and os.path.isfile(path)
        and (_package(path) is None or _package(path) in packages)
    }


def check_files(known: dict[str, Any]) -> None:
    """Looks whether files are as they were.

    Raises:
        UnfitError: one of them is not.
    """
    for path, same in known.items():
        try:
            if _same(path, isinstance(same, str)) == same:
                continue
        except OSError as error:
            raise UnfitError(f"{path} cannot be read") from error
        raise UnfitError(f"{path} has changed")


def _package(path: str) -> str | None:
    """The folder of an installed package that a file lies in; None of what is not installed."""
    for real in (path, os.path.realpath(path)):
        for site in _sites():
            if real.startswith(site):
                return site + real[len(site) :].partition(os.sep)[0]
    return None


@functools.cache
def _sites() -> tuple[str, ...]:
    plain = (os.path.join(sysconfig.get_path(name), "") for name in ("purelib", "platlib"))
    return tuple(dict.fromkeys((*plain, *_SITES)))


def _same(path: str, contents: bool | None = None) -> Any:
    if _package(path) is None if contents is None else contents:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]
