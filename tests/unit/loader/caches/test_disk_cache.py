"""The disk tier: the bytes of the store, whatever the folder holds, and no more than its size."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.loader.caches.disk_cache import DiskTier
from tensorlake.loader.caches.disk_folder import CLAIM_WAIT_S, HUNG_WAIT_S, key_of, opened_folder
from tensorlake.loader.caches.spans import RECORD_NBYTES, PackSpans, Span, record_of
from tensorlake.loader.runtime.counters import Counters
from tests.support.examples import examples

WAIT_S = 60
PACK = bytes(random.Random(5).randbytes(3_000_000))
RANGES = st.lists(
    st.tuples(st.integers(0, 2_999_999), st.integers(1, 2_000_000)).map(
        lambda one: (one[0], min(one[0] + one[1], len(PACK)))
    ),
    min_size=1,
    max_size=4,
)


class Reads:
    """A pack behind a disk tier, and the ranges that were fetched."""

    def __init__(self, folder: Path, capacity: int | None = None, url: str = "s3://a") -> None:
        self.counters = Counters()
        self.tier = DiskTier(folder, capacity, self.counters)
        self.cache = self.tier.of(url)
        self.fetched: list[tuple[int, int]] = []

    async def fetch(self, ranges: Any) -> list[Any]:
        self.fetched += ranges
        return [PACK[start:stop] for start, stop in ranges]

    def read(self, ranges: list[tuple[int, int]], path: str = "packs/1") -> bool:
        """Read ranges; whether they are right."""
        found: list[Any] = asyncio.run(self.cache.read(path, ranges, self.fetch))
        return [bytes(one) for one in found] == [PACK[start:stop] for start, stop in ranges]

    @property
    def fetched_nbytes(self) -> int:
        return sum(stop - start for start, stop in self.fetched)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def files(folder: Path, kind: str) -> list[Path]:
    return sorted(folder.rglob(f"*.{kind}"))


@examples(12)
@given(asked=st.lists(RANGES, min_size=1, max_size=4))
def test_bytes_are_those_of_the_store_and_are_fetched_once(
    asked: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    reads = Reads(tmp_path_factory.mktemp("cache"))

    for ranges in asked:
        assert reads.read(ranges)
    reads.fetched.clear()
    for ranges in asked:
        assert reads.read(ranges)

    assert reads.fetched == []


@examples(12)
@given(data=st.data())
def test_a_damaged_folder_is_read_as_the_store(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    ranges = [(0, 1_500_000), (2_000_000, 2_100_000)]
    assert Reads(folder).read(ranges)
    for _ in range(data.draw(st.integers(1, 3))):
        victim = data.draw(st.sampled_from([*files(folder, "data"), *files(folder, "spans")]))
        size = victim.stat().st_size
        match data.draw(st.sampled_from(["flip", "cut", "grow", "zero"])):
            case "flip" if size:
                with victim.open("r+b") as file:
                    file.seek(data.draw(st.integers(0, size - 1)))
                    byte = file.read(1)[0]
                    file.seek(-1, os.SEEK_CUR)
                    file.write(bytes([byte ^ 0x5A]))
            case "cut":
                os.truncate(victim, data.draw(st.integers(0, size)))
            case "grow":
                with victim.open("ab") as file:
                    file.write(data.draw(st.binary(min_size=1, max_size=50)))
            case _:
                victim.write_bytes(b"")

    running, fresh = Reads(folder), Reads(folder)

    assert running.read(ranges)
    assert running.read([(100, 1_400_000)])
    assert fresh.read(ranges)


@pytest.mark.parametrize("kind", ["data", "spans"])
def test_files_deleted_under_a_reader_are_fetched_again(folder: Path, kind: str) -> None:
    reads = Reads(folder)
    assert reads.read([(0, 900_000)])
    assert reads.read([(0, 900_000)])
    for path in files(folder, kind):
        path.unlink()

    assert reads.read([(0, 900_000)])
    assert reads.read([(0, 900_001)])


def test_the_folder_never_exceeds_its_size_and_keeps_what_it_has(folder: Path) -> None:
    reads = Reads(folder, capacity=1_000_000)
    for start in range(0, 2_400_000, 200_000):
        assert reads.read([(start, start + 200_000)])
    first = reads.fetched_nbytes

    for start in range(0, 2_400_000, 200_000):
        assert reads.read([(start, start + 200_000)])

    on_disk = sum(path.stat().st_blocks * 512 for path in files(folder, "data"))
    assert on_disk <= 1_000_000
    assert first == 2_400_000
    assert reads.fetched_nbytes - first == 2_400_000 - 4 * 200_000  # as epochs do: c of them hit


def test_room_is_made_of_datasets_that_nobody_reads(folder: Path) -> None:
    gone = Reads(folder, capacity=1_000_000, url="s3://old")
    assert gone.read([(0, 800_000)])
    gone.tier.close()
    del gone

    reads = Reads(folder, capacity=1_000_000, url="s3://new")
    assert reads.read([(0, 700_000)])
    reads.fetched.clear()

    assert reads.read([(0, 700_000)])
    assert reads.fetched == []


def test_packs_of_an_old_version_go_after_a_whole_pass(folder: Path) -> None:
    reads = Reads(folder, capacity=1_000_000)
    assert reads.read([(0, 800_000)], "packs/old")
    reads.tier.close()
    os.utime(files(folder, "data")[0], (1, 1))  # of a job some time ago
    later = Reads(folder, capacity=1_000_000)

    later.tier.begin_pass(is_whole=False)
    assert later.read([(0, 700_000)], "packs/new")
    kept_before = len(files(folder, "data"))
    later.tier.begin_pass(is_whole=True)
    assert later.read([(0, 700_000)], "packs/new")
    later.fetched.clear()

    assert later.read([(0, 700_000)], "packs/new")
    assert (kept_before, later.fetched) == (1, [])


def test_a_folder_that_cannot_be_made_turns_the_tier_off_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")

    with caplog.at_level(logging.WARNING, "tensorlake"):
        reads = Reads(tmp_path / "file")
        assert reads.read([(0, 10)])
        assert reads.read([(0, 10)])

    assert [one.message for one in caplog.records if "is not used" in one.message] == [
        one.message for one in caplog.records
    ]
    assert len(caplog.records) == 1
    assert reads.tier.counts() == {"disk_cache_nbytes": 0, "disk_cache_capacity": 0}


@pytest.mark.parametrize(
    ("number", "words"), [(errno.ENOSPC, "on a full disk"), (errno.EIO, "is not used")]
)
def test_a_disk_that_fails_is_warned_of_once(
    folder: Path, caplog: pytest.LogCaptureFixture, number: int, words: str
) -> None:
    reads = Reads(folder)
    assert reads.read([(0, 1_000)])
    disk = opened_folder(folder, None)

    with caplog.at_level(logging.WARNING, "tensorlake"):
        for _ in range(2):
            disk.fail(OSError(number, os.strerror(number)))
        assert reads.read([(0, 1_000)])
        assert reads.read([(5_000, 6_000)])

    assert len(caplog.records) == 1
    assert words in caplog.records[0].message
    assert disk.is_off == (number == errno.EIO)


def test_bytes_damaged_on_arrival_are_not_kept_for_good(folder: Path) -> None:
    reads = Reads(folder)
    assert reads.read([(0, 1_000)])

    reads.cache.forget("packs/1")

    assert reads.read([(0, 1_000)])
    assert len(reads.fetched) == 2


@examples(100)
@given(
    spans=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), max_size=8),
    start=st.integers(0, 40),
    length=st.integers(1, 20),
)
def test_a_cover_leaves_no_byte_out(spans: Any, start: int, length: int) -> None:
    known = PackSpans()
    for at, nbytes in spans:
        known.add(Span(at, at + nbytes, 0))

    found, gap = known.cover(start, start + length)

    covered = {byte for one in found for byte in range(one.start, one.stop)}
    needed = set(range(start, start + length)) - (set() if gap is None else set(range(*gap)))
    assert needed <= covered
    if gap is not None:
        assert {gap[0], gap[1] - 1} & covered == set()


@examples(50)
@given(garbage=st.binary(max_size=100), cut=st.integers(0, RECORD_NBYTES))
def test_records_are_read_past_damage(
    garbage: bytes, cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("records") / "1.spans"
    good = [Span(at * 10, at * 10 + 5, at) for at in range(3)]
    whole = garbage[: len(garbage) // RECORD_NBYTES * RECORD_NBYTES]
    path.write_bytes(record_of(good[0]) + whole + record_of(good[1]) + record_of(good[2])[:cut])
    known = PackSpans()

    known.read_new(path)

    assert [known.spans[one.start] for one in good[:2]] == good[:2]
    assert (20 in known.spans) == (cut == RECORD_NBYTES)


@pytest.mark.parametrize(
    "what", ["cache", "cache/tensorlake-cache-1", "cache/tensorlake-cache-1/*"]
)
def test_a_folder_that_was_deleted_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    running = Reads(tmp_path / "cache")
    assert running.read([(0, 1_000)])
    for path in tmp_path.glob(what):
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    fresh = Reads(tmp_path / "cache")
    for reads in (running, fresh):
        reads.tier.begin_pass(is_whole=False)
        assert reads.read([(0, 1_000)])
        assert reads.read([(5_000, 9_000)])

    assert (len(running.fetched), fresh.fetched) == (3, [])
    assert len([*tmp_path.glob("cache/tensorlake-cache-1/users/*")]) == 2
    assert caplog.records == []


def test_all_that_the_folder_takes_is_counted(folder: Path) -> None:
    tier = DiskTier(folder, 100_000, Counters())
    for at in range(2_000):  # rows of 200 bytes, in files of 100
        tier.of("memory://a").keep_value(f"decoded/{at // 100}", at % 100 * 200, bytes(200))

    packs = folder / "tensorlake-cache-1" / "packs"
    on_disk = sum(path.stat().st_blocks * 512 for path in packs.rglob("*"))

    assert on_disk <= 100_000
    assert len(files(folder, "data")) >= 3
    assert tier.counts()["disk_cache_nbytes"] <= 100_000


def test_a_peer_that_hangs_is_waited_for_once(folder: Path) -> None:
    reads = Reads(folder)
    disk = opened_folder(folder, None)
    script = (
        "import sys; from tensorlake.loader.caches.disk_folder import key_of, opened_folder\n"
        "pack = key_of('s3://a') + '-' + key_of('packs/1')\n"
        f"assert opened_folder({str(folder)!r}, None).claims.claim(pack, [(0, 3_000_000)])\n"
        "print(flush=True); sys.stdin.read()"
    )
    peer = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with peer:
        assert peer.stdout is not None
        peer.stdout.readline()
        disk.claim_wait_s = 0.2
        assert reads.read([(0, 1_000)])
        after_one = disk.claim_wait_s
        assert reads.read([(1_000, 2_000)])
        reads.tier.begin_pass(is_whole=True)
        peer.kill()

    assert after_one == HUNG_WAIT_S
    assert disk.claim_wait_s == CLAIM_WAIT_S


def test_reads_in_threads_of_a_process_fetch_each_range_once(folder: Path) -> None:
    several = [Reads(folder) for _ in range(4)]
    fetching, others = threading.Event(), threading.Barrier(len(several) - 1)
    slow, *waiting = several
    found: list[bool] = []

    async def fetch(ranges: Any) -> list[Any]:
        fetching.set()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, refused.wait, WAIT_S)  # until another read was refused
        slow.fetched += ranges
        return [PACK[start:stop] for start, stop in ranges]

    refused = threading.Event()
    claims = opened_folder(folder, None).claims

    def wait() -> None:
        assert fetching.wait(WAIT_S)
        pack = f"{key_of('s3://a')}-{key_of('packs/1')}"
        assert not claims.claim(pack, [(1_999_999, 2_100_000)])
        others.wait(WAIT_S)
        refused.set()

    def read_all(reads: Reads) -> None:
        if reads is not slow:
            wait()
        found.extend(reads.read([(0, 2_000_000)]) for _ in range(2))

    slow.fetch = fetch
    threads = [threading.Thread(target=read_all, args=(one,)) for one in (slow, *waiting)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert found == [True] * 8
    assert [one.fetched for one in waiting] == [[]] * 3
    assert slow.fetched_nbytes == 2_000_000


def test_a_forked_process_holds_no_claims_of_its_parent(folder: Path) -> None:
    claims = opened_folder(folder, None).claims
    assert Reads(folder).read([(0, 1_000)])
    assert claims.claim("0123456789abcdef", [(0, 100)])
    assert not claims.claim("0123456789abcdef", [(99, 200)])
    child = os.fork()
    if not child:
        is_refused = not claims.claim("0123456789abcdef", [(99, 200)])  # by the parent's lock
        os._exit(0 if is_refused and claims.claim("0123456789abcdef", [(100, 200)]) else 1)
    assert os.waitpid(child, 0)[1] == 0
    claims.release("0123456789abcdef", [(0, 100)])

    assert claims.claim("0123456789abcdef", [(99, 200)])
    claims.release("0123456789abcdef", [(99, 200)])
