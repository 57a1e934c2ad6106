"""Passes in the workers of a ``DataLoader``, each of which has a copy of the loader.

The loader in their parent learns nothing of them, nor one worker of another. So that their passes
are successive epochs, all copies share a small file without a name, known by its descriptor:

    of each pass   the loader · the pass · its epoch · its move · which workers have begun it
    of each move   the loader · its number · the place that it led to · the state that was loaded

    the loader     the process that made the DataLoader, and the loader there
    the pass       the seed that the DataLoader drew for its workers, the move after which they were
                   made, and how many passes a worker has begun before: it lives on with
                   persistent_workers=True
    a move         set_epoch(), skip(), load_state_dict() or a pass of the loader in the parent

The first worker to begin a pass gives it the epoch after the last one, or, if the loader was moved
since, the place that the last move led to; the others join.
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

from tensorlake.loader.plan.state import Place
from tensorlake.storage import ForkLock

__all__ = ["Move", "WorkerPasses", "adopt_file", "has_shared_file", "shared_file"]

MAX_KEPT = 256  # passes, and moves, of all loaders of a process
MOVES_KEPT = 2  # of a loader, and as many of those that loaded a state: a worker may begin late

Noted = dict[str, list[dict[str, Any]]]

_files: list[int] = []  # this process's, once there is one: forks inherit it
_turn = ForkLock()  # of this process's threads, which the lock of the file does not keep apart


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


@dataclass(frozen=True, slots=True)
class Move:
    """Where a loader was set by its parent, as its workers follow."""

    epoch: int
    position: int
    skipped: int
    state: dict[str, Any] | None = None  # what was loaded


@dataclass(slots=True)
class WorkerPasses:
    """What workers have begun of one loader; a copy of it is in each of them."""

    name: str = field(default_factory=_new_name)
    moves: int = 0  # of the loader in the parent, as far as this copy has followed
    born: int | None = None  # after which of them this worker was made
    begun: int = 0  # by this worker
    is_set: bool = False  # its place, in this worker, since it began its last pass

    def set_in_worker(self) -> None:
        """Note that the place of this worker's copy was set by the worker itself."""
        self.is_set = True

    def move(self, place: Place, state: dict[str, Any] | None = None) -> None:
        """Tell workers that live on where the loader was set in their parent."""
        with _noted() as noted:
            self._move(noted, Move(place.epoch, place.position, place.skipped, state))

    def epoch_in_parent(self, epoch: int) -> int:
        """Begin a pass in the parent; return its epoch.

        It follows those of the workers, and is the loader's own without any.
        """
        with _noted() as noted:
            last = [one["epoch"] for one in self._passes(noted, os.getpid(), self.moves)]
            epoch = last[-1] + 1 if last else epoch
            self._move(noted, Move(epoch + 1, 0, 0))
        return epoch

    def begin_in_worker(self, epoch: int, *, worker: int, seed: int) -> tuple[int, list[Move]]:
        """Begin a pass in a worker; return its epoch, and the moves to follow before it.

        Args:
            epoch: Where the loader's copy stands.
            worker: The worker's number.
            seed: What the DataLoader drew for its workers.
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
                    moves = []  # the worker set its own place
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
        """Return the passes of this loader, those after a move alone where one is given."""
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
    """Read what is noted, with every other process kept out, and write what becomes of it."""
    file = shared_file()
    with _turn:
        fcntl.lockf(file, fcntl.LOCK_EX)
        try:
            before = os.fstat(file).st_size
            text = os.pread(file, before, 0).rstrip()
            noted: Noted = json.loads(text) if text else {"moves": [], "passes": []}
            yield noted
            after = json.dumps({name: ones[-MAX_KEPT:] for name, ones in noted.items()}).encode()
            if after != text:
                os.pwrite(file, after.ljust(before), 0)  # blanks after it are no part of JSON
        finally:
            fcntl.lockf(file, fcntl.LOCK_UN)
