"""Scripts for the completion of `pgmo` in shells, by shtab, which reads them from the parsers."""

from pgmo.cli.parser import build_parser, parsers_of
from pgmo.errors import OptionError, PgmoError

_FILES = {"FILE", "PLAN", "PROFILE", "SNAPSHOT", "SCRIPT"}
_FOLDERS = {"DIR"}


def completion_script(shell: str) -> str:
    """What a shell has to read to complete `pgmo`'s commands, options and files.

    Raises:
        PgmoError: when shtab is not installed.
        OptionError: when it does not know the shell.
    """
    try:
        import shtab
    except ImportError as error:
        raise PgmoError(
            "completion scripts are made by shtab, which is not installed: pip install shtab"
        ) from error
    if shell not in shtab.SUPPORTED_SHELLS:
        raise OptionError(
            f"shtab {shtab.__version__} makes no completion script for {shell!r}; choose one of "
            f"{', '.join(shtab.SUPPORTED_SHELLS)}"
        )
    parser = build_parser(fill=True)
    for command in parsers_of(parser).values():
        for action in command._actions:
            if not {action.metavar, action.dest.upper()}.isdisjoint(_FILES):
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.metavar in _FOLDERS:
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)
