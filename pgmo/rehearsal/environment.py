"""Environment variables that configure the child process and the stub."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import pgmo
from pgmo.cards import Card
from pgmo.rehearsal.contexts import measured_contexts

Way = Literal["default", "expandable", "pgmo"]
"""The allocator that serves a script: PyTorch's default, expandable segments, or pgmo."""

WAYS: tuple[Way, ...] = ("default", "expandable", "pgmo")

COPIED = 4 << 20
"""Maximum bytes of a copy or memset that the stub executes. Larger copies and memsets are skipped,
so that the host pages of large tensors stay untouched and take no memory."""

PACKAGES = ("site-packages", "dist-packages")
"""Names of the folders of installed packages."""

SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Variables with the settings of PyTorch's allocator, the newer name first."""


def of_card(card: Card, devices: int) -> dict[str, str]:
    """Return the stub's variables for `devices` cards of this kind."""
    major, minor = card.capability
    return {
        "FAKECUDA_NAME": card.name,
        "FAKECUDA_BYTES": str(card.usable),
        "FAKECUDA_CAPABILITY": f"{major}.{minor}",
        "FAKECUDA_MULTIPROCESSORS": str(card.multiprocessors),
        "FAKECUDA_CONTEXT": str(context_bytes(card)),
        "FAKECUDA_DEVICES": str(devices),
        "FAKECUDA_COPY_LIMIT": str(COPIED),
    }


def context_bytes(card: Card) -> int:
    """Return the bytes of a context with its libraries.

    `pgmo doctor` may have measured the size on this machine. Otherwise the size is estimated from
    the number of multiprocessors, which gives 685 MiB for an H200. The driver of an H200 reported
    678 MiB with kernels of PyTorch and cuBLAS, and up to 696 MiB with cuDNN (CUDA 13.0, driver 580;
    bench/gpu/rehearsals.py). How the size grows with the card is a guess.
    """
    estimate = (256 << 20) + card.multiprocessors * (13 << 18)
    return measured_contexts().get(card.name, estimate)


def of_rank(rank: int, world: int, devices: int) -> dict[str, str]:
    """Return the variables that torchrun sets for a process; none for a single process."""
    if world == 1:
        return {}
    local = min(world, devices)
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_RANK": str(rank % local),
        "LOCAL_WORLD_SIZE": str(local),
        "GROUP_RANK": str(rank // local),
        "GROUP_WORLD_SIZE": str(-(-world // local)),
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "rehearsal",
    }


def of_stub(library: Path) -> dict[str, str]:
    """Return the variables that preload the stub."""
    another = os.environ.get("PGMO_FAKECUDA")  # set if this process runs on a stub, too
    others = [one for one in os.environ.get("LD_PRELOAD", "").split() if one != another]
    preloaded = " ".join([str(library), *others])
    return {"LD_PRELOAD": preloaded, "PGMO_FAKECUDA": str(library)}


def of_compilers(folder: Path, library: Path) -> dict[str, str]:
    """Return the variables that let Triton compile for the stub, with separate compiler caches.

    Each rehearsal compiles again, for two reasons. Real runs must not reuse choices based on the
    times of kernels that compute nothing. And trying kernels takes memory in the first iteration,
    which would be missing with a warm cache.
    """
    driver = folder / "driver"
    driver.mkdir(exist_ok=True)
    name = driver / "libcuda.so.1"
    if not name.is_symlink():
        name.symlink_to(library)
    return {
        "TRITON_LIBCUDA_PATH": str(driver),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
    }


def of_python(folder: Path, torch: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which the child finds pgmo; none if pgmo is installed next to `torch`.

    If pgmo is installed elsewhere, another build of torch may be next to pgmo. So the variable
    names a folder that has only a link to pgmo. A checkout of pgmo is named directly.
    """
    package = Path(pgmo.__file__).resolve().parent
    root = package.parent
    if root.name in PACKAGES:
        if root in torch.parents:
            return {}
        root = folder / "packages"
        root.mkdir(exist_ok=True)
        if not (root / package.name).is_symlink():
            (root / package.name).symlink_to(package)
    paths = [str(root), environment.get("PYTHONPATH", "")]
    return {"PYTHONPATH": os.pathsep.join(filter(None, paths))}


def of_way(way: Way, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variable of PyTorch's allocator settings, with expandable segments added.

    Return {} for ways other than "expandable".
    """
    if way != "expandable":
        return {}
    name = next((one for one in SETTINGS if one in environment), SETTINGS[1])
    settings = [environment.get(name, ""), "expandable_segments:True"]
    return {name: ",".join(filter(None, settings))}
