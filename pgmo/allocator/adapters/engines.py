"""Engines of PyTorch's allocators, which serve the same ones as long as the process lives."""

from pgmo import _core
from pgmo.errors import AdapterError

_THIS_IMPORT = object()


def new_engine() -> _core.Engine:
    """Return an engine that its blocks may outlive.

    Raises:
        AdapterError: when pgmo has lost its modules and was imported again, for the allocators in
            the process keep the engines of the first import.

    Example:
        >>> new_engine().busy
        False
    """
    if vars(_core).setdefault("_first_import", _THIS_IMPORT) is not _THIS_IMPORT:
        raise AdapterError(
            "pgmo was imported a second time after its modules were removed from sys.modules: "
            "restart the program to use pgmo again"
        )
    engine = _core.Engine()
    # Tensors may outlive every Python object here, and their blocks are the engine's.
    engine.keep_forever()
    return engine
