"""A dataset's objects over HTTP: packs whole and in ranges, long ones piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import DatasetNotFoundError
from tensorlake_server.auth.principal import Principal
from tensorlake_server.auth.scopes import Action, Scope
from tensorlake_server.lake.authorized_lake import AllowedLake
from tensorlake_server.lake.lake import Lake
from tensorlake_server.settings.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from tests.unit.server.conftest import AppClient

TOKEN = "a-token-of-tests"
LONG = 20 << 20  # sent in three pieces


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    url = tmp_path_factory.mktemp("objects") / "noise"
    tl.create(str(url), {"x": "uint8"}, durability="none")
    long = url / "packs/aa" / f"{'a' * 32}-0.tlp"  # only its name is looked at
    long.parent.mkdir(parents=True)
    long.write_bytes(np.random.default_rng(0).bytes(LONG + 1))
    return long


@pytest.fixture
def client(pack: Path, connect: AppClient) -> httpx.Client:
    return connect(Settings(url=str(pack.parents[3]), token=TOKEN), token=TOKEN)


def address(pack: Path) -> str:
    return f"/v1/datasets/noise/objects/{pack.relative_to(pack.parents[2])}"


def test_a_long_pack_comes_whole(client: httpx.Client, pack: Path) -> None:
    answer = client.get(address(pack))

    assert answer.status_code == 200
    assert len(answer.content) > LONG
    assert answer.content == pack.read_bytes()


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (10, 4000), (1 << 20, (9 << 20) + 5), (5, LONG)]
)
def test_a_range_is_that_part_of_the_file(
    client: httpx.Client, pack: Path, first: int, last: int
) -> None:
    answer = client.get(address(pack), headers={"Range": f"bytes={first}-{last}"})

    assert answer.status_code == 206
    assert answer.content == pack.read_bytes()[first : last + 1]


@pytest.mark.parametrize("nbytes", [10, 12 << 20])
def test_a_range_ends_with_the_object(client: httpx.Client, pack: Path, nbytes: int) -> None:
    whole = pack.read_bytes()
    start = len(whole) - 5

    answer = client.get(address(pack), headers={"Range": f"bytes={start}-{start + nbytes}"})

    assert (answer.status_code, answer.content) == (206, whole[-5:])
    assert answer.headers["Content-Range"] == f"bytes {start}-{len(whole) - 1}/{len(whole)}"


@pytest.mark.parametrize("asked", ["bytes={0}-{1}", "bytes={0}-", "bytes=-0"])
def test_a_range_behind_the_end_is_refused_with_the_length(
    client: httpx.Client, pack: Path, asked: str
) -> None:
    nbytes = pack.stat().st_size

    answer = client.get(address(pack), headers={"Range": asked.format(nbytes, nbytes + 9)})

    assert answer.status_code == 416
    assert answer.headers["Content-Range"] == f"bytes */{nbytes}"


@pytest.mark.parametrize("nbytes", [1, 9 << 20])
def test_a_range_may_leave_out_one_of_its_ends(
    client: httpx.Client, pack: Path, nbytes: int
) -> None:
    whole = pack.read_bytes()

    ends = [f"bytes={len(whole) - nbytes}-", f"bytes=-{nbytes}"]
    answers = [client.get(address(pack), headers={"Range": one}) for one in ends]

    assert [one.status_code for one in answers] == [206, 206]
    assert all(one.content == whole[-nbytes:] for one in answers)


@pytest.mark.parametrize("asked", ["bytes=9-3", "bytes=-", "rows=0-3", "bytes=0-1,4-5", "bytes=a-"])
def test_what_is_no_single_range_is_answered_by_the_whole_object(
    client: httpx.Client, pack: Path, asked: str
) -> None:
    answer = client.get(address(pack), headers={"Range": asked})

    assert answer.status_code == 200
    assert int(answer.headers["Content-Length"]) == pack.stat().st_size


def test_a_range_of_an_answer_known_before_is_answered_by_the_whole(
    client: httpx.Client, pack: Path
) -> None:
    client.get(address(pack), headers={"Range": "bytes=0-9"})  # from here on it is at hand
    headers = {"Range": "bytes=0-9", "If-Range": '"of another object"'}

    answer = client.get(address(pack), headers=headers)

    assert (answer.status_code, len(answer.content)) == (200, pack.stat().st_size)


def test_head_says_how_long_an_object_is_and_sends_none_of_it(
    client: httpx.Client, pack: Path
) -> None:
    answer = client.head(address(pack))

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Length"] == answer.headers["X-Length"] == str(LONG + 1)


def test_a_pack_that_was_removed_is_gone_though_it_was_read(
    client: httpx.Client, pack: Path
) -> None:
    copy = pack.with_name(f"{'f' * 32}-{pack.name.rpartition('-')[2]}")
    copy.write_bytes(pack.read_bytes())
    there = client.get(address(copy), headers={"Range": "bytes=0-9"})
    copy.unlink()

    gone = [client.get(address(copy), headers={"Range": f"bytes=0-{n}"}) for n in (9, 9 << 20)]

    assert there.content == pack.read_bytes()[:10]
    assert [answer.json()["code"] for answer in gone] == ["missing-object"] * 2


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("packs/aa/{}", "bytes=0-0"),
        ("packs/aa/{}", "bytes=4095-70000"),
        ("packs/aa/{}", f"bytes={LONG - 9}-{LONG + 900}"),
        ("packs/aa/{}", f"bytes={LONG + 1}-{LONG + 9}"),
        ("packs/aa/{}", "bytes=9-3"),
        ("packs/aa", "bytes=0-9"),
        ("packs/aa//{}", "bytes=0-9"),
        ("packs/aa/../aa/{}", "bytes=0-9"),
        ("packs/ab/none.tlp", "bytes=0-9"),
        ("tensorlake.json", "bytes=0-9"),
    ],
)
def test_the_loop_answers_as_a_thread_does(
    client: httpx.Client, pack: Path, path: str, asked: str
) -> None:
    where = f"/v1/datasets/noise/objects/{path.format(pack.name)}"

    by_thread = client.get(where, headers={"Range": asked})  # the first to ask for the dataset
    client.get(address(pack), headers={"Range": "bytes=0-0"})
    by_loop = client.get(where, headers={"Range": asked})

    assert facts_of(by_thread) == facts_of(by_loop)


def facts_of(answer: httpx.Response) -> tuple[int, bytes, dict[str, str]]:
    told = {name: value for name, value in answer.headers.items() if name != "x-request-id"}
    return answer.status_code, answer.content, told


def test_a_dataset_that_others_opened_stays_closed_to_whom_it_is(pack: Path) -> None:
    lake = Lake(Settings(url=str(pack.parents[3]), token=TOKEN))
    reader = Principal("reader", (Scope(Action.READ, "noise"),))
    other = Principal("other", (Scope(Action.READ, "elsewhere"),))

    store = AllowedLake(lake, reader, is_writable=False).store("noise")

    assert AllowedLake(lake, reader, is_writable=False).kept_store("noise") is store
    with pytest.raises(DatasetNotFoundError):
        AllowedLake(lake, other, is_writable=False).kept_store("noise")
