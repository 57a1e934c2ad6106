"""Bytes as users write them, and how many are available."""

from __future__ import annotations

import pytest

from tensorlake.errors import InvalidInputError
from tensorlake.loader.runtime.memory import available_nbytes, memory_nbytes


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        (0, 0),
        (4096, 4096),
        ("0", 0),
        ("256MiB", 256 << 20),
        ("4 GB", 4 * 10**9),
        ("1.5GiB", 3 << 29),
        ("10kb", 10_000),
        ("2T", 2 * 10**12),
    ],
)
def test_sizes_are_read_as_written(text, nbytes):
    assert memory_nbytes(text, name="cache") == nbytes


@pytest.mark.parametrize("text", ["", "much", "-1MiB", -1, True, 1.5, "5 XB"])
def test_what_is_no_size_is_refused_by_name(text):
    with pytest.raises(InvalidInputError, match="prefetch"):
        memory_nbytes(text, name="prefetch")


def test_auto_is_a_share_of_what_is_available():
    assert 0 < memory_nbytes("auto", name="cache") < available_nbytes()


def machine(tmp_path, *, available_kb, limit=None, used=0):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal:  99999999 kB\nMemAvailable:  {available_kb} kB\n")
    if limit is not None:
        (tmp_path / "memory.max").write_text(f"{limit}\n")
        (tmp_path / "memory.current").write_text(f"{used}\n")
    return available_nbytes(cgroup=tmp_path, meminfo=meminfo)


def test_a_containers_limit_counts(tmp_path):
    assert machine(tmp_path, available_kb=1000, limit=500_000, used=100_000) == 400_000


def test_a_container_without_limit_has_the_machines_memory(tmp_path):
    assert machine(tmp_path, available_kb=1000, limit="max") == 1_024_000


def test_a_system_that_does_not_tell_has_a_default(tmp_path):
    assert available_nbytes(cgroup=tmp_path, meminfo=tmp_path / "none") > 0
