"""A folder of packs' bytes on a local disk, shared by the processes of a machine.

    <cache_dir>/tensorlake-cache-1/
        ledger                              bytes in use, by all; a flock on it guards all changes
        claims                              which reads fetch which range (caches/claims.py)
        users/<dataset>.<random>            one for each loader, locked while it lives; its time is
                                            the start of the last pass that the loader read whole
        packs/3f/<dataset>-<pack>.data      (caches/spans.py)

Locks end with the process that holds them. A process that is killed may leave bytes counted that
are not there: the first process to come when no other is there counts again.

The folder is filled up to its capacity, and then nothing of a dataset in use is deleted: every
pass uses each byte once, so that replacing one by another gains nothing. When room is needed,
packs are deleted that no running loader has used: those of other datasets, and those of its own
that a whole pass did without (of an old version). The longest unused go first.
"""

from __future__ import annotations

import errno
import logging
import os
import secrets
import struct
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from xxhash import xxh3_64_intdigest

from tensorlake.errors import UnsupportedFeatureError
from tensorlake.loader.caches.claims import Claims
from tensorlake.loader.caches.spans import RECORD_NBYTES, PackSpans, Span, record_of
from tensorlake.storage import Buffer, ForkLock

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

__all__ = ["DiskFolder", "User", "key_of", "opened_folder"]

logger = logging.getLogger("tensorlake")

FOLDER: Final = "tensorlake-cache-1"
SPAN_NBYTES: Final = 1 << 20  # longest: a span is verified whole, whatever part of it is read
BLOCK_NBYTES: Final = 4096  # of file systems: files take whole blocks
NEW_PACK_BLOCKS: Final = 2  # of its records, and of its folder
UNIT_NBYTES: Final = 512  # of st_blocks, by POSIX
FREE_SHARE: Final = 0.9  # of a disk's free space, if no size is given
LOCK_WAIT_S: Final = 10.0  # for the ledger, which is held for milliseconds, or for a search
LOCK_PAUSE_S: Final = 0.001
CLAIM_WAIT_S: Final = 30.0  # for bytes that another read fetches, before fetching them here too
HUNG_WAIT_S: Final = 0.1  # likewise, for the rest of a pass in which another process hung
RESCAN_S: Final = 10.0  # after a search for room that found none
FULL_DISK: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_TOTAL: Final = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class User:
    """A loader that uses the folder, for other processes to see."""

    file: int
    path: Path
    process: int

    @property
    def is_noted(self) -> bool:
        """Whether other processes see it: the folder may have been deleted since."""
        return self.path.exists()

    def leave(self) -> None:
        """End the use; in a forked child the parent's goes on."""
        with suppress(OSError):
            os.close(self.file)
            if self.process == os.getpid():
                self.path.unlink()


