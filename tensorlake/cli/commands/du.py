"""``tensorlake du URL``: show the storage used by each tensor and version of a dataset.

The size of a version is that of the chunks it refers to; versions share chunks, so that the sizes
do not add up. The garbage collector lists the store, and reports the bytes that no version needs.
"""

from dataclasses import asdict, dataclass
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.options import AsJson, At, Url
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes

__all__ = ["du"]


@dataclass(frozen=True, slots=True)
class Sized:
    """A part of a dataset, and its bytes."""

    kind: str
    name: str
    nbytes: int


def du(
    url: Url,
    *,
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

    Example: tensorlake du pets.tl --unreferenced
    """
    with terms.open(url, at=at, read_only=not unreferenced) as ds:
        version = ds.version
        parts = [
            Sized("tensor", tensor.name, tensor.stored_nbytes) for tensor in ds.summary().tensors
        ]
        parts += [Sized("branch", name, _nbytes_at(ds, name)) for name in ds.branches]
        parts += [Sized("tag", name, _nbytes_at(ds, name)) for name in ds.tags]
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
    print(f"{url}   {version}")
    print_table([(human_nbytes(part.nbytes), part.kind, part.name) for part in parts], right=(0,))


def _nbytes_at(ds: tl.Dataset, version: str) -> int:
    with ds.at(version) as there:
        return there.nbytes
