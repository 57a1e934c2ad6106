"""``tensorlake demo``: from files to a trained model, on data that the package has."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

import tensorlake as tl
from tensorlake.errors import InvalidInputError, missing_extra

__all__ = ["demo"]


def demo(
    *,
    lake: Annotated[
        Path, typer.Option("--lake", metavar="FOLDER", help="Folder for the datasets.")
    ] = Path(".demo"),
) -> None:
    """Ingest, correct, query, train and resume on sample data, in about a minute.

    An earlier demo's datasets in the folder are deleted first.

    Example: tensorlake demo --lake demo.lake
    """
    for module, extra in (("torch", "torch"), ("imagecodecs", "media")):
        if find_spec(module) is None:
            raise missing_extra("tensorlake demo", extra)
    _clear(lake)
    from tensorlake.cli.demo import main

    main(lake)


def _clear(lake: Path) -> None:
    """Delete the datasets of an earlier demo; refuse a folder that has anything else."""
    if lake.exists() and not lake.is_dir():
        raise InvalidInputError(
            f"tensorlake demo --lake {lake}: this is a file; name a folder that does not exist"
        )
    if lake.exists():
        others = sorted(path.name for path in lake.iterdir() if path.name not in DATASETS)
        if others:
            raise InvalidInputError(
                f"tensorlake demo --lake {lake}: the folder has {others[0]!r}, which no demo made;"
                " name a folder that does not exist"
            )
    for name in DATASETS:
        if tl.exists(str(lake / name)):
            tl.delete(str(lake / name), confirm=str(lake / name))
    try:
        lake.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInputError(
            f"tensorlake demo --lake {lake}: the folder cannot be made ({error.strerror});"
            " name another one"
        ) from error


DATASETS = ("digits", "scenes")
