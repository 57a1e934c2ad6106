"""A disk that is full, or broken, at each write of a commit (format.md, test 28)."""

import errno
import os
from pathlib import Path

import pytest

import tensorlake as tl
from tensorlake.errors import StorageError
from tests.handles import rows_of, wait_for_storage

WRITES = range(1, 5)
"""Writes of a commit to a folder: a pack's, the entry's, their directories', the hint's."""


@pytest.mark.parametrize("number", WRITES)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["writev", "fsync", "open", "link"])
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
            assert rows_of(dataset) == [{"x": 1}, {"x": 2}]
        wait_for_storage()

    dataset.commit("again")
    dataset.append({"x": 3})
    dataset.commit("third")
    opened = tl.open(url)
    assert opened["x"][:].tolist() == [1, 2, 3]
    assert opened.version == "main@3"
    assert opened.check().ok
