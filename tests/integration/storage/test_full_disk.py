"""A disk that is full, or broken, at each write of a commit (format.md, test 28)."""

import errno
import os
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import StorageError
from tests.support.handles import rows_of, wait_for_storage

NEEDED = {"writev": 2, "fsync": 3, "open": 5, "link": 2, "replace": 0}
"""Calls without which no commit to a folder succeeds: the read of the head's entry, a pack's,
the entry's, their directories'."""
MADE = {"writev": 3, "fsync": 4, "open": 7, "link": 2, "replace": 1}
"""Those and what is tried again, or is the hint's and best-effort."""


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize(
    ("call", "number"),
    [(call, number) for call, count in MADE.items() for number in range(1, count + 1)],
)
def test_a_write_that_fails_leaves_the_head_and_what_is_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int, number: int
) -> None:
    """The operating system fails, not our code; another try publishes once."""
    url = str(tmp_path / "lake")
    dataset = tl.create(url, {"x": "int64"})
    dataset.append({"x": 1})
    dataset.commit("first")
    wait_for_storage()
    dataset.append({"x": 2})
    real, calls = getattr(os, call), 0

    def failing(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            raise OSError(code, os.strerror(code))
        return real(*arguments, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, failing)
        try:
            dataset.commit("second")
        except StorageError:
            head, rows = "main@1", [{"x": 1}]
            assert number <= NEEDED[call]
        else:
            head, rows = "main@2", [{"x": 1}, {"x": 2}]
            assert number > NEEDED[call]
        wait_for_storage()
        assert calls >= number, "nothing failed"

    with tl.open(url) as seen:
        assert seen.version == head
        assert rows_of(seen) == rows
    assert rows_of(dataset) == [{"x": 1}, {"x": 2}]
    dataset.commit("again")
    dataset.append({"x": 3})
    dataset.commit("third")
    opened = tl.open(url)
    assert opened["x"][:].tolist() == [1, 2, 3]
    assert opened.version == "main@3"
    assert opened.check().ok
