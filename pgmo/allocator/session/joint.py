"""Sessions of several frameworks as one: iterations begin and end together.

    with pgmo.optimize(framework=("torch", "cupy")) as session:
        for batch in loader:
            with session.iteration():              ends the iteration of both
                ...
    session["torch"].plan, session["cupy"].plan    a plan and an arena each

The frameworks' allocators know nothing of each other, and neither do the sessions. Where CuPy
allocates through PyTorch, there is one allocator and one session: cupy_through_torch.py.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

from pgmo.allocator.adapters.adapter import Adapter
from pgmo.allocator.adapters.cupy_through_torch import allocates_through_torch
from pgmo.allocator.adapters.frameworks import FRAMEWORKS
from pgmo.allocator.session.optimized import Optimized
from pgmo.allocator.session.options import Options
from pgmo.allocator.session.session import Session
from pgmo.allocator.session.statistics import Phase
from pgmo.allocator.session.threads.boundary import exclusive
from pgmo.allocator.session.verdict.notebook import summary_html
from pgmo.allocator.session.verdict.summary import Summary
from pgmo.errors import OptionError, SessionError
from pgmo.profiler.tagging.cupy_module import imported_cupy

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class JointSummary:
    """Summary of several sessions. `str` gives the text that people read.

    Args:
        parts: the summary of each, by the framework's name.

    Example:
        >>> print(JointSummary({"cupy": Summary(iterations=0, recorded=0, replayed=0)}))
        pgmo, cupy: no iteration was seen; call session.step() at the end of each.
    """

    parts: Mapping[str, Summary]

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        shown = (summary_html(str(one), title=f"pgmo, {name}") for name, one in self.parts.items())
        return "".join(shown)

    def __str__(self) -> str:
        texts = (str(one).replace("pgmo:", f"pgmo, {name}:", 1) for name, one in self.parts.items())
        return "\n".join(texts)


class JointSession:
    """A session of each of several frameworks; made by `pgmo.optimize(framework=(...))`.

    `session["torch"]` is the session of one of them, with its plan, profile and statistics.

    Example:
        >>> with pgmo.optimize(framework=("torch", "cupy")) as session:  # doctest: +SKIP
        ...     for batch in loader:
        ...         with session.iteration():
        ...             train_step(batch)
        >>> session["cupy"].plan.arena  # doctest: +SKIP
        1048576
    """

    def __init__(self, sessions: Mapping[str, Session]) -> None:
        self._sessions = dict(sessions)

    def __getitem__(self, framework: str) -> Session:
        """The session of one framework.

        Raises:
            OptionError: there is none of that name.
        """
        if framework not in self._sessions:
            raise OptionError(
                f"no session of {framework!r} here, only of {' and '.join(self._sessions)}"
            )
        return self._sessions[framework]

    @property
    def frameworks(self) -> tuple[str, ...]:
        """Their names, in the order in which the sessions were opened."""
        return tuple(self._sessions)

    @contextmanager
    def iteration(self) -> Iterator[None]:
        """Marks one iteration of all. An exception ends it early; the sessions go on unharmed.

        Raises:
            SessionError: when the sessions are not open or paused, or inside another iteration.
        """
        with ExitStack() as stack:
            with exclusive():  # one thread begins all of them, or none
                for session in self._running():
                    stack.enter_context(session.iteration())
            yield

    def step(self) -> None:
        """Ends an iteration of all: call it once at the end of each, instead of `iteration()`.

        Raises:
            SessionError: when the sessions are not open, paused, or inside `iteration()`.
        """
        with exclusive():
            for session in self._running():
                session.step()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Delegates everything inside to the frameworks: evaluation, logging, checkpoints.

        Raises:
            SessionError: when the sessions are not open.
        """
        with ExitStack() as stack:
            for session in self._running():
                stack.enter_context(session.pause())
            yield

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("release", "resume", "stage"):
            raise AttributeError(
                f"{name}() is for the session of one framework: call session['torch'].{name}()"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def summary(self) -> JointSummary:
        """Return what has been done so far; printable."""
        return JointSummary({name: one.summary() for name, one in self._sessions.items()})

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return "".join(one._repr_html_() for one in self._sessions.values())

    def __enter__(self) -> Self:
        self._require_allocators_of_their_own()
        with ExitStack() as stack:
            for session in self._sessions.values():
                stack.enter_context(session)
            stack.pop_all()  # all are open: `close` closes them
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Returns to the frameworks' own allocators; tensors and arrays stay valid."""
        with ExitStack() as stack:
            for session in self._sessions.values():
                stack.callback(session.close)

    def __call__(self, function: Callable[P, R]) -> Optimized[P, R, Self]:
        """Makes every call of `function` an iteration; the sessions open at the first call."""
        return Optimized(self, function)

    def _require_allocators_of_their_own(self) -> None:
        if not {"torch", "cupy"} <= self._sessions.keys():
            return
        if allocates_through_torch(imported_cupy().cuda):
            raise SessionError(
                "CuPy allocates through PyTorch here (pgmo.cupy_torch_allocator), so that one "
                'session serves both: use framework="torch" alone'
            )

    def _running(self) -> list[Session]:
        """Return the open ones; all when none is, so that each says what is wrong."""
        sessions = list(self._sessions.values())
        return [one for one in sessions if one.phase is not Phase.CLOSED] or sessions


def joint_session(
    options: Mapping[str, Any], find: Callable[[Options], Callable[[], Adapter]]
) -> JointSession:
    """Makes it of the options of `pgmo.optimize`.

    Args:
        options: as given; `framework` is a sequence of names.
        find: the adapter for the options of one framework.

    Raises:
        OptionError: when an option cannot be used.

    Example:
        >>> names = {"framework": ("torch", "cupy")}
        >>> joint_session(names, lambda chosen: lambda: None).frameworks
        ('torch', 'cupy')
    """
    names = options["framework"]
    for name in names if isinstance(names, tuple | list) else ():
        if name not in FRAMEWORKS:
            raise OptionError(f"framework={name!r} is not one of {', '.join(FRAMEWORKS)}")
    if not isinstance(names, tuple | list) or not names or len(set(names)) != len(names):
        raise OptionError(
            f"framework={names!r} is neither one of {', '.join(FRAMEWORKS)} nor a tuple of "
            "different ones"
        )
    plans = options.get("plan")
    if plans is not None and (not isinstance(plans, Mapping) or plans.keys() - set(names)):
        raise OptionError(
            f"plan={plans!r}: with several frameworks it is a dictionary by their names, "
            f"as in {{{names[0]!r}: ...}}"
        )
    model = options.get("model_name") or ("pgmo" if options.get("save") else "")
    sessions = {}
    for name in names:
        own = {
            "plan": (plans or {}).get(name),
            "model_name": f"{model}-{name}" if model else "",  # files of their own
            "framework": name,
        }
        chosen = Options(**{**options, **own})
        sessions[name] = Session(chosen, find(chosen))
        sessions[name].shares_card = False  # their iterations begin together
    return JointSession(sessions)
