"""Hints for what was removed: for one version, errors say what to use instead."""

OPTIONS = {
    "profile": "begin with its plan, plan=pgmo.plan(profile)",
    "opening": "plan it with the profile, plan=pgmo.plan(profile, opening=opening)",
    "solver": "plan with any solver, plan=pgmo.plan(session.profile, opening=session.opening)",
    "effort": "plan with any effort, plan=pgmo.plan(session.profile, opening=session.opening)",
    "max_record_iterations": "pgmo chooses the number of recorded iterations",
    "min_hit_rate": "pgmo decides when a program has departed from its plan",
    "patience": "pgmo decides when to record again",
    "max_plans": "pgmo keeps the plans that were followed last",
    "memory": "open the session inside of `with pgmo.managed():`",
    "profile_iterations": "pgmo chooses the number of recorded iterations",
}
"""Options of `pgmo.optimize`, `pgmo.wrap` and the callbacks."""

COMMANDS = {
    "blocks": "use `pgmo stats --blocks`",
    "cache": "`pgmo doctor` shows the folder, and `pgmo doctor --clear` empties it",
}
"""Commands of `pgmo`."""

FORMATS = {
    "minimalloc": "`--to csv` writes the lifetime and the size of each block",
    "speedscope": "`pgmo report` shows the peak by module and by stack",
}
"""Formats of `pgmo export`."""

COMMAND_OPTIONS = {
    ("report", "--against"): "`pgmo compare BASE NEW` prints what has changed",
    ("check", "--junit"): "`--json` prints the same figures, and `--markdown` writes a table",
}
"""Options of commands of `pgmo`."""

NAMES = {
    "AdapterError": "pgmo.errors",
    "FileError": "pgmo.errors",
    "GraphError": "pgmo.errors",
    "JointSession": "pgmo.allocator.session.joint",
    "OptionError": "pgmo.errors",
    "Packing": "pgmo.packing.solving.result",
    "PlanError": "pgmo.errors",
    "Problem": "pgmo.packing.problem",
    "ProblemError": "pgmo.errors",
    "ProfileError": "pgmo.errors",
    "SessionError": "pgmo.errors",
}
"""Names that the package itself had, and the module of each."""

_NO_EXTRAPOLATION = (
    "pgmo.fit() finds the largest batch of a card, and `pgmo rehearse` runs a batch without a GPU"
)

GONE = {"extrapolate": _NO_EXTRAPOLATION, "Extrapolation": _NO_EXTRAPOLATION}
"""Names that the package itself had, and what to use instead."""

ESTIMATES = "call pgmo.fit(); it needs a CUDA build of torch: `pgmo fit --environment DIR`"
"""Hint for `pgmo.fit.estimate`."""


def instead_of(option: str) -> str:
    """Return what an error adds about an option; "" if it never was one.

    Example:
        >>> instead_of("patience")
        '; it was removed: pgmo decides when to record again'
    """
    return f"; it was removed: {OPTIONS[option]}" if option in OPTIONS else ""
