"""Arrays and datasets in memory: NumPy files, torch datasets."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Unpack, cast

import numpy as np
from xxhash import xxh3_64

from tensorlake.dataset import SHAPES, VALUES, Dataset, SkippedItem, image_type
from tensorlake.errors import InvalidInputError, SchemaError, shown
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, given_settings, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.storage import public_url
from tensorlake.types import (
    Array,
    Ragged,
    RaggedColumn,
    SampleType,
    Scalar,
    Text,
    Timestamp,
    as_type,
    only_regular,
)

__all__ = ["numpy", "rows_hash", "torch"]

_ZIP_MAGIC = b"PK"

COLUMNS = "columns"
"""Metadata of ``x/indices``: how many columns the matrix x has."""


@shows_options
def numpy(
    src: str | PathLike[str] | Mapping[str, Any],
    dst: str | PathLike[str],
    *,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest arrays whose first axis is the rows.

    Args:
        src: An ``.npy`` file (tensor ``data``), an ``.npz`` file, by path or URL, or a mapping of
            arrays. Arrays ``x.values`` and ``x.shapes``, as ``ds.to_numpy(file)`` writes them, are
            one ragged x. A sparse matrix x of SciPy makes ``x/indices`` and ``x/values``: of each
            row, the columns that are stored, ascending, and their values;
            ``ds["x/indices"].metadata["columns"]`` is the number of columns. Times (datetime64)
            make a Timestamp. A file of a URL is copied to this machine's temporary folder first.
        dst: Path or URL of the dataset.
        schema: Types in place of Array and Scalar, by name.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: A file is not NumPy's, or the arrays have different numbers of rows.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.ingest.numpy({"x": [[1, 2], [3, 4]]}, "memory://doc-numpy")
        >>> ds["x"][1].tolist()
        [3, 4]
    """
    files = SourceFiles(options.get("storage_options"))
    given, widths = _without_sparse(src)
    arrays = _reunited(_read_arrays(given, files))
    for name, array in arrays.items():
        if isinstance(array, np.ndarray) and array.ndim == 0:
            message = f"{name!r} is one {array.dtype} value\nthe first axis of an array is the rows"
            raise InvalidInputError(message, tensor=name, actual=())
    lengths = {name: len(array) for name, array in arrays.items()}
    if len(set(lengths.values())) != 1:
        described = ", ".join(f"{name}: {length:,}" for name, length in lengths.items())
        message = f"the arrays have different numbers of rows ({described}), or there is none"
        raise InvalidInputError(message, lengths=lengths)
    types = {name: _array_type(name, array) for name, array in arrays.items()}
    types |= {name: as_type(one) for name, one in (schema or {}).items()}
    rows = range(next(iter(lengths.values())))
    total = sum(
        one.values.nbytes if isinstance(one, Ragged) else one.nbytes for one in arrays.values()
    )
    nbytes = total // max(1, len(rows))
    source = Source(
        kind="numpy",
        schema=types,
        items=rows,
        sizes=[max(1, nbytes)] * len(rows),
        name=lambda row: f"row {row}",
        load=lambda items: {
            name: _with_nulls(array[items[0] : items[-1] + 1]) for name, array in arrays.items()
        },
        row_name=lambda items, row: f"row {items[row]}",
        file=lambda _: "the arrays",
        unit="set of arrays",
        by_position=True,
        fingerprint=lambda rows: rows_hash(arrays, rows),
        settings=given_settings(schema),
        where=full_place(src) if isinstance(src, str | PathLike) else "",
    )
    dataset = run_ingest(source, dst, **options)
    for name, width in widths.items():
        metadata = dataset[name].metadata
        if metadata.get(COLUMNS) != width:
            dataset.alter_tensor(name, metadata={**metadata, COLUMNS: width})
    report = dataset.ingest_report
    if dataset.has_changes and report is not None:
        dataset.commit("ingest numpy: columns of sparse matrices")
        report.version = dataset.version
        report.commits.append(dataset.version)
        dataset.ingest_report = report
    return dataset


def _with_nulls(part: np.ndarray | Ragged) -> Any:
    """Return values with NULL in place of NaT."""
    if isinstance(part, Ragged) or part.dtype.kind != "M" or not np.isnat(part).any():
        return part
    return [
        None if one is True else value
        for value, one in zip(part, np.isnat(part).tolist(), strict=True)
    ]


