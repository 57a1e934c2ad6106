"""What clients put into logs is checked whole before it stands, and carries their name (B4).

Over a real server, with a token that may write all of the dataset. And where such an entry lies in
a folder all the same, put there by hand, it costs its own branch and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from xxhash import xxh3_64_intdigest

import tensorlake as tl
from tensorlake.cli import main
from tensorlake.errors import AccessError, InvalidInputError, TensorlakeError
from tensorlake.format import (
    ChunkKind,
    Entry,
    Extents,
    PackWriter,
    PageKind,
    encode_page,
    new_txid,
    seal,
)
from tensorlake.storage import LakeStore, ObjectExistsError, RetryPolicy, run
from tensorlake.versions import BranchLog
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.hostile_entries import honest_entry, hostile_entries
from tests.support.serving import listening

QUICK = RetryPolicy(attempts=2, first_delay_s=0.01, max_delay_s=0.01, deadline_s=5)


@dataclass(frozen=True)
class Served:
    folder: Path
    url: str
    tokens: dict[str, str]

    def store(self, who: str = "ana") -> LakeStore:
        return LakeStore(self.url, self.tokens[who], policy=QUICK)

    def open(self, version: str | None = None, *, who: str = "ana") -> tl.Dataset:
        return tl.open(self.url, version, token=self.tokens[who])

    def newest(self, branch: str) -> Entry:
        found = run(BranchLog(self.store(), branch).head())
        assert found is not None
        return found

    def objects(self) -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in self.folder.rglob("*.json")}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("hostile")
    lake, auth = root / "lake", root / "tokens.json"
    lake.mkdir()
    scopes = {"ana": ["admin"], "Bo Ärger": ["write"], "fixer": ["write:pets@fix-*"]}
    tokens = {
        name: create_token(auth, name=name, scopes=some, expires=None, now=datetime.now(UTC))[0]
        for name, some in scopes.items()
    }
    app = create_app(Settings(url=str(lake), auth=auth, write=True))
    with listening(app) as address:
        served = Served(lake / "pets", f"{address}/pets", tokens)
        with tl.create(served.url, {"x": "int64", "note": tl.Text()}, token=tokens["ana"]) as ds:
            ds.extend({"x": [1, 2, 3], "note": ["a", "b", "c"]})
            ds.commit("three")
            ds.extend({"x": [4, 5], "note": ["d", "e"]})
            ds.delete([0])
            ds.commit("two more")
            with ds.branch("fix-a") as fix:
                fix["x"][0] = 9
                fix.commit("nine")
        yield served


@pytest.mark.slow
def test_no_hostile_entry_stands(served: Served) -> None:
    store, before = served.store(), served.newest("main")
    hostile = hostile_entries(before, "main")
    path = f"branches/main/{before.seq + 1:010d}.json"
    objects = served.objects()

    stood: list[str] = []
    for what, data in hostile.items():
        try:
            run(store.put_if_absent(path, data))
        except (InvalidInputError, AccessError):
            continue
        stood.append(what)
        (served.folder / path).unlink()

    assert len(hostile) > 100
    assert stood == []
    assert served.objects() == objects


def test_the_honest_entry_that_they_are_made_of_stands(served: Served) -> None:
    with served.open() as ds, ds.branch("fix-honest") as made:
        branch = made.version.partition("@")[0]
    before = served.newest(branch)
    path = f"branches/{branch}/{before.seq + 1:010d}.json"

    run(served.store().put_if_absent(path, seal(honest_entry(before, branch))))

    assert served.open(branch).log()[0].message == "honest"


@pytest.mark.parametrize(
    ("branch", "seq", "make"),
    [
        ("main", 1, lambda served: served.newest("fix-a")),  # a number that is taken: another's
        ("main", 3, lambda served: served.newest("fix-a").changed(seq=3)),
        ("fix-a", 3, lambda served: served.newest("main").changed(seq=3)),
        ("fix-new", 0, lambda served: served.newest("fix-a").changed(seq=0)),
        ("fix-new", 0, lambda served: _begin(schema={"tensors": []})),
        ("fix-new", 0, lambda served: _begin(parents=served.newest("main").parents)),
        ("fix-new", 0, lambda served: _begin(author="eve")),
        ("fix@new", 0, lambda served: _begin()),
        ("fix-new", 1, lambda served: _begin(seq=1)),
        ("main", 0, lambda served: _begin()),
    ],
)
def test_no_entry_of_elsewhere_stands(
    served: Served, branch: str, seq: int, make: Callable[[Served], Entry]
) -> None:
    folder = branch.replace("@", "_40")
    objects = served.objects()

    with pytest.raises((InvalidInputError, AccessError, ObjectExistsError)):
        run(
            served.store().put_if_absent(
                f"branches/{folder}/{seq:010d}.json", make(served).sealed()[0]
            )
        )

    assert served.objects() == objects


def _begin(**members: Any) -> Entry:
    time = int(datetime.now(UTC).timestamp() * 1e6)
    begun = Entry(kind="begin", seq=0, txid=new_txid(), time=time, author="ana")
    return begun.changed(**members)


def test_what_is_published_carries_the_tokens_name_whatever_the_client_says(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORLAKE_AUTHOR", "somebody-else")
    with served.open(who="Bo Ärger") as ds:
        made = ds.branch("fix-named")
        made.append({"x": 1, "note": "z"})
        made.commit("one")
        made.tag("named")
        made.query("WHERE x > 3").save("large")
        made.optimize()
        made.merge("fix-a")
        made.restore("fix-named@1")
        ds.delete_branch("fix-named")

    log = run(_all(BranchLog(served.store(), "fix-named")))

    assert {entry.author for entry in log} == {"Bo Ärger"}
    assert [entry.kind for entry in log][-1] == "end"
    assert json.loads((served.folder / "tags/large.json").read_bytes())["author"] == "Bo Ärger"


async def _all(log: BranchLog) -> list[Entry]:
    return [entry async for entry in log.after(-1)]


def test_a_client_that_says_another_name_is_told_which_it_has(served: Served) -> None:
    before = served.newest("fix-a")
    said = seal(honest_entry(before, "fix-a", author="ana"))

    with pytest.raises(InvalidInputError, match="author is 'ana', but it is put by 'fixer'"):
        run(served.store("fixer").put_if_absent(f"branches/fix-a/{before.seq + 1:010d}.json", said))


@pytest.mark.parametrize(
    "change",
    [
        {"branch": "ghost"},
        {"seq": 10**9},
        {"seq": "1"},
        {"digest_of": "0" * 40},
        {"txid": "1"},
        {"expires": "2030-01-01T00:00:00"},
        {"expires": 5},
        {"rows": 3},
        {"rows": {"height": 0, "rows": 1, "tail": {"base": [10**9], "rows": [1]}}},
        {"more": [[[[1]]]]},
        {"deleted": True},
    ],
)
def test_no_hostile_tag_stands(served: Served, change: dict[str, Any]) -> None:
    newest = served.newest("main")
    body = {"branch": "main", "seq": newest.seq, "digest_of": newest.digest, "txid": new_txid()}
    objects = served.objects()

    for path in ("tags/fresh.json", f"tags/pin-{body['txid']}.json"):
        with pytest.raises(InvalidInputError):
            run(served.store().put_if_absent(path, seal(body | change)))

    assert served.objects() == objects


def test_a_tag_is_never_moved_and_takes_no_branchs_name(served: Served) -> None:
    first = served.open("main@1")
    first.tag("stays")
    newest, store = served.newest("main"), served.store()
    body = {"branch": "main", "seq": newest.seq, "digest_of": newest.digest, "txid": new_txid()}

    with pytest.raises(InvalidInputError, match="tags do not move"):
        run(store.put("tags/stays.json", seal(body)))
    with pytest.raises(InvalidInputError, match="is a branch"):
        run(store.put_if_absent("tags/fix-a.json", seal(body)))
    with pytest.raises(InvalidInputError, match="tombstone"):
        run(store.put("tags/stays.json", seal({"deleted": True, "txid": "x"})))
    first.delete_tag("stays")

    assert "stays" not in served.open().tags


def test_a_chunk_of_another_transaction_is_not_adopted(served: Served) -> None:
    """It may be nobody's: a collector takes it away under who reads it."""
    store, before = served.store(), served.newest("main")
    with served.open("fix-a") as other:
        other.append({"x": 7, "note": "theirs"})
        other.commit("theirs")
    entry = served.newest("fix-a")
    value = honest_entry(before, "main")
    value |= {name: entry.to_json()[name] for name in ("roots", "rows", "row_ids", "physical")}

    with pytest.raises(InvalidInputError, match="another transaction's"):
        run(store.put_if_absent(f"branches/main/{before.seq + 1:010d}.json", seal(value)))


