"""Passes in the workers of a ``DataLoader``, each of which has a copy of the loader.

The loader in their parent does not see them, and workers do not see each other. So that their
passes are successive epochs, all copies share a small unnamed file by its descriptor:

    per pass       the loader · the pass · its epoch · its move · which workers have begun it
    per move       the loader · its number · the place that it led to · the state that was loaded

    the loader     the process that made the DataLoader, and the loader there
    the pass       the seed that the DataLoader drew for its workers, the move after which they were
                   made, and the number of passes a worker has begun before: with
                   persistent_workers=True it has several
    a move         set_epoch(), skip(), load_state_dict() or a pass of the loader in the parent

The first worker to begin a pass gives it the epoch after the last one, or, if the loader was moved
since, the place that the last move led to; the others join.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.loader.plan.state import Place
from tensorlake.storage import ForkLock
from tensorlake.types import pread, pwrite

if sys.platform != "win32":
    import fcntl

__all__ = ["Move", "WorkerPasses", "adopt_file", "check_workers", "has_shared_file", "shared_file"]

MAX_KEPT = 256  # passes, and moves, of all loaders of a process
MOVES_KEPT = 2  # per loader, and the same number that loaded a state: a worker may begin late

Noted = dict[str, list[dict[str, Any]]]

_files: list[int] = []  # this process's, once it exists: forks inherit it
_turn = ForkLock()  # for this process's threads, which the file's lock does not exclude


def shared_file() -> int:
    """Return the descriptor of the file that this process shares with its workers."""
    if not _files:
        if hasattr(os, "memfd_create"):
            _files.append(os.memfd_create("tensorlake-loader"))
        else:
            with tempfile.TemporaryFile() as file:
                _files.append(os.dup(file.fileno()))
    return _files[0]


def check_workers() -> None:
    """Refuse workers of a ``DataLoader`` where processes cannot share a descriptor and lock it.

    Raises:
        UnsupportedFeatureError: This system is Windows.
    """
    if sys.platform == "win32":
        raise UnsupportedFeatureError(
            "DataLoader(loader, num_workers=…) needs files that processes share and lock, which"
            f" {sys.platform} does not have\nuse num_workers=0: the loader has threads of its own",
            argument="num_workers",
            actual=sys.platform,
        )


def has_shared_file() -> bool:
    """Return whether a loader was made in this process, or in a process it was forked from."""
    return bool(_files)


def adopt_file(descriptor: int) -> None:
    """Adopt the parent's file, in a spawned process."""
    _files[:] = [descriptor]


def _new_name() -> str:
    shared_file()  # before any worker is forked
    return os.urandom(6).hex()


@dataclass(frozen=True, slots=True)
class Move:
    """A position that the parent set on a loader, for its workers to follow."""

    epoch: int
    position: int
    skipped: int
    state: dict[str, Any] | None = None  # the state that was loaded


