"""``tensorlake ls [URL]``: list the datasets of a lake, or the tensors of a dataset."""

from collections import Counter
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.cells import shape_text
from tensorlake.cli.options import AsJson, AsJsonLines
from tensorlake.cli.output import print_json, print_table, print_text
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes, human_time
from tensorlake.storage import open_store

__all__ = ["ls"]


class SortBy(StrEnum):
    """Sort order of the datasets."""

    NAME = "name"
    SIZE = "size"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Listed:
    """One dataset in a long listing."""

    name: str
    rows: int
    nbytes: int
    version: str
    time: datetime


def ls(
    url: Annotated[str, typer.Argument(metavar="[URL]", help="Lake or dataset.")] = ".",
    *,
    long: Annotated[
        bool,
        typer.Option(
            "--long", "-l", help="Open each dataset; show rows, size, version, last commit."
        ),
    ] = False,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-R", help="Include datasets in subfolders.")
    ] = False,
    sort: Annotated[
        SortBy, typer.Option(help="Sort order; size and time (descending) open each dataset.")
    ] = SortBy.NAME,
    as_json: AsJson = False,
    as_json_lines: AsJsonLines = False,
    terms: Terms,
) -> None:
    """List the datasets of a lake; for a dataset, its tensors.

    Example: tensorlake ls . --long
    """
    options = terms.options_for(url)
    if tl.exists(url, storage_options=options):
        with terms.open(url) as ds:
            _list_tensors(ds, as_json=as_json, as_json_lines=as_json_lines)
        return
    below = tl.list(url, storage_options=options)
    if not below:
        _check_that_it_is_there(url, options)
    names = below if recursive else [name for name in below if "/" not in name]
    # Folders are shown as by `aws s3 ls`, with the number of datasets that -R would list.
    folders = Counter(name.partition("/")[0] for name in below if "/" in name and not recursive)
    if not long and sort is SortBy.NAME:
        listed = sorted([*names, *(f"{folder}/" for folder in folders)])
        if as_json:
            print_json(listed)
            return
        for name in listed:
            print_json(name, indent=None) if as_json_lines else print_text(name)
        return
    found = [_look_at(url, name, options) for name in names]
    if sort is not SortBy.NAME:
        found.sort(key=lambda one: one.nbytes if sort is SortBy.SIZE else one.time, reverse=True)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if as_json_lines:
        for one in found:
            print_json(asdict(one), indent=None)
        return
    rows = [
        (one.name, f"{one.rows:,}", human_nbytes(one.nbytes), one.version, human_time(one.time))
        for one in found
    ]
    rows += [(f"{name}/", f"{count} below: -R", "", "", "") for name, count in folders.items()]
    print_table(rows, header=("dataset", "rows", "size", "version", "last commit"), right=(1, 2))


def _check_that_it_is_there(url: str, options: dict[str, str] | None) -> None:
    """Refuse a folder that does not exist; elsewhere a folder is there once it has objects."""
    store = open_store(url, storage_options=options)
    if store.is_local and not Path(store.url).is_dir():
        message = f"there is no folder {store.url!r}\nmake it first, or check its name"
        raise tl.DatasetNotFoundError(message, dataset=store.url)


def _look_at(lake: str, name: str, options: dict[str, str] | None) -> Listed:
    with tl.open(f"{lake.rstrip('/')}/{name}", read_only=True, storage_options=options) as ds:
        last = ds.log(1)[0]
        return Listed(name, len(ds), ds.nbytes, ds.version, last.time)


def _list_tensors(ds: tl.Dataset, *, as_json: bool, as_json_lines: bool) -> None:
    tensors = [
        (name, type_.describe(), shape_text(type_.shape), str(type_.dtype or ""))
        for name, type_ in ds.schema.items()
    ]
    if not as_json and not as_json_lines:
        print_table(tensors)
        return
    keys = ("name", "type", "shape", "dtype")
    documents = [dict(zip(keys, tensor, strict=True)) for tensor in tensors]
    if as_json:
        print_json(documents)
        return
    for document in documents:
        print_json(document, indent=None)
