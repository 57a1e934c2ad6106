"""The memory of a query: one account of bytes, charged before they are allocated.

    Account   a limit, and the bytes held under it, by all threads of a run
    Held      bytes that one holder has: they go back when it is dropped, or when it is gone

A step, a batch and a kernel each collect what they take in a `Held` of their own. Code that makes
arrays need not know which: `charge` and `working` charge the collecting one (`collecting`),
or do nothing without one. Where one row is too much, the run ends; a batch of many rows is
computed again in parts (`execution/batches.py`).
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from sys import getsizeof
from threading import Lock

from tensorlake_query.syntax.ast import Span

JSON_FACTOR = 16  # Python objects of decoded JSON, against its text: lists of small numbers take 20


class TooMuchMemoryError(Exception):
    """A holder would take more than the account has; caught in the run, which reports it.

    Attributes:
        operator: what would take it.
        nbytes: how much it would take.
        held: how much is held already, by all.
        limit: how much may be held.
        place: where in the query it is written, where known.
    """

    def __init__(self, operator: str, nbytes: int, held: int, limit: int) -> None:
        super().__init__(operator, nbytes, held, limit)
        self.operator = operator
        self.nbytes = nbytes
        self.held = held
        self.limit = limit
        self.place: Span | None = None


@dataclass(slots=True)
class Account:
    """Counts bytes that are held, up to a limit. Thread-safe."""

    limit: int | None = None
    held: int = 0
    most: int = 0
    is_closed: bool = False
    _lock: Lock = field(default_factory=Lock)

    def close(self) -> None:
        """Let no more bytes be taken: the run has ended, and work in progress is to stop."""
        self.is_closed = True

    def give_back(self, nbytes: int) -> None:
        """Take bytes back from a holder, also once closed: work that was left still ends."""
        with self._lock:
            self.held -= nbytes

    def change(self, nbytes: int, operator: str) -> None:
        """Take bytes, or give them back.

        Raises:
            TooMuchMemoryError: they are more than are left.
        """
        with self._lock:
            held = self.held + nbytes
            if nbytes > 0 and self.is_closed:
                raise TooMuchMemoryError(operator, nbytes, self.held, 0)
            if nbytes > 0 and self.limit is not None and held > self.limit:
                raise TooMuchMemoryError(operator, nbytes, self.held, self.limit)
            self.held = held
            self.most = max(self.most, held)


class Held:
    """Bytes that one holder has of an account; without one they are only counted."""

    __slots__ = ("_account", "nbytes", "operator")

    def __init__(self, account: Account | None, operator: str) -> None:
        self._account = account
        self.operator = operator
        self.nbytes = 0

    @property
    def account(self) -> Account | None:
        """Where they are counted."""
        return self._account

    def add(self, nbytes: int) -> None:
        """Take bytes; give back where negative.

        Raises:
            TooMuchMemoryError: they are more than are left.
        """
        if self._account is not None:
            self._account.change(nbytes, self.operator)
        self.nbytes += nbytes

    def resize(self, nbytes: int) -> None:
        """Hold this number of bytes instead."""
        self.add(nbytes - self.nbytes)

    def move_to(self, other: "Held | None") -> None:
        """Let another holder have them."""
        if other is None or other.account is not self._account:
            self.drop()
            return
        other.nbytes += self.nbytes
        self.nbytes = 0

    def drop(self) -> None:
        """Give all of them back; never raises."""
        if self._account is not None:
            self._account.give_back(self.nbytes)
        self.nbytes = 0

    def __del__(self) -> None:
        self.drop()


_COLLECTING: ContextVar[Held | None] = ContextVar("tensorlake_query_held", default=None)


def current() -> Held | None:
    """Return who collects what is charged here."""
    return _COLLECTING.get()


def hold(operator: str) -> Held:
    """Return a new holder, of the account of the one that collects."""
    holder = _COLLECTING.get()
    return Held(None if holder is None else holder.account, operator)


class collecting:  # noqa: N801 a block, as those of contextlib are; entered for each kernel
    """Let a holder collect what is charged in the block."""

    __slots__ = ("_held", "_token")

    def __init__(self, held: Held | None) -> None:
        self._held = held

    def __enter__(self) -> None:
        self._token = _COLLECTING.set(self._held)

    def __exit__(self, *_: object) -> None:
        _COLLECTING.reset(self._token)


def charge(nbytes: int) -> None:
    """Take bytes, for the one that collects.

    Raises:
        TooMuchMemoryError: they are more than are left.
    """
    holder = _COLLECTING.get()
    if holder is not None:
        holder.add(nbytes)


@contextmanager
def working(nbytes: int) -> Generator[None]:
    """Take bytes for the time of the block.

    Raises:
        TooMuchMemoryError: they are more than are left.
    """
    charge(nbytes)
    try:
        yield
    finally:
        charge(-nbytes)


def objects_nbytes(values: Iterable[object]) -> int:
    """Return what Python objects take, those inside of lists aside."""
    return sum(map(getsizeof, values))
