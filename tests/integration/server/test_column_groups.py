"""Column groups committed through a server: read whole and checked, and forged ones refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import tensorlake as tl
from tensorlake.errors import AccessError, InvalidInputError
from tensorlake.format import Entry, new_txid, seal
from tensorlake.storage import LakeStore, RetryPolicy, run
from tensorlake.versions import BranchLog
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token
from tests.support.column_groups import append_to_group, group_of, replace_group
from tests.support.hostile_entries import honest_entry
from tests.support.serving import listening

QUICK = RetryPolicy(attempts=2, first_delay_s=0.01, max_delay_s=0.01, deadline_s=5)
ITEMS = [("a.jpg", 10), ("b.jpg", 20)]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    root = tmp_path_factory.mktemp("groups")
    lake, auth = root / "lake", Path(root / "tokens.json")
    lake.mkdir()
    token = create_token(auth, name="ana", scopes=["admin"], expires=None, now=datetime.now(UTC))[0]
    with listening(create_app(Settings(url=str(lake), auth=auth, write=True))) as address:
        url = f"{address}/pets"
        with tl.create(url, {"x": "int64"}, token=token) as ds:
            ds.extend({"x": [1, 2]})
            replace_group(ds, "files", ITEMS)
            ds.create_index("x")
            ds.commit("two")
        yield url, token


def newest(served: tuple[str, str]) -> Entry:
    found = run(BranchLog(LakeStore(*served, policy=QUICK), "main").head())
    assert found is not None
    return found


@pytest.mark.slow
def test_groups_are_committed_and_moved_over_a_server(served: tuple[str, str]) -> None:
    url, token = served
    with tl.open(url, token=token) as ds, ds.branch("fix-work"):
        pass
    with tl.open(url, "fix-work", token=token) as one, tl.open(url, "fix-work", token=token) as two:
        append_to_group(one, "files", [("c.jpg", 30)])
        one.append({"x": 3})
        two.append({"x": 4})
        for number in range(20):
            replace_group(two, f"group {number}", ITEMS)
        two.commit("large enough for a page")
        one.commit("after a lost race")

    with tl.open(url, "fix-work", token=token) as ds:
        assert group_of(ds, "files") == [*ITEMS, ("c.jpg", 30)]
        assert group_of(ds, "group 7") == ITEMS
        assert ds.check().ok


def _group(value: Json) -> Json:
    return value["indexes"]["files"]


def _part(value: Json) -> Json:
    return _group(value)["schema"]["tensors"][0]


def _root(value: Json) -> Json:
    return next(iter(_group(value)["roots"].values()))


def _own_pack(value: Json) -> None:
    for root in _group(value)["roots"].values():
        root["tail"]["packs"] = [f"{value['txid']}-7"] * len(root["tail"]["packs"])


def _stray_page(value: Json) -> None:
    root = _root(value)
    del root["tail"]
    root |= {
        "height": 1,
        "packs": [f"{new_txid()}-0"],
        "children": [[0, 64, 100, "0" * 16, root["rows"], 1, 0, 2]],
    }


def _covers(value: Json) -> Json:
    return value["indexes"]["index/x"]["covers"]


def _state(value: Json) -> Json:
    return next(iter(_covers(value).values()))["state"]


def _more_covered(value: Json) -> None:
    tail = _state(value)["tail"]
    tail["rows"], _state(value)["rows"] = [10**12], 10**12


FORGED: dict[str, Callable[[Json], Any]] = {
    "no kind": lambda value: _group(value).pop("kind"),
    "other rows": lambda value: _group(value).update(rows=7),
    "a member unknown here": lambda value: _group(value).update(covers={}),
    "a reserved name": lambda value: value["indexes"].update(page=_group(value), more=1),
    "a long name": lambda value: value["indexes"].update({"x" * 300: _group(value)}),
    "large parameters": lambda value: _group(value).update(parameters={"a": "x" * 5000}),
    "a huge number": lambda value: _group(value).update(parameters={"a": 10**400}),
    "a type unknown": lambda value: _part(value).update(type={"kind": "hologram"}),
    "an encoding of another type": lambda value: _part(value)["encodings"][0].update(
        dtype="float64"
    ),
    "no encodings": lambda value: _part(value).update(encodings=[]),
    "chunks of exabytes": lambda value: _part(value).update(chunk_nbytes=10**18),
    "a part without a root": lambda value: _group(value)["roots"].popitem(),
    "a stranger's pack": lambda value: _root(value)["tail"].update(packs=[f"{'ab' * 16}-0"]),
    "an own pack that is not there": _own_pack,
    "a stranger's page": _stray_page,
    "extents of an unknown kind": lambda value: _root(value)["tail"].update(kind=[9]),
    "extents of tiles": lambda value: _root(value)["tail"].update(kind=[4]),
    "extents of no encoding": lambda value: _root(value)["tail"].update(read_as=[3]),
    "a page that is not there": lambda value: value.update(
        indexes={"page": [f"{'ab' * 16}-0", 0, 10, "0" * 16]}
    ),
    "coverage of a tensor that is not there": lambda value: _covers(value).update(
        {"ab" * 5: next(iter(_covers(value).values()))}
    ),
    "coverage of rows that are not there": _more_covered,
    "coverage that is an array": lambda value: value["indexes"]["index/x"].update(covers=[]),
    "coverage without a state": lambda value: next(iter(_covers(value).values())).pop("state"),
    "coverage without its type": lambda value: next(iter(_covers(value).values())).pop("reads"),
    "coverage of another type": lambda value: next(iter(_covers(value).values())).update(reads=7),
    "coverage with a stray page": lambda value: next(iter(_covers(value).values())).update(
        state={
            "rows": 2,
            "height": 1,
            "packs": [f"{new_txid()}-0"],
            "children": [[0, 64, 100, "0" * 16, 2, 1, 0, 2]],
        }
    ),
    "an array": lambda value: value.update(indexes=[]),
    "null": lambda value: value.update(indexes=None),
}


def test_an_honest_entry_with_a_group_stands(served: tuple[str, str]) -> None:
    with tl.open(served[0], token=served[1]) as ds, ds.branch("fix-honest"):
        pass
    store = LakeStore(*served, policy=QUICK)
    before = run(BranchLog(store, "fix-honest").head())
    assert before is not None
    path = f"branches/fix-honest/{before.seq + 1:010d}.json"

    run(store.put_if_absent(path, seal(honest_entry(before, "fix-honest"))))

    with tl.open(served[0], "fix-honest", token=served[1]) as ds:
        assert group_of(ds, "files") == ITEMS
        assert ds.indexes["x"].coverage == 1


@pytest.mark.parametrize("case", FORGED)
def test_no_forged_group_stands(served: tuple[str, str], case: str) -> None:
    before = newest(served)
    value = json.loads(json.dumps(honest_entry(before, "main")))
    FORGED[case](value)
    path = f"branches/main/{before.seq + 1:010d}.json"

    with pytest.raises((InvalidInputError, AccessError)):
        run(LakeStore(*served, policy=QUICK).put_if_absent(path, seal(value)))

    assert newest(served).digest == before.digest
