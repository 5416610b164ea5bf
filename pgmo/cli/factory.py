"""Call of a user's function (MODULE:FACTORY) that returns a model and its example inputs."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pgmo.errors import AdapterError, FileError, PgmoError

if TYPE_CHECKING:
    from torch import nn

_HOW = "give MODULE:FACTORY or FILE.py:FACTORY, such as train.py:make_model"


def call_factory(text: str) -> "tuple[nn.Module, Any]":
    """Import the module or file, and return the model and the inputs that its function returns.

    Modules are also searched in the current folder. Imports in a file are searched in its folder.

    Args:
        text: "package.module:function" or "folder/file.py:function".

    Raises:
        FileError: if there is no such module, file or function.
        AdapterError: if PyTorch is not installed.
        PgmoError: if the module or the function fails, or the function returns something other than
            a model and its inputs.
    """
    where, _, name = text.rpartition(":")
    if not where or not name:
        raise FileError(f"{text!r} names no function; {_HOW}")
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # before torch: hides its profiler's messages
    if importlib.util.find_spec("torch") is None:
        raise AdapterError(
            "PyTorch is not installed, and recomputation needs it: pip install torch"
        )
    factory: Callable[[], Any] = _find(_import(where), where, name)
    try:
        made = factory()
    except (Exception, SystemExit) as error:
        raise PgmoError(f"{text} raised {_describe(error)}") from error
    from torch import nn

    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], nn.Module)):
        raise PgmoError(
            f"{text} returned {_kind(made)}; it must return a tuple of a torch.nn.Module and its "
            "example inputs: a tuple of arguments, a dictionary, or one tensor"
        )
    return made


def _import(where: str) -> ModuleType:
    if not where.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        try:
            return importlib.import_module(where)
        except ModuleNotFoundError as error:
            if error.name is not None and (where + ".").startswith(error.name + "."):
                raise FileError(f"there is no module {where!r}; {_HOW}") from error
            raise PgmoError(f"{where} could not be imported: {error}") from error
        except (Exception, SystemExit) as error:
            raise PgmoError(f"{where} could not be imported: {_describe(error)}") from error
    path = Path(where)
    if not path.is_file():
        raise FileError(f"there is no file {where}; {_HOW}")
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise PgmoError(f"{where} could not be run: {_describe(error)}") from error
    return module


def _find(module: ModuleType, where: str, name: str) -> Callable[[], Any]:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise FileError(f"{where} has no function {name!r}; {_HOW}")
    return found  # type: ignore[no-any-return]


def _describe(error: BaseException) -> str:
    """Return the error and the line that raised it, in words."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = ""
    if trace is not None:
        where = f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
    return f"{type(error).__name__}: {error}{where}"


def _kind(made: object) -> str:
    if isinstance(made, tuple):
        return f"a tuple of {', '.join(type(one).__name__ for one in made) or 'nothing'}"
    return f"a {type(made).__name__}"
