"""`pgmo.optimize`, the only call that most programs need."""

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
from pgmo.removed import check_options

P = ParamSpec("P")
R = TypeVar("R")


class CommonFields(TypedDict, total=False):
    """Options of `optimize` for type checkers; `Options` has the defaults."""

    save: str | os.PathLike[str] | None
    device: object
    model_name: str
    tags: bool | None
    record_only: bool
    budget: str | int | None
    pages: bool | None
    limit: str | int | None


class OptionFields(CommonFields, total=False):
    """All options of a session, for type checkers."""

    plan: Plan | str | os.PathLike[str] | None
    framework: str


def _find_adapter(chosen: Options) -> Adapter:
    """Return the adapter of a device; inside `pgmo.managed()`, one for unified memory."""
    adapter = adapter_of(chosen.device, chosen.framework)
    of_torch = cuda_adapter(adapter)
    if of_torch is None:
        return adapter
    from pgmo.allocator.managed.context import in_use

    managed = in_use(of_torch.device)
    if managed is None:
        return adapter
    if chosen.pages or chosen.limit is not None:
        raise OptionError(
            "inside pgmo.managed() there are no pages of the device: leave pages= and limit= out"
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
    """Make a session that records iterations of a loop, and serves later iterations from a plan.

    A session is a context manager, and a decorator that makes each call of a function an iteration.
    The first session with each version of PyTorch may need a C++ compiler. CuPy needs no compiler.

    Args:
        function: the decorated function, if `@pgmo.optimize` is used without parentheses.
        plan: a plan, or the path of a plan, to begin with instead of a recording. A plan that
            includes the program's first iteration serves from the first request. These plans come
            from sessions that recorded the first iteration, and from `pgmo.plan(profile,
            opening=...)`. Any other plan serves after one iteration has followed that plan. If no
            iteration follows the plan, the session makes a new plan. The path may also be a
            directory that `save` has written. The session then uses the plan that this rank saved,
            or otherwise the plan of the directory that fits an iteration best.
        save: directory for the profile and the plan (`<model_name>.pgmoprof`, `.pgmoplan`). If
            iterations alternate between several structures, further files get a number. All ranks
            of a job use one directory, in which equal plans share one file
            (`<model_name>-<digest>.pgmoplan`).
        framework: framework whose memory is served: "torch" (default) or "cupy".
        device: device whose memory is served: "cpu", "cuda", "cuda:1", or a `torch.device`. By
            default the current CUDA device if there is one, else the CPU. Sessions of different
            devices may be open at the same time.
        model_name: name of the model in file names and reports.
        tags: record which module, operator and phase requested each block, for reports and
            out-of-memory errors. The first recorded iteration takes about three times as much
            CPU time. Default: only with `save` or `record_only`.
        record_only: record a profile, but plan and serve nothing (default: False).
        budget: device memory for an iteration's requests, such as "12 GiB". If the requests need
            more, the blocks with the longest lifetimes are placed in unified memory that stays on
            the host; see `pgmo.plan`. Memory allocated before the session, such as parameters, does
            not count.
        pages: map pages of the device to addresses as needed, so that idle pages can serve other
            addresses (default: if the device has virtual memory). With False, each arena is one
            block of the framework, which suits programs that repeat exactly. If PyTorch uses the
            driver's pool (`backend:cudaMallocAsync`), pgmo serves nothing unless `pages=False`.
        limit: maximum bytes of pages on the card, such as "12 GiB". Out-of-memory errors name this
            limit. A session without pages warns that it has no limit.

    Returns:
        The session; with `function`, the decorated function.

    Raises:
        OptionError: if an option is invalid. Opening the session raises `AdapterError` if torch or
            a needed compiler is missing, `FileError` or `PlanError` for a bad `plan` or `save`, and
            `SessionError` if a session is open on the device and cannot share it.

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
    check_options(options, [*OptionFields.__annotations__], "pgmo.optimize()")
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
