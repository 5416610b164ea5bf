"""Names that were removed; they fail with what to use instead, for one version."""

from typing import NoReturn

from pgmo.errors import RehearsalError

_REMOVED = ("Estimate", "estimate", "estimate_script")


def __getattr__(name: str) -> NoReturn:
    if name not in _REMOVED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    raise RehearsalError(
        "estimates without a CUDA build of torch were removed: use pgmo.fit() with the environment "
        "that `pgmo fit --environment .venv-cuda` makes"
    )
