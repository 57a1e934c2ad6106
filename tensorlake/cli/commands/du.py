"""``tensorlake du URL``: show the storage used by a dataset's tensors and versions, or by a lake.

The size of a version is that of the chunks it refers to; versions share chunks, so that the sizes
do not add up. The garbage collector lists the store, and reports the bytes that no version needs.
"""

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.exits import wrong_usage
from tensorlake.cli.lake import All, LakeRun
from tensorlake.cli.options import AsJson, At, Url
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms
from tensorlake.dataset import own_nbytes, session_of
from tensorlake.quantities import human_nbytes

__all__ = ["du"]


@dataclass(frozen=True, slots=True)
class Sized:
    """A part of a dataset, and its bytes."""

    kind: str
    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class SizedDataset:
    """A dataset of a lake, and its bytes; those of its store with ``--unreferenced`` only.

    Those of a fork count chunks of its base, its own ones do not.
    """

    version: str
    rows: int
    nbytes: int
    stored_nbytes: int | None = None
    unreferenced_nbytes: int | None = None
    own_nbytes: int | None = None


def du(
    url: Url,
    *,
    all_: All = False,
    unreferenced: Annotated[
        bool,
        typer.Option(
            "--unreferenced",
            help="Also list the store: all bytes, and those that no version needs.",
        ),
    ] = False,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show the size of each tensor, and of the version of each branch and tag.

    Sizes of a fork count the chunks in its base, too; the bytes of its own packs follow.

    With --all, show the size of each dataset of a lake at main's newest version. The total
    counts only the own packs of forks.

    Example: tensorlake du pets.tl --unreferenced
    """
    if all_:
        if at is not None:
            wrong_usage(f"--at {at} is a version of one dataset: leave it out, or leave out --all")
        _du_of_lake(url, terms, unreferenced=unreferenced, as_json=as_json)
        return
    with terms.open(url, at=at) as ds:
        version = ds.version
        parts = [
            Sized("tensor", tensor.name, tensor.stored_nbytes) for tensor in ds.summary().tensors
        ]
        parts += [Sized("branch", name, _nbytes_at(ds, name)) for name in ds.branches]
        parts += [Sized("tag", name, _nbytes_at(ds, name)) for name in ds.tags]
        own = own_nbytes(session_of(ds))
        if own is not None:
            parts.append(Sized("store", "own packs, without the base's", own))
        if unreferenced:
            found = ds.gc(dry_run=True)
            stored = found.kept_nbytes + found.deleted_nbytes
            parts += [
                Sized("store", "all packs", stored),
                Sized("store", "gc would remove now", found.deleted_nbytes),
                Sized("store", "unreferenced, but young", found.young_nbytes),
            ]
    if as_json:
        print_json({"url": url, "version": version, "parts": [asdict(part) for part in parts]})
        return
    print_text(f"{url}   {version}")
    print_table([(human_nbytes(part.nbytes), part.kind, part.name) for part in parts], right=(0,))


def _du_of_lake(url: str, terms: Terms, *, unreferenced: bool, as_json: bool) -> None:
    def measure(_name: str, place: str) -> SizedDataset:
        with terms.open(place) as ds:
            found = ds.gc(dry_run=True) if unreferenced else None
            return SizedDataset(
                ds.version,
                len(ds),
                ds.nbytes,
                None if found is None else found.kept_nbytes + found.deleted_nbytes,
                None if found is None else found.deleted_nbytes + found.young_nbytes,
                own_nbytes(session_of(ds)),
            )

    lake = LakeRun(url, measure, terms, as_json, text=None)
    lake.run()
    if not as_json:
        header = ("size", "version", "dataset", "stored", "unreferenced", "own packs")
        shown = [0, 1, 2, *((3, 4) if unreferenced else ())]
        if any(one.own_nbytes is not None for _, one in lake.done):
            shown.append(5)
        counted = [one.nbytes if one.own_nbytes is None else one.own_nbytes for _, one in lake.done]
        total = (human_nbytes(sum(counted)), "", "total", "", "", "")
        rows = [header, *(_cells(name, one) for name, one in lake.done), total]
        first, *others = [tuple(row[at] for at in shown) for row in rows]
        print_table(others, header=first, right=(0, *range(3, len(shown))))
    lake.end()


def _cells(name: str, one: SizedDataset) -> tuple[str, ...]:
    store = (one.stored_nbytes or 0, one.unreferenced_nbytes or 0)
    own = "" if one.own_nbytes is None else human_nbytes(one.own_nbytes)
    return (human_nbytes(one.nbytes), one.version, name, *map(human_nbytes, store), own)


def _nbytes_at(ds: tl.Dataset, version: str) -> int:
    with ds.at(version) as there:
        return there.nbytes
