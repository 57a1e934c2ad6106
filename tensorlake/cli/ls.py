"""``tensorlake ls [URL]``: the datasets of a lake, or the tensors of a dataset."""

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.cells import shape_text
from tensorlake.cli.options import (
    AsJson,
    EndpointUrl,
    StorageOptions,
    open_dataset,
    parse_storage_options,
)
from tensorlake.cli.output import ago, print_json, print_table, size

__all__ = ["ls"]


class SortBy(StrEnum):
    """What datasets are listed by."""

    NAME = "name"
    SIZE = "size"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Listed:
    """What a long listing shows of one dataset."""

    name: str
    rows: int
    nbytes: int
    version: str
    time: datetime


def ls(
    url: Annotated[str, typer.Argument(metavar="[URL]", help="A lake or a dataset.")] = ".",
    *,
    long: Annotated[
        bool,
        typer.Option("--long", "-l", help="Open each dataset: rows, size, version, last commit."),
    ] = False,
    sort: Annotated[SortBy, typer.Option(help="With -l: by size or by last commit.")] = SortBy.NAME,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """List the datasets of a lake; on a dataset, its tensors."""
    options = parse_storage_options(storage_option, endpoint_url) or None
    if tl.exists(url, storage_options=options):
        _list_tensors(url, storage_option, endpoint_url, as_json=as_json)
        return
    names = tl.list(url, storage_options=options)
    if not long:
        print_json(names) if as_json else print(*names, sep="\n", end="\n" if names else "")
        return
    found = [_look_at(url, name, options) for name in names]
    if sort is not SortBy.NAME:
        found.sort(key=lambda one: one.nbytes if sort is SortBy.SIZE else one.time, reverse=True)
    if as_json:
        print_json([asdict(one) for one in found])
        return
    print_table(
        [
            (one.name, f"{one.rows:,}", size(one.nbytes), one.version, ago(one.time))
            for one in found
        ],
        header=("dataset", "rows", "size", "version", "last commit"),
        right=(1, 2),
    )


def _look_at(lake: str, name: str, options: dict[str, str] | None) -> Listed:
    with tl.open(f"{lake.rstrip('/')}/{name}", read_only=True, storage_options=options) as ds:
        last = ds.log(1)[0]
        return Listed(name, len(ds), ds.nbytes, ds.version, last.time)


def _list_tensors(
    url: str, storage_option: list[str] | None, endpoint_url: str | None, *, as_json: bool
) -> None:
    with open_dataset(url, at=None, storage_option=storage_option, endpoint_url=endpoint_url) as ds:
        tensors = [
            (name, type_.describe(), shape_text(type_.shape), str(type_.dtype or ""))
            for name, type_ in ds.schema.items()
        ]
    if as_json:
        keys = ("name", "type", "shape", "dtype")
        print_json([dict(zip(keys, tensor, strict=True)) for tensor in tensors])
    else:
        print_table(tensors)