def test_a_code_keeps_its_class(served: Served) -> None:
    """B4: where names were cut off, rows had codes that no name was left for."""
    url, token = served.url.replace("/pets", "/classes"), served.tokens["ana"]
    with tl.create(url, {"label": tl.ClassLabel(["cat", "dog"])}, token=token) as ds:
        ds.extend({"label": ["cat", "dog"]})
        ds.commit("two")
    store = LakeStore(url, token, policy=QUICK)
    before = run(BranchLog(store, "main").head())
    assert before is not None
    value = honest_entry(before, "main")
    value["schema"]["tensors"][0]["type"]["names"] = ["cat"]
    id_ = value["schema"]["tensors"][0]["id"]
    value["changes"]["schema"] = [{"op": "names", "tensor": id_, "name": "label"}]

    with pytest.raises(InvalidInputError, match="1 class names, but had 2: a dropped class"):
        run(store.put_if_absent(f"branches/main/{before.seq + 1:010d}.json", seal(value)))


def test_all_that_changes_class_names_stands(served: Served) -> None:
    url, token = served.url.replace("/pets", "/renamed"), served.tokens["ana"]
    with tl.create(url, {"label": tl.ClassLabel(["cat", "dog", "cow"])}, token=token) as ds:
        ds.extend({"label": ["cat", "dog"]})
        ds.commit("two")
        first = ds.version
        made = ds.branch("fix-made")
        made["label"].add_names(["emu"])
        made.append({"label": "emu"})
        made.commit("emu")
        ds["label"].drop_names(["cow"])
        ds["label"].rename("cat", "kitten")
        ds.add_tensor("seen", "int64", fill=0)
        ds.drop_tensor("seen")
        ds.commit("renamed")
        ds.merge("fix-made")
        ds.restore(first)
        ds.append({"label": "cow"})
        ds.commit("cow")
        ds["label"].add_names(["ox"])
        ds.commit("ox")

    again = tl.open(url, token=token)
    assert again["label"].names == ("cat", "dog", "cow", "", "ox")
    assert again["label"][:].tolist() == [0, 1, 2]


