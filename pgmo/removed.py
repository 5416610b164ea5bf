"""Hints for removed names, options, commands and formats, which errors show for one version."""

from collections.abc import Iterable

from pgmo.errors import OptionError

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
"""Removed options of `pgmo.optimize`, `pgmo.wrap` and the callbacks, with hints."""

RECOMPUTE = {
    "check": "pass measure=False, which measures neither operators nor a step",
    "costs": "leave it out: operator times are computed from flops and bytes",
    "counts": "subtract plan.resident from the budget, or pass card= instead",
    "forget": "put torch.utils.checkpoint around the region",
    "segments": "put torch.utils.checkpoint around blocks of the model",
    "keep": "leave it out: each process captures its model, which takes a few seconds",
}
"""Removed options and names of `pgmo.recompute`, with hints."""

COMMANDS = {
    "blocks": "use `pgmo stats --blocks`",
    "demo": "run `python examples/resnet.py` of the repository",
    "import": "commands read recordings themselves; `pgmo export --to profile` keeps a profile",
    "leaks": "use `pgmo stats --leaks`",
    "top": "`pgmo run` shows the state of a script, `pgmo share --status` that of a shared card",
    "cache": "`pgmo doctor` shows the folder, and `pgmo doctor --clear` empties it",
}
"""Removed commands of `pgmo`, with hints."""

FORMATS = {
    "json": "`--to csv` writes the blocks, and `pgmo stats --json` prints all findings",
    "minimalloc": "`--to csv` writes the lifetime and the size of each block",
    "speedscope": "`pgmo report` shows the peak by module and by stack",
}
"""Removed formats of `pgmo export`, with hints."""

COMMAND_OPTIONS = {
    ("check", "--junit"): "`--json` prints the same figures, and `--markdown` writes a table",
    ("check", "--max-memory"): "`--json` prints the arena, and `--against` names what has grown",
    ("doctor", "--build"): "`--fix` compiles adapters, too",
    ("export", "--alignment"): "the format minimalloc, which had it, was removed",
    ("export", "--stream"): "the format minimalloc, which had it, was removed",
    ("fit", "--timeout"): "call `pgmo.fit(command, timeout=...)`",
    ("fit", "--unproved"): "call `pgmo.fit(command, prove=False)`",
    ("recompute", "--costs"): "leave it out: operator times are computed from flops and bytes",
    ("recompute", "--counts"): "subtract the resident bytes from --budget",
    ("recompute", "--picture"): 'call `plan.curve().plot("curve.png")`',
    ("recompute", "--planner"): "leave it out: the search begins with the best of all planners",
    ("rehearse", "--devices"): "call `pgmo.rehearsal.launch.rehearse(command, devices=...)`",
    ("rehearse", "--snapshot"): "`--save` a profile; `pgmo export --to memory-viz` converts it",
    ("rehearse", "--timeout"): "call `pgmo.rehearsal.launch.rehearse(command, timeout=...)`",
    ("report", "--against"): "`pgmo compare BASE NEW` prints what has changed",
    ("run", "--no-pages"): "set PGMO_PAGES=0 in the environment",
    ("share", "--check"): "read the file of `--log` with jq; each line is a JSON object",
    ("stats", "--memory"): "`--leaks` prints the bytes that each iteration leaves allocated",
}
"""Removed options of commands, by command and option, with hints."""

MAIN_OPTIONS = {
    "--print-completion": "`pgmo --help` lists the commands, `pgmo COMMAND --help` its options",
}
"""Removed options of `pgmo` itself, with hints."""

TABLES = "name a .pgmoplan file; `pgmo export --to csv` converts it to a table"
"""Hint for `pgmo plan --output FILE.csv`, which is no longer supported."""

NAMES = {
    "AdapterError": "pgmo.errors",
    "FileError": "pgmo.errors",
    "GraphError": "pgmo.errors",
    "OptionError": "pgmo.errors",
    "Packing": "pgmo.packing.solving.result",
    "PlanError": "pgmo.errors",
    "Problem": "pgmo.packing.problem",
    "ProblemError": "pgmo.errors",
    "ProfileError": "pgmo.errors",
    "SessionError": "pgmo.errors",
}
"""Names that are no longer in `pgmo` itself, and the module of each."""

SOLVERS = ("first-fit-size", "first-fit-lifetime")
"""Removed solvers of `pgmo.plan`; "auto" is at least as good on every recorded trace."""

FRAMEWORKS = (
    "sessions of several frameworks at once were removed: open one of each, "
    'pgmo.optimize() and pgmo.optimize(framework="cupy"), and mark iterations of both'
)
"""Hint for a tuple as `framework` of `pgmo.optimize`, and for the removed `JointSession`."""

_NO_EXTRAPOLATION = (
    "pgmo.fit() finds the largest batch of a card, and `pgmo rehearse` runs a batch without a GPU"
)

GONE = {
    "Extrapolation": _NO_EXTRAPOLATION,
    "JointSession": FRAMEWORKS,
    "extrapolate": _NO_EXTRAPOLATION,
    "load_ipython_extension": "put `with pgmo.optimize() as session:` around the loop of the cell",
}
"""Removed names of `pgmo`, with hints."""

ESTIMATES = "call pgmo.fit(); `pgmo fit --environment DIR` makes the CUDA build of torch it needs"
"""Hint for the removed `pgmo.fit.estimate`."""


def check_options(given: Iterable[str], known: list[str], owner: str) -> None:
    """Raise `OptionError` for an option that `owner` lacks, with a hint if it was removed."""
    for option in sorted(set(given).difference(known)):
        hint = f"; it was removed: {OPTIONS[option]}" if option in OPTIONS else ""
        raise OptionError(f"there is no option {option!r}{hint}; {owner} has {', '.join(known)}")
