"""``tensorlake du URL``: where the bytes of a dataset are, by tensor and by version.

The size of a version is that of the chunks it shows; versions share chunks, so these do not add up.
What lies in the store, and what of it no version needs, is asked of the collector, which lists it.
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
            help="List the store too: all bytes, and those that no version needs.",
        ),
    ] = False,
    at: At = None,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Show the bytes of each tensor of a version, and of each branch's and tag's version."""
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