def rows_hash(arrays: Mapping[str, np.ndarray | Ragged], rows: range) -> int:
    """Return a hash of the names and values of some rows."""
    digest = xxh3_64()
    for name, one in arrays.items():
        digest.update(name.encode(errors="surrogateescape"))
        some = one[rows.start : rows.stop]
        parts = (some.values, some.shapes) if isinstance(some, Ragged) else (some,)
        for part in parts:
            digest.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return digest.intdigest()


@shows_options
def torch(
    dataset: Any,
    dst: str | PathLike[str],
    *,
    names: Sequence[str] | None = None,
    schema: Mapping[str, Any] | None = None,
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a map-style dataset of torch: whatever has ``len()`` and ``dataset[i]``.

    Args:
        dataset: Its samples are dicts, tuples, or single values.
        dst: Path or URL of the dataset.
        names: Tensor names of a tuple's values, such as ``("image", "label")``.
        schema: Types in place of those that follow from the first sample, by name.
        **options: See `IngestOptions`. A repeated call goes on where a killed one stopped, provided
            that the dataset gives the same samples again: of such an object only type and length
            are known. Other samples of the same type and length are therefore taken for the same,
            and ``mode="append"`` appends whatever it is given.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: The dataset has no length, or samples without names.

    Example:
        >>> import tensorlake as tl
        >>> dataset = [(0.5, 1), (1.5, 0)]  # or a torch.utils.data.Dataset
        >>> ds = tl.ingest.torch(dataset, "memory://doc-torch", names=("x", "y"))
        >>> ds["y"][:]
        array([1, 0])
    """
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        message = (
            f"{type(dataset).__name__} has no length or no index\n"
            "an iterable dataset is staged by ds.extend(rows)"
        )
        raise InvalidInputError(message, actual=type(dataset).__name__)
    is_strict = options.get("on_error", "raise") == "raise"
    label = f"{type(dataset).__module__}.{type(dataset).__qualname__}"
    try:
        if not len(dataset):
            raise InvalidInputError(f"{type(dataset).__name__} has no samples")
        sample = dataset[0] if is_strict else _first_sample(dataset, label)
    except (TypeError, KeyError) as error:  # a mapping, an array without axes
        raise InvalidInputError(
            f"{type(dataset).__name__} has no sample by number: {error!r}"
            "\ncolumns are staged by ds.extend({name: values})",
            actual=type(dataset).__name__,
        ) from error
    first = _named(sample, names)
    given = {name: as_type(one) for name, one in (schema or {}).items()}
    types = {
        name: given[name] if name in given else _value_type(name, value)
        for name, value in first.items()
    } | given
    size = max(1, sum(getattr(np.asarray(value), "nbytes", 0) for value in first.values()))

    def load(items: Sequence[int]) -> dict[str, Any]:
        rows: list[dict[str, Any]] = []
        for row in items:
            try:
                rows.append(_named(dataset[row], names))
            except Exception as error:  # of the user's code: its own, unless it is to be left out
                if is_strict:
                    raise
                raise InvalidInputError(f"{label}[{row}] raised {error!r}", item=row) from error
        lacking = next((name for name in types if any(name not in row for row in rows)), None)
        if lacking is not None:
            at = next(at for at, row in enumerate(rows) if lacking not in row)
            message = f"{label}[{items[at]}] has no {lacking!r}, which the first sample has"
            raise InvalidInputError(message, item=items[at], tensor=lacking)
        return {name: [row[name] for row in rows] for name in types}

    source = Source(
        kind="torch",
        schema=types,
        items=range(len(dataset)),
        sizes=[size] * len(dataset),
        name=lambda row: f"{label}[{row}]",
        load=load,
        stamp=lambda _: "",
        file=lambda _: label,
        unit="dataset",
        by_position=True,
        settings=given_settings(schema, names=None if names is None else [*names]),
        has_identity=False,
    )
    one_reader: IngestOptions = {"workers": 1, **options}  # not every dataset takes threads
    return run_ingest(source, dst, **one_reader)


def _first_sample(dataset: Any, label: str) -> Any:
    """Return the first sample that can be read.

    Raises:
        InvalidInputError: None can.
    """
    rejected: list[SkippedItem] = []
    for row in range(len(dataset)):
        try:
            return dataset[row]
        except Exception as error:  # noqa: BLE001 - of the user's code
            rejected.append(SkippedItem(f"{label}[{row}]", f"it raised {error!r}"))
    raise no_rows("torch", rejected)


def _read_arrays(
    src: str | PathLike[str] | Mapping[str, Any], files: SourceFiles
) -> dict[str, np.ndarray]:
    if isinstance(src, Mapping):
        return {name: _given_array(name, values) for name, values in src.items()}
    path = source_path(src)
    with files.on_this_machine(path) as file:
        return _read_file(Path(file), public_url(path))


def _without_sparse(src: Any) -> tuple[Any, dict[str, int]]:
    """Return a mapping with arrays of indices and values in place of SciPy's sparse matrices.

    A stored 0 stays stored; a place that is stored twice has the sum, as SciPy reads it.

    Returns:
        The mapping, or what else was given; and the columns of each matrix, by its indices.
    """
    made: dict[Any, Any] = {}
    widths: dict[str, int] = {}
    if not isinstance(src, Mapping):
        return src, widths
    for name, values in cast("Mapping[Any, Any]", src).items():
        if not hasattr(values, "tocsr"):
            made[name] = values
            continue
        if values.ndim != 2:  # noqa: PLR2004 - rows × columns
            message = f"{name!r} is a sparse array of {values.ndim} axes\ngive rows × columns"
            raise InvalidInputError(message, tensor=str(name), actual=values.shape)
        widths[f"{name}/indices"] = int(values.shape[1])
        rows = values.tocsr(copy=True)
        rows.sum_duplicates()  # sorts the columns of each row, too
        lengths = np.diff(rows.indptr).astype(np.int64)[:, None]
        for part, items in (("indices", rows.indices), ("values", rows.data)):
            made[f"{name}/{part}{VALUES}"], made[f"{name}/{part}{SHAPES}"] = items, lengths
    return made, widths


def _given_array(name: str, values: Any) -> np.ndarray:
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users give any mapping
        raise InvalidInputError(f"an array is named by a string, got {shown(name)}")
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        message = f"{name!r} cannot become an array: {error}\n{_NO_OBJECTS}"
        raise InvalidInputError(message, tensor=name) from error
    return array


_NO_OBJECTS = "give arrays of numbers, booleans or strings; rows of other values: ds.extend(rows)"


def _read_file(path: Path, described: str) -> dict[str, np.ndarray]:
    try:
        with open(path, "rb", opener=only_regular) as file:
            start = file.read(len(np.lib.format.MAGIC_PREFIX))
        if start != np.lib.format.MAGIC_PREFIX and not start.startswith(_ZIP_MAGIC):
            raise ValueError("it does not begin as .npy and .npz do")  # noqa: TRY301 - told below
        loaded: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError as error:
        raise InvalidInputError(f"no file {shown(described)} to ingest", src=described) from error
    except IsADirectoryError as error:
        message = f"{shown(described)} is a folder\ngive a .npy or .npz file"
        raise InvalidInputError(message, src=described) from error
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        if "allow_pickle" in str(error) or "Python objects" in str(error):
            message = (
                f"{shown(described)} holds Python objects, and unpickling them could run any code"
                f"\n{_NO_OBJECTS}"
            )
            raise InvalidInputError(message, src=described) from error
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InvalidInputError(
            f"{shown(described)} is not NumPy's: {reason}", src=described
        ) from error
    if isinstance(loaded, np.ndarray):
        return {"data": loaded}
    if {"format", "shape", "data"} <= {*loaded.files}:
        loaded.close()
        raise InvalidInputError(
            f"{shown(described)} is a sparse matrix, saved by SciPy\ngive the matrix:"
            f" tl.ingest.numpy({{'x': scipy.sparse.load_npz({described!r})}}, dst)",
            src=described,
        )
    with loaded:
        return {name: _member(loaded, name, described) for name in loaded.files}


def _member(archive: Mapping[str, np.ndarray], name: str, described: str) -> np.ndarray:
    try:
        return archive[name]
    except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
        reason = str(error) or type(error).__name__
        if "allow_pickle" in reason:
            reason = "it holds Python objects, and unpickling them could run any code"
        message = f"{name!r} of {described!r} cannot be read: {reason}\n{_NO_OBJECTS}"
        raise InvalidInputError(message, src=described, item=name) from error


def _reunited(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray | Ragged]:
    """Take arrays of values and of shapes for the ragged tensor that they are."""
    made: dict[str, np.ndarray | Ragged] = {}
    for name, array in arrays.items():
        stem, dot, part = name.rpartition(".")
        values, shapes = arrays.get(f"{stem}{VALUES}"), arrays.get(f"{stem}{SHAPES}")
        if not dot or f".{part}" not in (VALUES, SHAPES) or values is None or shapes is None:
            made[name] = array
        elif f".{part}" == VALUES:
            made[stem] = _ragged(stem, values, shapes)
    return made


def _ragged(name: str, values: np.ndarray, shapes: np.ndarray) -> Ragged:
    lengths = shapes.prod(axis=1) if shapes.ndim == 2 else None  # noqa: PLR2004 - rows × axes
    is_whole = lengths is not None and shapes.dtype.kind == "i" and bool((shapes >= 0).all())
    if values.ndim != 1 or lengths is None or not is_whole or int(lengths.sum()) != len(values):
        raise InvalidInputError(
            f"{name + SHAPES!r} {shapes.shape} does not say how {name + VALUES!r} {values.shape} is"
            " cut into samples\ngive int64 (rows, axes), whose products sum to the elements",
            tensor=name,
        )
    return Ragged(RaggedColumn(values, shapes.astype(np.int64)))


def _array_type(name: str, array: np.ndarray | Ragged) -> SampleType:
    if isinstance(array, Ragged):
        return Array(array.dtype, (None,) * array.shapes.shape[1])
    if array.dtype == object:
        message = f"{name!r} is an array of Python objects\n{_NO_OBJECTS}"
        raise InvalidInputError(message, tensor=name, actual="object")
    if array.dtype.kind in "US":
        return Text()
    if array.dtype.names is not None:
        fields = f"{{field: array[field] for field in {[*array.dtype.names]}}}"
        message = f"{name!r} is an array of records\ngive an array for each field: {fields}"
        raise InvalidInputError(message, tensor=name, actual=str(array.dtype))
    if array.dtype.kind == "M" and array.ndim == 1:
        return _time_type(name, array)
    try:
        return Array(array.dtype, array.shape[1:]) if array.ndim > 1 else Scalar(array.dtype)
    except SchemaError as error:
        message = f"{name!r} is an array of {array.dtype}, which is not a dtype of tensors"
        advice = f"convert it, such as to numbers: array.astype('int64')\n{_NO_OBJECTS}"
        raise InvalidInputError(f"{message}\n{advice}", tensor=name) from error


def _time_type(name: str, array: np.ndarray) -> SampleType:
    unit, count = np.datetime_data(array.dtype)
    nullable = bool(np.isnat(array).any())
    if unit == "D" and count == 1:
        return Timestamp("s", is_date=True, nullable=nullable)
    if unit not in ("s", "ms", "us", "ns") or count != 1:
        message = (
            f"{name!r} is an array of {array.dtype}\nconvert it: array.astype('datetime64[s]')"
        )
        raise InvalidInputError(message, tensor=name, actual=str(array.dtype))
    return Timestamp(unit, nullable=nullable)


def _named(sample: Any, names: Sequence[str] | None) -> dict[str, Any]:
    if isinstance(sample, Mapping):
        return dict(cast("Mapping[str, Any]", sample))
    values: list[Any] = list(sample) if isinstance(sample, tuple | list) else [sample]
    is_list = isinstance(names, Sequence) and not isinstance(names, str)
    if (
        names is None
        or not is_list
        or len(names) != len(values)
        or not all(isinstance(name, str) for name in names)  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
    ):
        raise InvalidInputError(
            f"samples have {len(values)} values, names are {shown(names)}"
            "\nname them: names=('image', 'label')",
            expected=len(values),
            actual=names,
        )
    return dict(zip(names, values, strict=True))


def _value_type(name: str, value: Any) -> SampleType:
    if hasattr(value, "getbands"):  # a PIL image
        return image_type(name, value)
    if isinstance(value, str):
        return Text()
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        message = f"{name!r} is {type(value).__name__}; say what it is: schema={{{name!r}: …}}"
        raise InvalidInputError(message, tensor=name, actual=type(value).__name__)
    # Another sample may have another size; a fixed one is declared.
    return Array(array.dtype, (None,) * array.ndim) if array.ndim else Scalar(array.dtype)