@dataclass(slots=True)
class WorkerPasses:
    """The passes that workers have begun of one loader; each worker has a copy."""

    name: str = field(default_factory=_new_name)
    moves: int = 0  # of the loader in the parent, as far as this copy has followed
    born: int | None = None  # the last move before this worker was made
    begun: int = 0  # by this worker
    is_set: bool = False  # its place, in this worker, since it began its last pass

    def set_in_worker(self) -> None:
        """Record that the worker itself set the position of its copy."""
        self.is_set = True

    def move(self, place: Place, state: dict[str, Any] | None = None) -> None:
        """Record for persistent workers the position set on the loader in their parent."""
        with _noted() as noted:
            self._move(noted, Move(place.epoch, place.position, place.skipped, state))

    def epoch_in_parent(self, epoch: int) -> int:
        """Begin a pass in the parent; return its epoch.

        It follows the workers' epochs, and is the loader's own if they have none.
        """
        with _noted() as noted:
            last = [one["epoch"] for one in self._passes(noted, os.getpid(), self.moves)]
            epoch = last[-1] + 1 if last else epoch
            self._move(noted, Move(epoch + 1, 0, 0))
        return epoch

    def begin_in_worker(self, epoch: int, *, worker: int, seed: int) -> tuple[int, list[Move]]:
        """Begin a pass in a worker; return its epoch, and the moves to follow before it.

        Args:
            epoch: The epoch of the loader's copy.
            worker: The worker's number.
            seed: The seed that the DataLoader drew for its workers.
        """
        process = _parent()
        self.born = self.moves if self.born is None else self.born
        name, is_set = [seed, self.born, self.begun], self.is_set
        self.begun, self.is_set = self.begun + 1, False
        with _noted() as noted:
            moves = self._ahead(noted, process)
            same = [one for one in self._passes(noted, process) if one["pass"] == name]
            if same and worker not in same[-1]["workers"] and not is_set:
                same[-1]["workers"].append(worker)
                epoch, last = same[-1]["epoch"], same[-1]["move"]
                moves = [one for one in moves if one["number"] <= last]
            else:
                last = moves[-1]["number"] if moves else self.moves
                if is_set:
                    moves = []  # the worker set its own position
                elif own := self._passes(noted, process, last):
                    epoch = own[-1]["epoch"] + 1
                elif moves:
                    epoch = moves[-1]["place"][0]
                noted["passes"].append(
                    {"loader": self._key(process), "pass": name, "epoch": epoch}
                    | {"move": last, "workers": [worker]}
                )
        self.moves = last
        return epoch, [Move(*one["place"], state=one["state"]) for one in moves]

    def have_begun(self) -> bool:
        """Whether workers have begun a pass since the loader was moved in this process."""
        with _noted() as noted:
            return bool(self._passes(noted, os.getpid(), self.moves))

    def must_follow(self) -> bool:
        """Whether the loader was moved in the parent, and this worker's copy was not."""
        with _noted() as noted:
            return bool(self._ahead(noted, _parent()))

    def _key(self, process: int) -> str:
        return f"{process} {self.name}"

    def _ahead(self, noted: Noted, process: int) -> list[dict[str, Any]]:
        """Return the moves that this copy has not followed."""
        key = self._key(process)
        return [one for one in noted["moves"] if one["loader"] == key if one["number"] > self.moves]

    def _passes(self, noted: Noted, process: int, move: int | None = None) -> list[dict[str, Any]]:
        """Return the passes of this loader, or only those after a given move."""
        return [
            one
            for one in noted["passes"]
            if one["loader"] == self._key(process) and move in (None, one["move"])
        ]

    def _move(self, noted: Noted, move: Move) -> None:
        self.moves += 1
        key = self._key(os.getpid())
        own = [one for one in noted["moves"] if one["loader"] == key]
        own.append(
            {"loader": key, "number": self.moves, "state": move.state}
            | {"place": [move.epoch, move.position, move.skipped]}
        )
        loads = [one for one in own if one["state"] is not None][-MOVES_KEPT:]
        kept = [one for one in own if one in loads or one in own[-MOVES_KEPT:]]
        noted["moves"] = [one for one in noted["moves"] if one["loader"] != key] + kept


def _parent() -> int:
    parent = multiprocessing.parent_process()
    return 0 if parent is None or parent.pid is None else parent.pid


@contextmanager
def _noted() -> Generator[Noted]:
    """Read the notes under an exclusive lock, and write back the changes of the body."""
    file = shared_file()
    with _turn:
        if sys.platform != "win32":  # there no other process shares it: check_workers()
            fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            before = os.fstat(file).st_size
            text = pread(file, before, 0).rstrip()
            noted: Noted = json.loads(text) if text else {"moves": [], "passes": []}
            yield noted
            after = json.dumps({name: ones[-MAX_KEPT:] for name, ones in noted.items()}).encode()
            if after != text:
                pwrite(file, after.ljust(before), 0)  # trailing blanks are ignored by JSON
        finally:
            if sys.platform != "win32":
                fcntl.lockf(file, fcntl.LOCK_UN)
