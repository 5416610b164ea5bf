"""Starts a broker if none listens."""

import os
import subprocess
import sys
import time
from pathlib import Path

from pgmo.errors import ShareError
from pgmo.share.handshake import connect

LINGER = 60.0
"""Seconds after which a broker without clients ends."""

_WITHIN = 10.0
"""Seconds within which a new broker must answer. Later, a `ShareError` is raised."""


def ensure_broker(address: Path) -> None:
    """Start a broker in a separate process, unless one listens; raise `ShareError` on failure.

    The new broker ends after `LINGER` seconds without clients.
    """
    if listens(address):
        return
    command = [sys.executable, "-m", "pgmo", "share", "--socket", str(address)]
    paths = os.pathsep.join(os.path.abspath(one) for one in sys.path if one)
    started = subprocess.Popen(
        [*command, "--linger", f"{LINGER:g}", "--quiet"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # so that Ctrl-C in this process does not end the broker
        cwd="/",
        env={**os.environ, "PYTHONPATH": paths},
    )
    until = time.monotonic() + _WITHIN
    while not listens(address):
        if time.monotonic() > until or started.poll() not in (None, 1):
            raise ShareError(
                f"no broker answers at {address}, although one was started: "
                f"`pgmo share --socket {address}` may show the reason"
            )
        time.sleep(0.02)


def listens(address: Path) -> bool:
    """Return whether a broker listens; raise `ShareError` as `connect` does."""
    try:
        connect(address).close()
    except TimeoutError:
        return True  # a busy broker accepts no connections in time
    except OSError:
        return False
    return True
