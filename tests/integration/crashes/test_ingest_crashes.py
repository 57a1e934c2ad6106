"""An ingestion killed at any moment, and called again, ends as one that was left alone.

SIGKILL reaches the process at the n-th time that it turns to a file: 12 points spread over its
whole run. What counts as the same: the same rows in the same order, every value and stored byte.
"""

import hashlib
import signal
from pathlib import Path

import pytest

import tensorlake as tl
from tests.support.ingesters import BEFORE, KINDS, change_source, images, make_source, run
from tests.support.writers import fork_server

POINTS = 12
SAMPLED = (3, 8, 11)
"""Of the twelve, in the default suite: early, in the middle, late."""
PATIENCE_S = 120


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    make_source(folder)
    return folder


@pytest.fixture
def changed(tmp_path) -> Path:
    """A source that changed after it was ingested."""
    folder = tmp_path / "changed" / "source"
    folder.mkdir(parents=True)
    make_source(folder)
    images(folder, folder.parent / BEFORE).close()
    change_source(folder)
    return folder


def ingest(kind: str, src: Path, dst: Path, killed_at: int | None = None) -> int | None:
    """Ingest in a process of its own; how often it turned to files, or None if it was killed."""
    context = fork_server()
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(kind, src, dst, sender, killed_at))
    process.start()
    sender.close()
    process.join(PATIENCE_S)
    assert process.exitcode in {0, -signal.SIGKILL}, f"{kind} ended with {process.exitcode}"
    return int(receiver.recv()) if process.exitcode == 0 else None


def content_hash(url: Path) -> str:
    """A digest of the schema and of every row's values, stored bytes of pictures among them."""
    with tl.open(url, read_only=True) as ds:
        digest = hashlib.blake2b(repr([(n, t.to_json()) for n, t in ds.schema.items()]).encode())
        for row in ds.to_arrow().to_pylist():
            digest.update(repr(row).encode())
        return f"{len(ds)} rows {digest.hexdigest()}"


def check(kind: str, source: Path, folder: Path, points: tuple[int, ...]) -> None:
    whole = folder / "whole.tl"
    turns = ingest(kind, source, whole)
    assert turns is not None
    expected, commits = content_hash(whole), len(tl.open(whole).log())
    assert commits > POINTS / 2  # kills fall between commits too
    for point in points:
        url = folder / f"{point}.tl"
        killed = ingest(kind, source, url, turns * point // (POINTS + 1)) is None
        assert killed

        assert ingest(kind, source, url) is not None

        assert content_hash(url) == expected
        with tl.open(url) as ds:
            assert len(ds.log()) == commits
            assert ds.check().ok


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"sync"}))
def test_killed_ingestion_ends_with_the_same_content(kind, source, tmp_path):
    check(kind, source, tmp_path, SAMPLED)


def test_killed_sync_ends_with_the_same_content(changed, tmp_path):
    check("sync", changed, tmp_path, SAMPLED)


@pytest.mark.soak
def test_sync_killed_at_twelve_points_ends_with_the_same_content(changed, tmp_path):
    check("sync", changed, tmp_path, tuple(range(1, POINTS + 1)))


@pytest.mark.soak
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"sync"}))
def test_ingestion_killed_at_twelve_points_ends_with_the_same_content(kind, source, tmp_path):
    check(kind, source, tmp_path, tuple(range(1, POINTS + 1)))


@pytest.mark.slow
def test_ingestion_killed_again_and_again_ends_with_the_same_content(source, tmp_path):
    whole, url = tmp_path / "whole.tl", tmp_path / "often.tl"
    turns = ingest("images", source, whole)
    assert turns is not None

    for _ in range(POINTS):  # each run gets some way, and dies
        ingest("images", source, url, turns // 3)
    assert ingest("images", source, url) is not None

    assert content_hash(url) == content_hash(whole)
