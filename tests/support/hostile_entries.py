"""Log entries and tags that no writer of ours makes: each wrong in one member, its digest right.

Each is an honest entry, changed: what follows ``before`` in a log. A server takes none of them, and
a reader who meets one in a folder loses that branch and no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tensorlake.format import Changes, Entry, new_txid, seal
from tensorlake.versions.log.entries import following

__all__ = ["honest_entry", "hostile_entries"]

Json = dict[str, Any]
YEAR_US = 365 * 86_400 * 1_000_000
HUGE = 10**30


def honest_entry(before: Entry, branch: str, *, author: str = "ana") -> Json:
    """The members of a commit that follows ``before`` and changes nothing."""
    entry = following(
        before,
        branch=branch,
        kind="commit",
        txid=new_txid(),
        author=author,
        message="honest",
        changes=Changes(),
        spilled={},
    )
    return entry.to_json()


def hostile_entries(before: Entry, branch: str) -> Mapping[str, bytes]:
    """Entries that must not stand after ``before``, by what is wrong with them."""
    found: dict[str, bytes] = {}
    for what, change in CHANGES.items():
        value = json.loads(json.dumps(honest_entry(before, branch)))
        change(value)
        found[what] = seal(value)
    honest = honest_entry(before, branch)
    sealed = seal(honest)
    body = sealed[:-2]
    return found | {
        "not JSON": b"\x00" * 40,
        "an array": b"[1, 2]",
        "empty": b"",
        "cut off": sealed[: len(sealed) // 2],
        "another digest": body[:-1] + (b"0" if body[-1:] != b"0" else b"1") + b'"}',
        "spaces": seal(honest).replace(b'"kind":', b'"kind": ', 1),
        "too long": seal({**honest, "more": "x" * (256 << 10)}),
        "deep": seal(honest | {"meta": "\0"}).replace(b'"\\u0000"', b"[" * 9000 + b"]" * 9000),
    }


def _set(**members: Any) -> Callable[[Json], None]:
    return lambda value: value.update(members)


def _tensor(**members: Any) -> Callable[[Json], None]:
    return lambda value: value["schema"]["tensors"][0].update(members)


def _encoding(**members: Any) -> Callable[[Json], None]:
    return lambda value: value["schema"]["tensors"][0]["encodings"][0].update(members)


def _root(**members: Any) -> Callable[[Json], None]:
    return lambda value: next(iter(value["roots"].values())).update(members)


def _tail(**members: Any) -> Callable[[Json], None]:
    return lambda value: next(iter(value["roots"].values()))["tail"].update(members)


def _changed(**members: Any) -> Callable[[Json], None]:
    return lambda value: value["changes"].update(members)


def _forget(name: str) -> Callable[[Json], None]:
    return lambda value: value.pop(name)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def _own_pack(value: Json) -> None:
    for root in value["roots"].values():
        if "packs" in root.get("tail", {}):
            root["tail"]["packs"] = [f"{value['txid']}-7"] * len(root["tail"]["packs"])


def _stray_page(value: Json) -> None:
    root = next(iter(value["roots"].values()))
    pack = f"{new_txid()}-0"
    del root["tail"]
    root |= {"height": 1, "packs": [pack], "children": [
        [0, 64, 100, "0" * 16, root["rows"], 1, 0, 2]]}  # fmt: skip


def _twice(value: Json) -> None:
    tensors = value["schema"]["tensors"]
    tensors[1]["name"] = tensors[0]["name"]


STRAY = f"{'ab' * 16}-0"
CHANGES: dict[str, Callable[[Json], Any]] = {
    # kind and place
    "kind unknown": _set(kind="merge"),
    "kind of another type": _set(kind=["commit"]),
    "begin inside of a log": _set(kind="begin"),
    "begin inside of a log, bare": _set(
        kind="begin", schema=None, rows=None, row_ids=None, roots={}
    ),
    "a fence": _set(kind="fence", fence={"t": 1, "expired_before": 0}),
    "end with what it did not stand on": _set(kind="end", of=0, physical=10**6),
    "seq as text": _set(seq="2"),
    "another seq": lambda value: value.update(seq=value["seq"] + 5),
    "seq huge": _set(seq=HUGE),
    "no seq": _forget("seq"),
    "prev null": _set(prev=None),
    "prev of another": _set(prev="0" * 40),
    "prev of another type": _set(prev=7),
    "of for a commit": _set(of=0),
    "txid of no form": _set(txid="1"),
    "txid null": _set(txid=None),
    # who and when
    "another author": _set(author="eve"),
    "author an object": _set(author={"name": "ana"}),
    "author a number": _set(author=5),
    "author null": _set(author=None),
    "time as text": _set(time="now"),
    "time a fraction": lambda value: value.update(time=value["time"] + 0.5),
    "time a truth value": _set(time=True),
    "time in a year": lambda value: value.update(time=value["time"] + YEAR_US),
    "time beyond calendars": _set(time=2**62),
    "time huge": _set(time=HUGE),
    "time before the last": _set(time=1),
    "time below zero": _set(time=-1),
    # words
    "message a number": _set(message=3),
    "message too long": _set(message="x" * 5000),
    "meta an array of pairs": _set(meta=[["a", 1]]),
    "meta too large": _set(meta={"a": "x" * 17_000}),
    "meta deep": _set(meta={"a": _deep(100)}),
    "meta with a huge number": _set(meta={"a": 10**400}),
    "keys a text": _set(keys="ab"),
    "keys of numbers": _set(keys=[1]),
    "an empty key": _set(keys=[""]),
    "a key too long": _set(keys=["k" * 2000]),
    # what it cites
    "no parents": _set(parents=[]),
    "parents a text": _set(parents="main"),
    "parent of no branch": _set(parents=[{"branch": "ghost", "seq": 0, "digest": "0" * 40}]),
    "parent with another digest": lambda value: value["parents"][0].update(digest="0" * 40),
    "parent to come": lambda value: value["parents"][0].update(seq=10**9),
    "parent path": lambda value: value["parents"].append(
        {"branch": "../../../etc", "seq": 0, "digest": "0" * 40}
    ),
    "three parents": lambda value: value.update(parents=value["parents"] * 3),
    "merged what is not there": lambda value: value["merged"].update(ghost=3),
    "merged what is to come": lambda value: value["merged"].update(main=10**18),
    "merged huge": lambda value: value["merged"].update(main=HUGE),
    "merged an array": _set(merged=[["main", 1]]),
    "merged a page that is not there": _set(merged={"page": [STRAY, 0, 10, "0" * 16]}),
    # fences, features, indexes
    "a fence raised": _set(fence={"t": 2**60, "expired_before": 0}),
    "all versions expired": _set(fence={"t": 0, "expired_before": 10**9}),
    "fence a number": _set(fence=3),
    "feature to read unknown": lambda value: value["features"]["read"].append("time-travel"),
    "feature to write unknown": lambda value: value["features"]["write"].append("time-travel"),
    "features an array": _set(features=[]),
    "features a text": _set(features={"read": "ab", "write": ""}),
    "an index": _set(indexes={"by-label": {}}),
    # schema
    "no schema": _set(schema=None),
    "schema a page that is not there": _set(schema={"page": [STRAY, 0, 10, "0" * 16]}),
    "schema an array": _set(schema=[]),
    "tensors an object": _set(schema={"tensors": {}}),
    "a tensor of numbers": _set(schema={"tensors": [1, 2]}),
    "type unknown": _tensor(type={"kind": "hologram"}),
    "type a text": _tensor(type="int64"),
    "type null": _tensor(type=None),
    "no name": lambda value: value["schema"]["tensors"][0].pop("name"),
    "name of another type": _tensor(name=[]),
    "name that none may have": _tensor(name="_hidden"),
    "two tensors of one name": _twice,
    "id of no form": _tensor(id="zz"),
    "no encodings": _tensor(encodings=[]),
    "codec unknown": _encoding(codecs=[{"name": "bytes"}, {"name": "lzma"}]),
    "codec misplaced": _encoding(codecs=[{"name": "zstd", "configuration": {"level": 3}}]),
    "encoded as another type": _encoding(dtype="float64"),
    "encoding with a huge shape": _encoding(shape=[10**15]),
    "fill of another type": _tensor(fill={"a": 1}),
    "chunks of no bytes": _tensor(chunk_nbytes=0),
    "chunks of exabytes": _tensor(chunk_nbytes=10**18),
    "attributes an array": _tensor(attributes=[]),
    # trees
    "no roots": _set(roots={}),
    "roots an array": _set(roots=[]),
    "a root of no tensor": lambda value: value["roots"].update(
        {"00" * 5: {"height": 0, "rows": 0}}
    ),
    "a root a number": lambda value: value["roots"].update({next(iter(value["roots"])): 3}),
    "a root shorter": _root(rows=1),
    "a root of huge rows": _root(rows=HUGE),
    "a root higher": _root(height=3),
    "an own pack that is not there": _own_pack,
    "a stranger's pack": _tail(packs=[STRAY]),
    "a stranger's page": _stray_page,
    "packs of no form": _tail(packs=["../../etc/passwd"]),
    "extents of texts": _tail(rows=["3"]),
    "extents of fractions": _tail(rows=[3.5]),
    "extents beyond 32 bits": _tail(rows=[2**40]),
    "extents of an unknown kind": _tail(kind=[9]),
    "extents of tiles": _tail(kind=[4]),
    "extents of no encoding": _tail(read_as=[3]),
    "extents of another length": _tail(skip=[0, 0, 0, 0, 0]),
    "statistics of objects": _tail(statistics={"null_count": ["|O", [1]]}),
    "statistics of another length": _tail(statistics={"null_count": ["<i8", [1, 2, 3]]}),
    "rows beyond the axis": lambda value: value["rows"]["tail"].update(base=[10**6]),
    "rows beyond 56 bits": lambda value: value["rows"]["tail"].update(base=[2**60]),
    "rows that wrap around": lambda value: value["rows"].update(
        tail={"base": [0, 0], "rows": [2**55, 2**55 + 2**55]}
    ),
    "no rows": _set(rows=None),
    "row ids missing": _set(row_ids=None),
    "row ids shorter": lambda value: value["row_ids"].update(height=0, rows=1),
    "row ids that wrap around": lambda value: value["row_ids"]["tail"].update(
        rows=[2**63, 2**63 + value["physical"]], txids=[STRAY[:-2]]
    ),
    "row ids of no form": lambda value: value["row_ids"]["tail"].update(txids=["x"]),
    "physical lower": _set(physical=0),
    "physical huge": _set(physical=HUGE),
    "physical as text": _set(physical="8"),
    # the rest
    "changes an array": _set(changes=[]),
    "change of the schema unknown": _changed(
        schema=[{"op": "explode", "tensor": "a", "name": "b"}]
    ),
    "change of the schema without a name": _changed(schema=[{"op": "add"}]),
    "append below zero": _changed(append=-1),
    "append as text": _changed(append="3"),
    "append beyond the axis": _changed(append=10**12),
    "delete backwards": _changed(delete=[[5, 2]]),
    "delete beyond the axis": _changed(delete=[[0, 10**12]]),
    "delete of texts": _changed(delete=[["0", "1"]]),
    "rewrite a number": _changed(rewrite=1),
    "append where no row is new": _changed(append=1),
    "update of a tensor that is not there": _changed(update={"ab" * 5: [[0, 1]]}),
    "drop of a tensor that never was": _changed(
        schema=[{"op": "drop", "tensor": "ab" * 5, "name": "gone"}]
    ),
    "rename of a tensor that is not there": _changed(
        schema=[{"op": "rename", "tensor": "ab" * 5, "name": "x"}]
    ),
    "packs below zero": _set(packs={"count": -1, "bytes": 0}),
    "packs an array": _set(packs=[]),
    "statistics an array": _set(statistics=[["a", 1]]),
    "optimized a text": _set(statistics={"optimized": "yes"}),
    "optimized huge": _set(statistics={"optimized": {"physical": HUGE, "rows": 0}}),
}
