"""``tensorlake fork BASE URL``: make a dataset that reads the data of another one."""

from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.cli.options import At, Url
from tensorlake.cli.output import print_text
from tensorlake.cli.terms import Terms

__all__ = ["fork"]


def fork(
    base: Annotated[str, typer.Argument(metavar="BASE", help="The dataset to fork.")],
    url: Url,
    *,
    at: At = None,
    terms: Terms,
) -> None:
    """Make a dataset that begins as a version of another one, and reads its data there.

    Example: tensorlake fork s3://public/pets.tl pets.tl
    """
    with tl.fork(base, url, at, storage_options=terms.options_for(url)) as ds:
        (origin, *_) = ds.bases
        if not terms.quiet:
            print_text(
                f"{url}   {ds.version}   {len(ds):,} rows   fork of {origin.version} of {base}"
            )
