"""A call with ``engine="ray"`` whose process is killed before its third commit, and made again.

    python killed_call.py SOURCE TO EXPRESSION      prints the rows or items that were there already

The expression makes the call, and has ``source`` and ``to``. With KILLED in its environment the
program ends like a machine that fails.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import tensorlake as tl

COMMITS = 2
"""Commits of the call that is killed."""


def killed_and_made_again(source: str, to: str, expression: str) -> tuple[int, str]:
    """Kill a call and make it again; return the rows of the first, and what the second printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = _run({**environment, "KILLED": "1"}, source, to, expression)
    assert first.returncode == -signal.SIGKILL, first.stderr[-2000:]
    rows = len(tl.open(to))
    again = _run(environment, source, to, expression)
    assert again.returncode == 0, again.stderr[-2000:]
    return rows, again.stdout


def _run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def main(source: str, to: str, expression: str) -> None:
    import ray

    from tensorlake.dataset.core.session import Session

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100_000_000,
        _system_config={"worker_niceness": 0},
    )
    commit, count = Session.commit, 0

    def counted(self, request):
        nonlocal count
        count += 1
        if count > COMMITS and "KILLED" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        return commit(self, request)

    Session.commit = counted
    sys.stdout.write(str(eval(expression, {"tl": tl, "source": source, "to": to})))


if __name__ == "__main__":
    main(*sys.argv[1:])