def _put_pages(served: Served, txid: str, pages: Sequence[bytes]) -> list[tuple[int, bytes]]:
    """Put a pack of pages as a client may; where each of them is."""
    writer = PackWriter(txid, 0)
    places = [(writer.add([page], what="page"), page) for page in pages]
    pieces = b"".join(map(bytes, writer.finish()))
    run(served.store().put_if_absent(writer.id.path, pieces))
    return places


def _child(place: tuple[int, bytes], rows: int, entries: int, height: int) -> list[Any]:
    offset, page = place
    return [0, offset, len(page), f"{xxh3_64_intdigest(page):016x}", rows, entries, height, 0]


def _forged_tree(served: Served, before: Entry, pages: Sequence[bytes], child: Any) -> bytes:
    """An entry one of whose tensors has a tree of forged pages."""
    value = honest_entry(before, "main")
    places = _put_pages(served, value["txid"], pages)
    root = value["roots"][next(iter(value["roots"]))]
    listed = child(places)
    root.clear()
    root |= {"height": 1, "rows": before.physical, "children": listed}
    root["packs"] = [f"{value['txid']}-0"]
    return seal(value)


def _leaf(entries: int, rows: int) -> bytes:
    """A leaf of extents without bytes, of which the first has all rows: it takes hardly any."""
    counts = np.zeros(entries, np.uint32)
    counts[0] = rows
    table = Extents.without_bytes(ChunkKind.FILL, rows).take(np.zeros(entries, np.int64))
    columns = {**table.to_columns(), "rows": counts}
    return encode_page(PageKind.EXTENTS, columns, entries=entries, rows=rows)


