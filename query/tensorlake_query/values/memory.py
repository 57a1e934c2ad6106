"""The memory of a query: one account of bytes, charged before they are allocated.

    Account   a limit, and the bytes held under it, by all threads of a run
    Held      bytes that one holder has: they go back when it is dropped, or when it is gone

A step, a batch and a kernel each collect what they take in a `Held` of their own. Code that makes
arrays need not know which: `charge` and `working` charge the collecting one (`collecting`),
or do nothing without one. Where one row is too much, the run ends; a batch of many rows is
computed again in parts (`execution/batches.py`).
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from sys import getsizeof
from threading import Lock
from weakref import ref

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


class _Share(ref["Held"]):
    """The bytes that a holder has. It outlives the holder, so that they can be taken back."""

    __slots__ = ("nbytes",)

    nbytes: int


class Account:
    """Counts bytes that are held, up to a limit. Thread-safe.

    Before bytes are taken, `check` looks whether the time is up: one batch of long texts, as
    large as its memory, may be seconds of work, and takes its bytes text by text.

    The share of a holder that is gone is put into a queue by the interpreter itself, and its bytes
    are taken back at the next look: in code of a finalizer Ctrl-C would be lost, since nothing can
    be raised there, and the collector may run it in a thread that has the lock.
    """

    def __init__(self, limit: int | None = None, check: Callable[[], None] | None = None) -> None:
        self.limit = limit
        self.most = 0
        self._check = check
        self.is_closed = False
        self._held = 0
        self._shares: set[_Share] = set()
        self._gone: deque[_Share] = deque()
        self._lock = Lock()

    @property
    def held(self) -> int:
        """The bytes that are held."""
        with self._lock:
            return self._settled()

    def close(self) -> None:
        """Let no more bytes be taken: the run has ended, and work in progress is to stop."""
        self.is_closed = True

    def opened(self, holder: "Held") -> _Share:
        """Return the share of a new holder."""
        share = _Share(holder, self._gone.append)
        share.nbytes = 0
        with self._lock:
            self._shares.add(share)
        return share

    def give_back(self, share: _Share) -> None:
        """Take all bytes of a share back, also once closed: work that was left still ends."""
        with self._lock:
            self._held -= share.nbytes
            share.nbytes = 0

    def change(self, share: _Share, nbytes: int, operator: str) -> None:
        """Take bytes for a share, or give them back.

        Raises:
            TooMuchMemoryError: they are more than are left.
        """
        if nbytes > 0 and self._check is not None:
            self._check()
        with self._lock:
            before = self._settled()
            if nbytes > 0 and self.is_closed:
                raise TooMuchMemoryError(operator, nbytes, before, 0)
            if nbytes > 0 and self.limit is not None and before + nbytes > self.limit:
                raise TooMuchMemoryError(operator, nbytes, before, self.limit)
            share.nbytes += nbytes
            self._held = before + nbytes
            self.most = max(self.most, self._held)

    def _settled(self) -> int:
        """Return the bytes held, after those of holders that are gone were taken back."""
        while self._gone:
            share = self._gone.popleft()
            self._shares.discard(share)
            self._held -= share.nbytes
        return self._held


class Held:
    """Bytes that one holder has of an account; without one they are only counted."""

    __slots__ = ("__weakref__", "_account", "_share", "operator")

    def __init__(self, account: Account | None, operator: str) -> None:
        self._account = account
        self._share = _Share(self) if account is None else account.opened(self)
        if account is None:
            self._share.nbytes = 0
        self.operator = operator

    @property
    def nbytes(self) -> int:
        """How many they are."""
        return self._share.nbytes

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
            self._account.change(self._share, nbytes, self.operator)
        else:
            self._share.nbytes += nbytes

    def resize(self, nbytes: int) -> None:
        """Hold this number of bytes instead."""
        self.add(nbytes - self.nbytes)

    def move_to(self, other: "Held | None") -> None:
        """Let another holder have them."""
        if other is not None and other.account is self._account:
            other._share.nbytes += self._share.nbytes  # noqa: SLF001 - of this class
            self._share.nbytes = 0
            return
        self.drop()

    def drop(self) -> None:
        """Give all of them back; never raises."""
        if self._account is not None:
            self._account.give_back(self._share)
        self._share.nbytes = 0


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
