"""The audit log where its disk is full, its file is full, and several servers write to it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

import tensorlake as tl
from tensorlake_server import Settings
from tensorlake_server.http.problems import Problem
from tensorlake_server.request.audit import WAITING_NBYTES_MAX, AuditLog

FULL = Path("/dev/full")  # opens like a file, and each byte written to it is too much
APPEND = {"operations": [{"op": "append", "columns": {"x": [2]}}], "message": "two"}
TRANSACTIONS = "/v1/datasets/pets/transactions"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    with tl.create(str(tmp_path / "lake/pets"), {"x": "int64"}, durability="none") as dataset:
        dataset.append({"x": 1})
        dataset.commit("one")
    return Settings(url=str(tmp_path / "lake"), write=True, audit_log=tmp_path / "audit.jsonl")


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_change_has_a_line_before_it_and_a_line_after_it(
    settings: Settings, connect: Callable[..., httpx.Client], tmp_path: Path
) -> None:
    client = connect(settings, token=settings.token)

    changed = client.post(TRANSACTIONS, json=APPEND)
    client.get("/v1/datasets/pets")

    before, after, read = lines_of(tmp_path / "audit.jsonl")
    assert before["request"] == after["request"] == changed.headers["X-Request-Id"]
    assert (before["status"], after["status"], after["version"]) == (None, 200, "main@2")
    assert (read["method"], read["status"]) == ("GET", 200)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", TRANSACTIONS, APPEND),
        ("POST", "/v1/datasets", {"name": "new", "schema": {"x": "int8"}}),
        ("POST", "/v1/datasets/pets/branches", {"name": "fix"}),
        ("POST", "/v1/datasets/pets/tags", {"name": "v1"}),
        ("PUT", "/v1/datasets/pets/objects/packs/ab/" + "ab" * 16 + "-0.tlp", {}),
        ("DELETE", "/v1/datasets/pets?confirm=pets", None),
    ],
    ids=["transaction", "create", "branch", "tag", "object", "delete"],
)
def test_a_full_disk_stops_changes_and_no_reading_and_loses_no_line(
    settings: Settings,
    connect: Callable[..., httpx.Client],
    tmp_path: Path,
    method: str,
    path: str,
    body: dict[str, object] | None,
) -> None:
    audit = tmp_path / "audit.jsonl"
    client = connect(settings, token=settings.token)
    audit.unlink()
    audit.symlink_to(FULL)
    before = sorted(one for one in (tmp_path / "lake").rglob("*"))

    refused = client.request(method, path, json=body)
    read = client.get("/v1/datasets/pets/rows")
    after = sorted(one for one in (tmp_path / "lake").rglob("*"))
    audit.unlink()
    client.get("/v1/datasets/pets")

    assert (refused.status_code, refused.json()["code"]) == (503, "audit-unwritable")
    assert (read.status_code, before) == (200, after)
    assert [(one["method"], one["status"]) for one in lines_of(audit)] == [
        (method, 503),
        ("GET", 200),
        ("GET", 200),
    ]


def test_all_requests_are_refused_when_too_many_lines_wait(
    settings: Settings, tmp_path: Path
) -> None:
    del settings
    audit = tmp_path / "full.jsonl"
    log = AuditLog(audit, most_nbytes=1 << 30, files=0)
    audit.unlink()
    audit.symlink_to(FULL)
    log.check_room()

    log.write({"path": "x" * WAITING_NBYTES_MAX})

    with pytest.raises(Problem) as caught:
        log.check_room()
    assert caught.value.status_code == 503
    audit.unlink()
    log.check_room()
    assert len(lines_of(audit)) == 1


def test_a_line_that_fits_in_part_leaves_nothing_of_itself(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    log = AuditLog(audit, most_nbytes=1 << 30, files=0)
    log.write({"n": 1})
    size = audit.stat().st_size
    resource = pytest.importorskip("resource")
    signal = pytest.importorskip("signal")
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
    try:
        log.write({"n": 2})
        cut = audit.read_text()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    log.write({"n": 3})

    assert len(cut.splitlines()) == 1
    assert [one["n"] for one in lines_of(audit)] == [1, 2, 3]


def test_a_full_file_is_renamed_and_the_oldest_goes(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", most_nbytes=200, files=2)

    for number in range(50):
        log.write({"n": number})

    found = sorted(one.name for one in tmp_path.iterdir())
    assert found == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all((tmp_path / name).stat().st_size <= 200 for name in found)
    kept = [one["n"] for name in reversed(found) for one in lines_of(tmp_path / name)]
    last = [one["n"] for one in lines_of(tmp_path / "audit.jsonl")]
    assert last[-1] == 49
    assert sorted(kept) == list(range(50 - len(kept), 50))


def test_two_servers_that_share_a_file_lose_no_line_when_it_is_full(tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    logs = [AuditLog(audit, most_nbytes=2000, files=0) for _ in range(2)]

    def write(who: int) -> None:
        for number in range(200):
            logs[who].write({"who": who, "n": number})

    threads = [threading.Thread(target=write, args=[who]) for who in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    written = [(one["who"], one["n"]) for path in tmp_path.iterdir() for one in lines_of(path)]
    assert sorted(written) == [(who, number) for who in range(2) for number in range(200)]


def test_a_log_that_cannot_be_written_is_found_at_the_start(settings: Settings) -> None:
    with pytest.raises(tl.errors.InvalidInputError, match="--audit-log"):
        AuditLog(Path("/proc/audit.jsonl"), most_nbytes=1, files=0)
    assert replace(settings, audit_files=0).audit_files == 0