@pytest.mark.parametrize("what", ["one page often", "a leaf of a million"])
def test_no_small_tree_makes_the_server_walk_a_large_one(served: Served, what: str) -> None:
    before = served.newest("main")
    rows = before.physical
    pages, child = {
        "one page often": ([_leaf(1, 1)], lambda places: [_child(places[0], 1, 1, 0)] * rows),
        "a leaf of a million": (
            [_leaf(10**6, rows)],
            lambda places: [_child(places[0], rows, 10**6, 0)],
        ),
    }[what]
    data = _forged_tree(served, before, pages, child)

    with pytest.raises(InvalidInputError, match="referenced twice, or too large for a page"):
        run(served.store().put_if_absent(f"branches/main/{before.seq + 1:010d}.json", data))


@pytest.mark.slow
def test_a_hostile_entry_in_a_folder_costs_its_branch_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = str(tmp_path / "pets")
    with tl.create(url, {"x": "int64", "note": tl.Text()}, durability="none") as ds:
        ds.extend({"x": [1, 2, 3], "note": ["a", "b", "c"]})
        ds.commit("three")
        before = _entry(tmp_path, "main", 1)
        hostile = hostile_entries(before, "main")
        for number, what in enumerate(hostile):
            folder = tmp_path / f"pets/branches/bad-{number}"
            folder.mkdir()
            for seq in range(2):
                name = f"{seq:010d}.json"
                (folder / name).write_bytes((tmp_path / "pets/branches/main" / name).read_bytes())
            (folder / "0000000002.json").write_bytes(hostile[what])
        ds.branch("good")
    unreadable = [
        f"bad-{number}" for number, what in enumerate(hostile) if not _parses(hostile[what])
    ]

    ds = tl.open(url)
    with pytest.warns(tl.DamagedBranchWarning, match="cannot be read") as warned:
        names = ds.branches
    survivors = [_read(ds, name) for name in names]
    report = ds.check()
    with pytest.raises(SystemExit) as ended:
        main(["branch", url])
    listed = capsys.readouterr().out
    with (
        listening(create_app(Settings(url=url, token="t"))) as address,
        closing(
            httpx.Client(base_url=address, headers={"Authorization": "Bearer t"}, timeout=60)
        ) as client,
    ):
        answer = client.get("/v1/datasets/pets/branches").json()["branches"]

    assert len(unreadable) > 60
    assert len(warned) == len(unreadable)
    assert set(unreadable) | {"main", "good"} <= set(names)
    assert len(survivors) == len(names)
    assert (len(ds), len(ds.at("good")), ds["x"][:].tolist()) == (3, 3, [1, 2, 3])
    found = {finding.object.split("/")[1] for finding in report.findings if "/" in finding.object}
    assert set(unreadable) <= found
    assert ended.value.code == 0
    assert "good@1" in listed
    assert all(name in listed for name in unreadable)
    damaged = {one["name"]: one["damaged"] for one in answer if "damaged" in one}
    assert set(unreadable) <= set(damaged)
    assert {one["name"] for one in answer} >= {"main", "good"}


def _entry(folder: Path, branch: str, seq: int) -> Entry:
    path = folder / f"pets/branches/{branch}/{seq:010d}.json"
    return Entry.from_bytes(path.read_bytes(), where=str(path))


def _parses(data: bytes) -> bool:
    try:
        return Entry.from_bytes(data, where="").seq == 2
    except TensorlakeError:
        return False


def _read(ds: tl.Dataset, branch: str) -> str:
    """What becomes of a branch that may be damaged: it is read, or refused by an error of ours."""
    try:
        there = ds.at(branch)
        return f"{len(there)} {there.log()[0].message} {there['x'][:].tolist()}"
    except TensorlakeError as error:
        return type(error).__name__
