"""`pgmo.optimize`: the one call that most programs need."""

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypedDict, TypeVar, Unpack, overload

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.find import adapter_of, cuda_adapter
from pgmo.allocator.session.optimized import Optimized
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import Session
from pgmo.errors import OptionError
from pgmo.packing.plan import Plan
from pgmo.removed import instead_of

P = ParamSpec("P")
R = TypeVar("R")


class CommonFields(TypedDict, total=False):
    """The options of `optimize`, for type checkers; `Options` has the defaults."""

    save: str | os.PathLike[str] | None
    device: object
    model_name: str
    tags: bool
    record_only: bool
    budget: str | int | None
    pages: bool | None
    limit: str | int | None


class OptionFields(CommonFields, total=False):
    """All options of a session."""

    plan: Plan | str | os.PathLike[str] | None
    framework: str


def _find_adapter(chosen: Options) -> Adapter:
    """Finds the adapter of a device, over unified memory if the program uses that there.

    Raises:
        OptionError: for an option that unified memory has not.
    """
    adapter = adapter_of(chosen.device, chosen.framework)()
    of_torch = cuda_adapter(adapter)
    if of_torch is None:
        return adapter
    from pgmo.allocator.managed.context import in_use

    managed = in_use(of_torch.device)
    if managed is None:
        return adapter
    if chosen.pages or chosen.limit is not None:
        raise OptionError(
            "inside of pgmo.managed() there are no pages of the device: leave pages= and limit= out"
        )
    from pgmo.allocator.managed.unified import UnifiedAdapter

    return UnifiedAdapter(of_torch, managed)


@overload
def optimize(function: Callable[P, R], /) -> Optimized[P, R, Session]: ...
@overload
def optimize(**options: Unpack[OptionFields]) -> Session: ...
def optimize(
    function: Callable[P, R] | None = None, /, **options: Unpack[OptionFields]
) -> Session | Optimized[P, R, Session]:
    """Serves a loop's memory from one arena, after watching a few of its iterations.

    The result is a context manager, and a decorator that makes each call of a function an
    iteration. It needs PyTorch, and a C++ compiler the first time that it runs with some version
    of it; or CuPy, and no compiler.

    Args:
        function: what `@pgmo.optimize` without parentheses stands before.
        plan: a plan, or its path, to begin with instead of recording. It serves from the first
            request on, if it has the program's first iteration: saved by a session that saw it, or
            made by `pgmo.plan(profile, opening=...)`;
            else as soon as one iteration has followed it. If none does, a new one is made. It may
            be the directory of `save`, too: then it is the plan that this rank saved there, or,
            without one, whichever plan an iteration has followed.
        save: directory for the profile and the plan (`<model_name>.pgmoprof`, `.pgmoplan`); those
            of further structures get a number. All ranks of a job name one directory, in which
            equal plans are one file (`<model_name>-<digest>.pgmoplan`).
        framework: whose memory: "torch" (default) or "cupy".
        device: whose tensors: "cpu", "cuda", "cuda:1", or a `torch.device`. By default the current
            CUDA device where there is one, else the CPU. Sessions of different devices may be open
            at the same time.
        model_name: used in file names and reports.
        tags: note which module, operator and phase asked for each block (default: True). It slows
            down one recorded iteration.
        record_only: stop at the profile: nothing is planned, and nothing served (default: False).
        budget: device memory for what an iteration requests, as "12 GiB": blocks of longest idle
            time are placed in an arena of unified memory that stays on the host, as far as that is
            necessary; see `pgmo.plan`. What was there before the session, as parameters, is not
            counted.
        pages: serve memory from pages of the device apart from addresses, so that what idles in one
            place serves another (default: where the device has virtual memory). False: the arena is
            one block of the framework's, which suits programs that repeat exactly. Where PyTorch
            uses the driver's pool (`backend:cudaMallocAsync`), nothing is served unless this is
            False.
        limit: of the card's memory in pages, as "12 GiB": no more is taken, and errors say so.

    Raises:
        OptionError: when an option cannot be used. Opening the session raises `AdapterError`
            without torch or a compiler, `FileError` and `PlanError` for a bad `plan`, and
            `SessionError` while another one is open.

    Example:
        >>> with pgmo.optimize() as session:  # doctest: +SKIP
        ...     for batch in loader:
        ...         train_step(batch)
        ...         session.step()
        >>> print(session.summary())  # doctest: +SKIP

    Source:
        Sekiyama et al., "Profile-guided memory optimization for deep neural networks" (2018),
        arXiv 1804.10001, sections 3 and 4.
    """
    unknown = options.keys() - OptionFields.__annotations__.keys()
    if unknown:
        first = min(unknown)
        raise OptionError(
            f"there is no option {first!r}{instead_of(first)}; pgmo.optimize() has "
            f"{', '.join(OptionFields.__annotations__)}"
        )
    chosen = Options(**options)
    session = Session(chosen, functools.partial(_find_adapter, chosen))
    if function is None:
        return session
    if not callable(function):
        raise OptionError(
            f"pgmo.optimize({function!r}): options go by name; to start from a saved plan write "
            f"pgmo.optimize(plan={function!r})"
        )
    return session(function)
