"""Starts a broker for programs that find none."""

import os
import subprocess
import sys
import time
from pathlib import Path

from pgmo.errors import ShareError
from pgmo.share.meeting import connect

LINGER = 60.0
"""Seconds for which such a broker stays when nobody uses it."""

_WITHIN = 10.0
"""Seconds within which it has to answer."""


def ensure_broker(address: Path) -> None:
    """Starts one in a process of its own, unless one listens there. It ends when nobody uses it.

    Raises:
        ShareError: when it does not begin, or the socket is another user's.
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
        start_new_session=True,  # Ctrl-C here is not meant for it
        cwd="/",
        env={**os.environ, "PYTHONPATH": paths},
    )
    until = time.monotonic() + _WITHIN
    while not listens(address):
        if time.monotonic() > until or started.poll() not in (None, 1):
            raise ShareError(
                f"no broker could be started at {address}: `pgmo share --socket {address}` says why"
            )
        time.sleep(0.02)


def listens(address: Path) -> bool:
    """Whether a broker of this user's is there.

    Raises:
        ShareError: when it is another user's.
    """
    try:
        connect(address).close()
    except TimeoutError:
        return True  # it is too busy to accept connections
    except OSError:
        return False
    return True
