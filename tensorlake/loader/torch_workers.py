"""Passes in the workers of a ``DataLoader``, each of which has a copy of the loader.

The loader in their parent learns nothing of them, nor one worker of another. So that their passes
are successive epochs, all copies share a small file without a name, known by its descriptor:

    of each pass   the loader · the pass · its epoch · which workers have begun it

    the loader     the process that made the DataLoader, and the loader with its place there
    the pass       the seed that the DataLoader drew for its workers, and how many passes a worker
                   has begun before: it lives on with persistent_workers=True

The first worker to begin a pass gives it the epoch after the last one; the others join.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

__all__ = ["WorkerPasses", "adopt_file", "has_shared_file", "shared_file"]

MAX_KEPT = 256  # passes, of all loaders of a process
MAX_NBYTES = 1 << 20  # of them as JSON

_files: list[int] = []  # this process's, once there is one: forks inherit it


def shared_file() -> int:
    """Return the descriptor of the file that this process shares with its workers."""
    if not _files:
        if hasattr(os, "memfd_create"):
            _files.append(os.memfd_create("tensorlake-loader"))
        else:
            with tempfile.TemporaryFile() as file:
                _files.append(os.dup(file.fileno()))
    return _files[0]


def has_shared_file() -> bool:
    """Whether a loader was made in this process, or in one that it was forked of."""
    return bool(_files)


def adopt_file(descriptor: int) -> None:
    """Share the file of the parent, in a process that was spawned."""
    _files[:] = [descriptor]


def _new_name() -> str:
    shared_file()  # before any worker is forked
    return os.urandom(6).hex()


@dataclass(slots=True)
class WorkerPasses:
    """What workers have begun of one loader; a copy of it is in each of them."""

    name: str = field(default_factory=_new_name)
    moves: int = 0  # of the loader's place in the parent: passes are counted from there
    begun: int = 0  # by this worker
    is_set: bool = False  # its place, in this worker, since it began its last pass

    def move(self, *, in_worker: bool) -> None:
        """Note that the loader's place was set."""
        if in_worker:
            self.is_set = True
        else:
            self.moves += 1

    def epoch_in_parent(self, epoch: int) -> int:
        """Return the epoch that follows those of the workers, or the loader's own without any."""
        with _noted() as passes:
            key = f"{os.getpid()} {self.name} {self.moves}"
            last = [one["epoch"] for one in passes if one["loader"] == key]
        self.moves += 1
        return last[-1] + 1 if last else epoch

    def epoch_in_worker(self, epoch: int, *, worker: int, seed: int) -> int:
        """Begin a pass in a worker; return its epoch.

        Args:
            epoch: Where the loader's copy stands.
            worker: The worker's number.
            seed: What the DataLoader drew for this pass.
        """
        parent = multiprocessing.parent_process()
        key = f"{0 if parent is None else parent.pid} {self.name} {self.moves}"
        name, is_set = [seed, self.begun], self.is_set
        self.begun, self.is_set = self.begun + 1, False
        with _noted() as passes:
            own = [one for one in passes if one["loader"] == key]
            same = [one for one in own if one["pass"] == name]
            if same and worker not in same[-1]["workers"] and not is_set:
                same[-1]["workers"].append(worker)
                return same[-1]["epoch"]
            if own and not is_set:
                epoch = own[-1]["epoch"] + 1
            passes.append({"loader": key, "pass": name, "epoch": epoch, "workers": [worker]})
        return epoch


@contextmanager
def _noted() -> Generator[list[dict[str, Any]]]:
    """Read what is noted, with every other process kept out, and write what becomes of it."""
    file = shared_file()
    fcntl.lockf(file, fcntl.LOCK_EX)
    try:
        text = os.pread(file, MAX_NBYTES, 0)
        passes: list[dict[str, Any]] = json.loads(text) if text else []
        before = len(text)
        yield passes
        after = json.dumps(passes[-MAX_KEPT:]).encode() if passes else b""
        if after != text.rstrip():
            os.pwrite(file, after.ljust(before), 0)  # blanks after it are no part of JSON
    finally:
        fcntl.lockf(file, fcntl.LOCK_UN)
