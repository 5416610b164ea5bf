"""What may be written to a terminal."""

import os


def plain() -> bool:
    """Whether no escape sequences are wanted: neither colours, nor bold type, nor moving lines.

    So it is with `NO_COLOR` (https://no-color.org), which `pgmo --no-color` sets, and on terminals
    that know none.

    Example:
        >>> os.environ["NO_COLOR"] = "1"  # doctest: +SKIP
        >>> plain()  # doctest: +SKIP
        True
    """
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") in ("dumb", "unknown")
