"""Small real datasets that every installation has: for a first look, for examples and for tests.

Their files are part of the package; the README beside them has sources and licences.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Unpack

from tensorlake import ingest
from tensorlake.dataset import Dataset
from tensorlake.errors import InvalidInputError, did_you_mean, shown
from tensorlake.ingest import IngestOptions

__all__ = ["digits", "files", "scenes"]

_IN_A_WHEEL = Path(__file__).parent / "data"
_IN_A_CHECKOUT = Path(__file__).parents[2] / "examples" / "data"
_FOLDERS = {"digits": "mnist", "scenes": "coco"}


def digits(
    url: str | PathLike[str] = "memory://digits", **options: Unpack[IngestOptions]
) -> Dataset:
    """Ingest 10,000 handwritten digits, the test set of MNIST.

    Tensors: ``image``, uint8 of shape (28, 28), and ``label``, the classes "0" to "9". It is a
    sync, as `tensorlake.ingest.idx` is: the same call again adds nothing.

    Args:
        url: Path or URL of the dataset; in memory, it is gone when the process ends.
        **options: See `tensorlake.ingest.IngestOptions`.

    Returns:
        The dataset; its rows are committed.

    Raises:
        InvalidInputError: The URL has a dataset of another source.

    Source: LeCun, Cortes and Burges, *The MNIST database of handwritten digits*, CC BY-SA 3.0.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.datasets.digits()
        >>> len(ds), ds[0]["image"].shape, ds["label"].names[ds[0]["label"]]
        (10000, (28, 28), '7')
    """
    folder = files("digits")
    name = "t10k-{}-ubyte.gz"
    return ingest.idx(
        folder / name.format("images-idx3"), folder / name.format("labels-idx1"), url, **options
    )


def scenes(
    url: str | PathLike[str] = "memory://scenes", **options: Unpack[IngestOptions]
) -> Dataset:
    """Ingest 19 photographs of COCO with 165 annotated objects.

    Tensors are those of `tensorlake.ingest.coco`: ``image`` (JPEG of several sizes), ``boxes``,
    ``label``, ``mask`` and others. It is a sync: the same call again adds nothing.

    Args:
        url: Path or URL of the dataset; in memory, it is gone when the process ends.
        **options: See `tensorlake.ingest.IngestOptions`.

    Returns:
        The dataset; its rows are committed.

    Raises:
        InvalidInputError: The URL has a dataset of another source.

    Source: Lin et al., *Microsoft COCO: Common Objects in Context* (ECCV 2014); annotations CC BY
    4.0, each photograph under the licence that the README beside it lists.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.datasets.scenes()
        >>> len(ds), len(ds.query("WHERE CONTAINS(label, 'dog')"))
        (19, 1)
    """
    folder = files("scenes")
    return ingest.coco(folder / "instances.json", folder / "images", url, **options)


def files(name: str) -> Path:
    """Return the folder of a dataset's files, for examples of ingestion.

    Args:
        name: ``"digits"`` (IDX files) or ``"scenes"`` (``instances.json`` and ``images/``).

    Returns:
        A folder to read from; its README lists sources and licences.

    Raises:
        InvalidInputError: There is no dataset of this name.

    Example:
        >>> import tensorlake as tl
        >>> tl.datasets.files("scenes").joinpath("instances.json").exists()
        True
    """
    if name not in _FOLDERS:
        raise InvalidInputError(
            f"tl.datasets has no files {shown(name)}; it has {', '.join(map(repr, _FOLDERS))}"
            f"{did_you_mean(name, _FOLDERS)}"
        )
    data = _IN_A_WHEEL if _IN_A_WHEEL.exists() else _IN_A_CHECKOUT
    return data / _FOLDERS[name]
