"""Options of pgmo that follow the name of the script."""

import argparse
from collections.abc import Callable

from pgmo.cli.forgiving import with_templates


def take_options(
    arguments: argparse.Namespace, add_options: Callable[[argparse.ArgumentParser], None]
) -> None:
    """Move options from the script's arguments to the command's, up to `--`, which is removed.

    Users often write the script first. Only options that hardly any script has are recognised after
    it; the script's own options of these names must follow `--`.

    Args:
        arguments: parsed arguments: `command`, `arguments` (the script's) and the command's
            options; changed in place.
        add_options: adds the allowed options to a parser, without defaults.

    Example:
        >>> given = argparse.Namespace(command="fit", card=None, arguments=["--card", "L4", "--lr"])
        >>> take_options(given, lambda parser: parser.add_argument("--card"))
        >>> given.card, given.arguments
        ('L4', ['--lr'])
    """
    words: list[str] = arguments.arguments
    end = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(
        f"pgmo {arguments.command}",
        add_help=False,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )
    add_options(parser)
    own, script = parser.parse_known_args(with_templates(words[:end]))
    vars(arguments).update(vars(own))
    arguments.arguments = script + words[end + 1 :]
