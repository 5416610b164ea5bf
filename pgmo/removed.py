"""What earlier versions had, and what to use instead: said for one version, by the error."""

OPTIONS = {
    "profile": "plan it: plan=pgmo.plan(profile)",
    "opening": "it is a part of the plan: plan=pgmo.plan(profile, opening=opening)",
    "solver": "plan the saved profile by `pgmo plan --solver`, and begin with that plan",
    "effort": "plan the saved profile by `pgmo plan --effort best`, and begin with that plan",
    "max_record_iterations": "a session finds out itself how many iterations to record",
    "min_hit_rate": "a session finds out itself when a program departs from its plan",
    "patience": "a session finds out itself when to record again",
    "max_plans": "a session keeps 48 structures of iterations",
    "memory": "open the session inside of `with pgmo.managed():`",
    "profile_iterations": "a session finds out itself how many iterations to record",
}
"""Options of `pgmo.optimize` and of what opens a session."""

COMMANDS = {"blocks": "pgmo stats --blocks", "cache": "pgmo doctor --clear"}
"""Commands, and what does the same."""

NAMES = {
    "AdapterError": "pgmo.errors",
    "Extrapolation": "pgmo.profiler.extrapolation.learned",
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
"""Names of the package, and the module that has each now."""

ESTIMATES = "pgmo.fit() rehearses, where `pgmo fit --environment DIR` has made an environment"
"""What takes the place of `pgmo.fit.estimate`."""


def instead_of(option: str) -> str:
    """What an error adds about an option that is not there; "" if it never was.

    Example:
        >>> instead_of("patience")
        '; it is gone: a session finds out itself when to record again'
    """
    return f"; it is gone: {OPTIONS[option]}" if option in OPTIONS else ""


def moved_from(name: str) -> str:
    """What an error adds about a name of the package that has moved; "" if it never was there.

    Example:
        >>> moved_from("OptionError")
        '; it is in pgmo.errors'
    """
    return f"; it is in {NAMES[name]}" if name in NAMES else ""