class DiskFolder:
    """Spans of packs on disk. Thread-safe; nothing here raises for a failing disk.

    Attributes:
        capacity: Maximum bytes of all processes together.
        is_off: Whether the disk failed: nothing is read or written any more.
        claims: Ranges that are being fetched.
        claim_wait_s: How long a read waits for bytes that another one fetches.
    """

    def __init__(self, path: Path, capacity: int | None) -> None:
        self.path = path
        self.capacity = capacity or 0
        self.is_off = False
        self.claim_wait_s = CLAIM_WAIT_S
        self._is_full = False  # the disk, not only this folder
        self._lock = ForkLock()  # of the next; the ledger has its own, held while it waits
        self._packs: dict[str, PackSpans] = {}
        self._turn = ForkLock()
        self._scan_again = 0.0
        self.claims = Claims()
        try:
            with self._locked() as ledger:
                if not self._live_users():
                    self._write_total(ledger, self._counted())
                if capacity is None:
                    disk = os.statvfs(path)
                    free = disk.f_bavail * disk.f_frsize
                    self.capacity = self._total(ledger) + int(free * FREE_SHARE)
        except OSError as error:
            self.fail(error)

    @property
    def nbytes(self) -> int:
        """Bytes in use, by all processes."""
        if self.is_off:
            return 0
        try:
            with self._locked() as ledger:
                return self._total(ledger)
        except OSError as error:
            self.fail(error)
            return 0

    def fail(self, error: OSError) -> None:
        """Turn the tier off, or stop filling it where the disk takes no more; log this once."""
        is_full = error.errno in FULL_DISK or error.errno == errno.EFBIG
        if self.is_off or (is_full and self._is_full):
            return
        self.is_off, self._is_full = not is_full, True
        what = "failed, and is not used"
        if is_full:
            what = "is on a full disk, and keeps nothing more"
        if error.errno == errno.EFBIG:  # a limit of the process, or of the file system
            what = "must not have files as large as the dataset's (ulimit -f), and keeps no more"
        logger.warning(
            "the cache folder %s %s (%s); reading continues from the store",
            self.path.parent,
            what,
            error,
        )

    # ---- users

    def join(self, dataset: str) -> User | None:
        """Note a loader of a dataset; None if the disk failed."""
        if self.is_off:
            return None
        try:
            with self._locked():
                path = self.path / "users" / f"{dataset}.{secrets.token_hex(8)}"
                file = _opened(path)
                _flock(file)
                os.utime(file, (0, 0))
        except OSError as error:
            self.fail(error)
            return None
        return User(file, path, os.getpid())

    def read_whole(self, user: User, *, since: float) -> None:
        """Note that a loader has read everything that it uses since a time."""
        with suppress(OSError):  # then packs are merely kept for longer
            os.utime(user.file, (since, since))
        self._scan_again = 0.0

    # ---- bytes

    def spans(
        self, pack: str, ranges: Sequence[tuple[int, int]], *, number: int
    ) -> list[tuple[list[Span], tuple[int, int] | None]]:
        """Return for each range what `PackSpans.cover` gives, after other processes' changes.

        Args:
            pack: The pack's key.
            ranges: Ranges [start, stop).
            number: The pass, counted from the start of the process.
        """
        with self._lock:
            known = self._packs.setdefault(pack, PackSpans())
            covered = [known.cover(*one) for one in ranges]
            if any(gap is not None for _, gap in covered):
                try:
                    known.read_new(self._file(pack, "spans"))
                except FileNotFoundError:
                    self._packs[pack] = known = PackSpans()
                covered = [known.cover(*one) for one in ranges]
            is_new = known.used_in != number
            known.used_in = number
        if is_new:
            with suppress(OSError):
                os.utime(self._file(pack, "data"))
        return covered

    def read(self, pack: str, spans: Iterable[Span], start: int, into: memoryview) -> bool:
        """Read the bytes of spans into memory that begins at ``start`` of the pack, and verify.

        Returns:
            False if some are gone or damaged: they are forgotten.
        """
        try:
            file = os.open(self._file(pack, "data"), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            with self._lock:
                if (known := self._packs.get(pack)) is not None:
                    known.clear()
            return False
        try:
            return all(self._read_span(file, pack, span, start, into) for span in spans)
        finally:
            os.close(file)

    def _read_span(self, file: int, pack: str, span: Span, start: int, into: memoryview) -> bool:
        first, last = span.start - start, span.stop - start
        is_inside = first >= 0 and last <= len(into)
        data = into[first:last] if is_inside else memoryview(bytearray(last - first))
        is_whole = os.preadv(file, [data], span.start) == len(data)
        if is_whole and xxh3_64_intdigest(data) == span.checksum:
            if not is_inside:
                low, high = max(first, 0), min(last, len(into))
                into[low:high] = data[low - first : high - first]
            return True
        with self._lock:
            known = self._packs.get(pack)
            if known is not None:
                known.drop(span)
        return False

    def keep(self, pack: str, start: int, data: Buffer) -> bool:
        """Write bytes of a pack if there is room; return whether they were written."""
        view = memoryview(data).cast("B")
        borders = range(0, len(view), SPAN_NBYTES)
        if self._is_full or not len(view):
            return False
        needed = self._needed(pack, start, start + len(view)) + RECORD_NBYTES * len(borders)
        if not self._reserve(needed):
            return False
        spans: list[Span] = []
        try:
            path = self._file(pack, "data")
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = _opened(path)
            try:
                for at in borders:
                    part = view[at : at + SPAN_NBYTES]
                    done = 0
                    while done < len(part):
                        done += os.pwrite(file, part[done:], start + at + done)
                    first = start + at
                    spans.append(Span(first, first + len(part), xxh3_64_intdigest(part)))
            finally:
                os.close(file)
            self._record(pack, b"".join(map(record_of, spans)))
        except FileNotFoundError:  # the folder is being deleted
            self._give_back(needed)
            return False
        except OSError:
            self._give_back(needed)
            raise
        with self._lock:
            known = self._packs.setdefault(pack, PackSpans())
            for span in spans:
                known.add(span)
        return True

    def _needed(self, pack: str, start: int, stop: int) -> int:
        """Return the bytes that a range takes on disk, at most; neighbours may share its blocks."""
        first, last = start // BLOCK_NBYTES, (stop - 1) // BLOCK_NBYTES
        with self._lock:
            before, after = self._packs.get(pack, PackSpans()).around(start, stop)
            is_first = not (before or after)
        if before is not None and (before.stop - 1) // BLOCK_NBYTES >= first:
            first += 1
        if after is not None and after.start // BLOCK_NBYTES <= last:
            last -= 1
        others = NEW_PACK_BLOCKS if is_first else 0
        return (max(0, last + 1 - first) + others) * BLOCK_NBYTES

    def forget(self, pack: str) -> None:
        """Delete what is kept of a pack, because its bytes were damaged when they came."""
        with suppress(OSError), self._locked() as ledger:
            freed = sum(nbytes for name, nbytes, _ in self._stored() if name == pack)
            self._delete(pack)
            self._write_total(ledger, self._total(ledger) - freed)
        with self._lock:
            self._packs.pop(pack, None)

    # ---- inside: the ledger

    @contextmanager
    def _locked(self) -> Generator[int]:
        """Hold the ledger; opened each time, since a forked child would share the lock of a file.

        Raises:
            OSError: Another process holds it for too long, or the disk failed.
        """
        with self._turn:
            ledger = self._ledger()
            try:
                deadline = time.monotonic() + LOCK_WAIT_S
                while not _flock(ledger):
                    if time.monotonic() > deadline:
                        raise TimeoutError(errno.ETIMEDOUT, "another process holds the ledger")
                    time.sleep(LOCK_PAUSE_S)
                yield ledger
            finally:
                os.close(ledger)

    def _ledger(self) -> int:
        """Open the ledger, in a new folder if it has been deleted."""
        path = self.path / "ledger"
        with suppress(FileNotFoundError):
            if self.claims.is_open:
                return os.open(path, os.O_RDWR | os.O_CLOEXEC)
        for name in ("users", "packs"):
            (self.path / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.claims.open(self.path / "claims")
        return _opened(path)

    def _total(self, ledger: int) -> int:
        data = os.pread(ledger, _TOTAL.size, 0)
        if len(data) == _TOTAL.size:
            total, check = _TOTAL.unpack(data)
            if check == xxh3_64_intdigest(data[:8]):
                return total
        return self._counted()  # new, or damaged

    def _write_total(self, ledger: int, total: int) -> None:
        head = struct.pack("<Q", max(0, total))
        os.pwrite(ledger, head + struct.pack("<Q", xxh3_64_intdigest(head)), 0)

    def _reserve(self, needed: int) -> bool:
        with self._locked() as ledger:
            total = self._total(ledger)
            if total + needed > self.capacity:
                total = self._make_room(total, needed)
            has_room = total + needed <= self.capacity
            self._write_total(ledger, total + needed if has_room else total)
            return has_room

    def _give_back(self, nbytes: int) -> None:
        with suppress(OSError), self._locked() as ledger:
            self._write_total(ledger, self._total(ledger) - nbytes)

    def _record(self, pack: str, records: bytes) -> None:
        with self._locked():
            path = self._file(pack, "spans")
            file = _opened(path)
            try:
                end = os.fstat(file).st_size // RECORD_NBYTES * RECORD_NBYTES
                written = os.pwrite(file, records, end)
                if written < len(records):
                    os.ftruncate(file, end)
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            finally:
                os.close(file)

    def _make_room(self, total: int, needed: int) -> int:
        """Delete packs that no running loader uses until some bytes fit; return the bytes left."""
        if time.monotonic() < self._scan_again:
            return total
        users = self._live_users()
        for name, nbytes, used in sorted(self._stored(), key=lambda one: one[2]):
            if total + needed <= self.capacity:
                return total
            if all(used < since for since in users.get(name.partition("-")[0], ())):
                self._delete(name)
                total -= nbytes
        if total + needed > self.capacity:
            self._scan_again = time.monotonic() + RESCAN_S
        return total

    def _live_users(self) -> dict[str, list[float]]:
        """Return the times of running loaders by dataset; remove what dead ones left."""
        found: dict[str, list[float]] = {}
        for entry in os.scandir(self.path / "users"):
            file = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC)
            try:
                if _flock(file):
                    Path(entry.path).unlink()
                else:
                    found.setdefault(entry.name.partition(".")[0], []).append(
                        os.fstat(file).st_mtime
                    )
            finally:
                os.close(file)
        return found

    def _stored(self) -> Generator[tuple[str, int, float]]:
        """List packs: their key, bytes on disk, and the time of their last use."""
        for folder in os.scandir(self.path / "packs"):
            for entry in os.scandir(folder.path):
                key, _, kind = entry.name.partition(".")
                if kind == "data":
                    stat = entry.stat()
                    records = _on_disk(self._file(key, "spans"))
                    yield key, stat.st_blocks * UNIT_NBYTES + records, stat.st_mtime

    def _counted(self) -> int:
        """Return the bytes that all files take on disk, and the folders that they are in."""
        folders = sum(_on_disk(one) for one in os.scandir(self.path / "packs"))
        return folders + sum(nbytes for _, nbytes, _ in self._stored())

    def _delete(self, pack: str) -> None:
        for kind in ("spans", "data"):
            self._file(pack, kind).unlink(missing_ok=True)

    def _file(self, pack: str, kind: str) -> Path:
        return self.path / "packs" / pack[-2:] / f"{pack}.{kind}"


_folders: dict[Path, DiskFolder] = {}  # of this process: record locks are of processes, not files
_opening = ForkLock()


def opened_folder(cache_dir: str | os.PathLike[str], capacity: int | None) -> DiskFolder:
    """Open the folder of a directory, once in a process.

    Raises:
        UnsupportedFeatureError: The system has no POSIX locks.
    """
    if fcntl is None:
        raise UnsupportedFeatureError(
            "cache_dir= needs POSIX file locks, which this system lacks"
            "\nleave it out: chunks are cached in memory",
            argument="cache_dir",
        )
    path = Path(cache_dir).expanduser().resolve() / FOLDER
    with _opening:
        folder = _folders.get(path)
        if folder is None or folder.is_off:
            folder = _folders[path] = DiskFolder(path, capacity)
        elif capacity is not None:
            folder.capacity = capacity
        return folder


def key_of(text: str) -> str:
    """Return a short name for a URL or path: 16 hexadecimal digits."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def _on_disk(path: str | os.PathLike[str]) -> int:
    with suppress(FileNotFoundError):
        return Path(path).stat().st_blocks * UNIT_NBYTES
    return 0


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _flock(file: int) -> bool:
    """Take a lock without waiting; return whether it was free. Closing the file ends it."""
    assert fcntl is not None, "checked when the folder was opened"
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
