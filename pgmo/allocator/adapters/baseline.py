"""Memory that plain PyTorch would have reserved in this process, from a model of its allocator.

adapter ──every request and free──▶ csrc/baseline ──▶ Baseline: both peaks, and live bytes
"""

import ctypes
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgmo import _core
from pgmo.allocator.build.library import AdapterLibrary
from pgmo.errors import OptionError
from pgmo.profiler.caching.settings import INTERVALS, AllocatorSettings

_VARIABLES = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")


@dataclass(frozen=True)
class Baseline:
    """Bytes and counts of one device, including memory from before the model started.

    Args:
        reserved: `reserved_bytes.all.current` of plain PyTorch, modelled.
        peak_reserved: `reserved_bytes.all.peak` of plain PyTorch, modelled.
        live: bytes requested and not freed yet, counted.
        peak_live: the peak of `live`.
        taken: bytes of the pages and segments that the process holds, counted.
        peak_taken: the peak of `taken`.
        card: bytes of the whole card; 0 if unknown.
        requests: number of requests that the model has simulated.
        retries: number of times that plain PyTorch would have freed its cache, modelled.
        failures: number of requests that were served, although plain PyTorch would have lacked
            memory, modelled.
        broken: 1 if the model has stopped or missed requests, so that its figures are wrong.
        errors: number of out-of-memory errors that the program got.
        slept: whether pages of live blocks were ever unmapped, because state slept.
    """

    reserved: int
    peak_reserved: int
    live: int
    peak_live: int
    taken: int
    peak_taken: int
    card: int
    requests: int
    retries: int
    failures: int
    broken: int
    errors: int = 0
    slept: bool = False


_NAMES = tuple(name for name in Baseline.__dataclass_fields__ if name != "slept")


class _Settings(ctypes.Structure):
    """`pgmo_baseline_settings` of csrc/baseline/pgmo_baseline.h."""

    _fields_ = (
        ("expandable_segments", ctypes.c_int64),
        ("roundup_power2_divisions", ctypes.c_int64 * INTERVALS),
        ("max_split_size", ctypes.c_int64),
        ("max_non_split_rounding", ctypes.c_int64),
        ("large_segment_size", ctypes.c_int64),
        ("garbage_collection_threshold", ctypes.c_double),
    )


class _Figures(ctypes.Structure):
    """`pgmo_baseline_figures`: the fields of `Baseline`, in their order."""

    _fields_ = tuple((name, ctypes.c_int64) for name in _NAMES)


def environment_settings(environment: Mapping[str, str] = os.environ) -> AllocatorSettings | None:
    """Return PyTorch's allocator settings from `environment`; None if invalid or not modelled."""
    text = ",".join(filter(None, (environment.get(name) for name in _VARIABLES)))
    try:
        return AllocatorSettings.from_text(text)
    except (OptionError, ValueError):
        return None


def observe(library: AdapterLibrary) -> None:
    """Make the adapter report all requests to the model, if the model supports the settings."""
    settings = environment_settings()
    if settings is None:
        return
    native: Any = _Settings(
        expandable_segments=settings.expandable_segments,
        roundup_power2_divisions=(ctypes.c_int64 * INTERVALS)(*settings.divisions),
        max_split_size=settings.max_split_size or 0,
        max_non_split_rounding=settings.max_non_split_rounding or settings.large_segment_size,
        large_segment_size=settings.large_segment_size,
        garbage_collection_threshold=settings.garbage_collection_threshold,
    )
    table = ctypes.c_void_p(_core.baseline_api())
    library.call("pgmo_know_baseline", table, ctypes.byref(native))


def baseline_of(library: AdapterLibrary, device: int) -> Baseline | None:
    """Return a device's figures; None if PyTorch's allocator or settings are not modelled."""
    figures = _Figures()
    if not library.ask("pgmo_baseline_of", device, ctypes.byref(figures)):
        return None
    return Baseline(**{name: getattr(figures, name) for name in _NAMES})
