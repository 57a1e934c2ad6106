"""Running an ONNX model over a view: ``tl.infer``.

    view ──loader──► columns ──model──► arrays by output, and the rows

Batches come from ``view.loader()``, so its arguments apply: ``decode=`` makes samples of one shape,
``layout="NCHW"`` puts channels first, ranks divide the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from tensorlake.dataset import (
    LOADER_DEFAULTS,
    Dataset,
    LoaderOptions,
    Model,
    View,
    rowset_of,
    with_options,
)
from tensorlake.errors import InvalidInputError, shown
from tensorlake.quantities import check_flags

__all__ = ["Predictions", "infer"]

BATCH_ROWS = 64
CALIBRATION_ROWS = 256
"""Rows that ranges of activations are measured on; ONNX Runtime's examples use 100 to 500."""
OF_ORDERS = frozenset({
    "shuffle", "seed", "weights", "stratify", "group", "limit", "repeat",
    "rank", "world_size", "mesh", "global_batch_size", "drop_last",
})  # fmt: skip
"""Arguments about all rows, which the sample for calibration does not have."""


class Predictions:
    """The outputs of a model over rows: each iteration runs it again.

    Attributes:
        model: The model; quantized where that was asked for.
        digest: SHA-256 of the model that was given.
    """

    def __init__(
        self, model: Model, digest: str, rows: Dataset | View, options: LoaderOptions
    ) -> None:
        self.model = model
        self.digest = digest
        self._batches = rows.loader(**options)

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[dict[str, npt.NDArray[Any]]]:
        for batch in self._batches:
            if "_row" not in batch:
                raise InvalidInputError(
                    "transform= left '_row' out, by which outputs are known\nkeep what the row has:"
                    " return {**row, …}"
                )
            rows = np.asarray(batch["_row"])
            is_row = np.asarray(batch.get("_valid", np.ones(len(rows), dtype=np.bool_)))
            try:
                outputs = self.model(batch)
            except InvalidInputError as error:
                error.add_note(f"for rows {rows[0]} to {rows[-1]}")
                raise
            yield {name: values[is_row] for name, values in outputs.items()} | {
                "_row": rows[is_row]
            }

    def __repr__(self) -> str:
        return f"Predictions of {self.model.path.name!r}, {self.digest[:19]}…"


@with_options(LoaderOptions, LOADER_DEFAULTS)
def infer(
    view: Dataset | View,
    model: str | PathLike[str],
    *,
    int8: bool = False,
    inputs: Mapping[str, str] | None = None,
    **options: Unpack[LoaderOptions],
) -> Predictions:
    """Run an ONNX model over a dataset or a view, in batches.

    Batches are dicts of an array for each output, (rows, …), and ``_row``, int64: the number of
    each row in the version. Inputs get columns of their names, as they are: pixels are uint8 from 0
    to 255, unless ``decode=`` has a step such as ``tl.decode.ToFloat()``.

    Args:
        view: The rows.
        model: Path of an .onnx file.
        int8: Quantize it first, calibrated on up to 256 rows of the view; about twice as fast
            where the processor multiplies 8-bit integers, at some loss of accuracy.
        inputs: The column for each input; by default the one of its name, or the only one.
        **options: Arguments of ``view.loader()``. ``batch_size`` is 64 by default, or the one size
            that the model takes: the last batch is padded, and its outputs cut.

    Raises:
        InvalidInputError: A column does not fit an input, or the file is not a model.
        MissingExtraError: The extra ``onnx`` is not installed.

    Source of the quantization: Jacob et al., https://arxiv.org/abs/1712.05877

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-infer", {"x": tl.Array("float32", (4,))})
        >>> try:
        ...     tl.infer(ds, "missing.onnx")
        ... except (tl.InvalidInputError, tl.MissingExtraError) as error:
        ...     print(error.code)
        invalid-input
        >>> ds.discard()
    """
    if not isinstance(view, Dataset | View):
        raise InvalidInputError(
            f"tl.infer() takes a dataset or a view, got {type(view).__name__} {shown(view)}",
            actual=view,
        )
    check_flags(int8=int8)
    known = rowset_of(view).columns
    columns = options.get("columns")
    if options.get("transform") is None and options.get("batch_transform") is None:
        bound = Model(model, inputs=inputs).bound(known if columns is None else columns)
        columns = [*bound.columns.values()]
        arranged = {*(options.get("decode") or ()), *(options.get("collate") or ())}
        plain = {name: kind for name, kind in view.schema.items() if name not in arranged}
        bound.refuse_types(plain)
    else:  # the function makes the columns: they are checked batch by batch
        bound = Model(model, inputs=inputs).named()
    if any(one.name == "_row" for one in bound.outputs):
        raise InvalidInputError(
            f"an output of {bound.path.name!r} is named '_row', as the numbers of rows are"
            "\nexport the model with another name for it"
        )
    given: LoaderOptions = {**options}
    if options.get("batch_size") is None:
        given["batch_size"] = bound.batch_size or BATCH_ROWS
    read = known if columns is None else columns
    given["columns"] = [*dict.fromkeys((*read, "_row", "_valid"))]
    if not int8:
        return Predictions(bound, bound.digest, view, given)
    return _quantized(bound, view, given)


def _quantized(model: Model, view: Dataset | View, options: LoaderOptions) -> Predictions:
    if not len(view):
        raise InvalidInputError(
            "int8=True measures ranges of values on rows of the view, which has none"
            "\ngive a view with rows, or int8=False"
        )
    sample = view.sample(min(len(view), CALIBRATION_ROWS), seed=0)
    with TemporaryDirectory(prefix="tensorlake-int8-") as folder:
        kept = {name: value for name, value in options.items() if name not in OF_ORDERS}
        batches = sample.loader(**cast("LoaderOptions", kept))
        small = model.quantized(batches, Path(folder))
        return Predictions(small, model.digest, view, options)
