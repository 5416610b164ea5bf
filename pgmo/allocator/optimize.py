"""`pgmo.optimize`: the one call that most programs need."""

import os

from pgmo.allocator.options import Options
from pgmo.allocator.session import Session
from pgmo.allocator.torch_cpu import torch_cpu
from pgmo.packing.plan import Plan


def optimize(
    *,
    plan: Plan | str | os.PathLike[str] | None = None,
    save: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    model_name: str = "",
    solver: str = "auto",
    tags: bool = True,
    max_record_iterations: int = 5,
    min_hit_rate: float = 0.9,
    patience: int = 2,
    max_plans: int = 4,
) -> Session:
    """Serves a loop's memory from one arena, after watching a few of its iterations.

    The result is a context manager, and a decorator that makes each call of a function an
    iteration. It needs PyTorch, and a C++ compiler the first time that it runs with some version
    of it.

    Args:
        plan: a saved plan, or its path, to begin with instead of recording. It serves at once,
            and is replaced by a new one if the first iterations do not follow it.
        save: directory for the profile and the plan (`<model_name>.pgmoprof`, `.pgmoplan`).
        device: whose tensors; "cpu".
        model_name: used in file names and reports.
        solver: how to plan; see `pgmo.plan`.
        tags: note which module, operator and phase asked for each block. It slows down one
            recorded iteration.
        max_record_iterations: iterations after which a plan is made from what was seen, even if no
            two of them agree.
        min_hit_rate: share of requests, below which an iteration counts as diverged.
        patience: diverged iterations in a row, after which the program is recorded again.
        max_plans: structures of iterations that are kept at a time.

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
    options = Options(
        plan=plan,
        save=save,
        device=device,
        model_name=model_name,
        solver=solver,
        tags=tags,
        max_record_iterations=max_record_iterations,
        min_hit_rate=min_hit_rate,
        patience=patience,
        max_plans=max_plans,
    )
    return Session(options, torch_cpu)
