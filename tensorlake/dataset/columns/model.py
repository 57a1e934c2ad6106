"""An ONNX model as a function of columns, run by ONNX Runtime.

A model reads columns that have the names of its inputs, or one column where it has one input, and
makes an array for each of its outputs, one value per row. `Model.digest` identifies it: SHA-256 of
its file and of the files that it keeps weights in.

Source: ONNX IR specification, https://onnx.ai/onnx/repo-docs/IR.html
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from tensorlake.dataset.core.indexing import not_null
from tensorlake.dataset.core.session import Session
from tensorlake.dataset.write.schema import alter_tensor
from tensorlake.errors import (
    DTypeMismatchError,
    InvalidInputError,
    InvalidStateError,
    ShapeMismatchError,
    TensorNotFoundError,
    UnsupportedFeatureError,
    missing_extra,
    shown,
)
from tensorlake.types import Array, SampleType, Scalar, Text

__all__ = ["Model", "ModelCall", "Port"]

Arrays = dict[str, npt.NDArray[Any]]

PROVIDERS = ("CUDAExecutionProvider", "CPUExecutionProvider")
"""Where models run, the first that the installed ONNX Runtime has for each operator."""

DTYPES = {
    "float16": "float16", "float": "float32", "double": "float64", "bool": "bool",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "string": "object",
}  # fmt: skip
"""NumPy's dtypes for ONNX Runtime's names; strings are arrays of ``str``."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a model.

    Attributes:
        name: Its name.
        dtype: The dtype of its elements.
        shape: The shape of a batch, rows first; None where any size fits.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ", ".join("any" if size is None else str(size) for size in self.shape)
        return f"{self.name!r}, {self.dtype} of shape ({sizes})"


class Model:
    """An ONNX model: called with columns, it returns an array for each output.

    It runs in threads of ONNX Runtime, without the interpreter lock, and not in a forked process.

    Args:
        path: The model's file, on this machine.
        inputs: The column that each input reads; by default the one of its name, and for the one
            input of a model the one column that there is.

    Raises:
        InvalidInputError: The file is missing, or not a model with a value per row.
        UnsupportedFeatureError: It has inputs or outputs that are not arrays.
        MissingExtraError: ONNX Runtime is not installed.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, inputs: Mapping[str, str] | None = None
    ) -> None:
        if not isinstance(path, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
            raise InvalidInputError(
                f"a model is the path of an .onnx file, got {type(path).__name__} {shown(path)}",
                actual=path,
            )
        self.path = Path(path)
        try:
            is_there = self.path.is_file()
        except OSError:  # a name that no file can have
            is_there = False
        if not is_there:
            raise InvalidInputError(
                f"there is no model at {shown(os.fspath(path))}\ngive the path of an .onnx file",
                actual=os.fspath(path),
            )
        session = self._session = _session_of(self.path)
        self.inputs = _ports(session.get_inputs(), self.path)
        self.outputs = _ports(session.get_outputs(), self.path)
        if not self.inputs:
            raise InvalidInputError(
                f"{self.path.name!r} has no input, so that no row decides what it returns"
                "\nexport the model with the columns as its inputs",
                actual=os.fspath(path),
            )
        self.columns = dict(inputs or {})
        self.digest = _digest(self.path)
        unknown = [name for name in self.columns if name not in {one.name for one in self.inputs}]
        if unknown:
            raise InvalidInputError(
                f"inputs= names {unknown[0]!r}, and the inputs of {self.path.name!r} are"
                f" {', '.join(map(str, self.inputs))}",
                argument="inputs",
                actual=unknown[0],
            )

    @property
    def batch_size(self) -> int | None:
        """The one batch size that it takes; None: any."""
        sizes = {one.shape[0] for one in self.inputs if one.shape} - {None}
        return sizes.pop() if sizes else None

    @property
    def schema(self) -> dict[str, SampleType]:
        """Types of tensors for its outputs."""
        return {one.name: _type_of(one) for one in self.outputs}

    def bound(self, columns: Sequence[str]) -> Self:
        """Return the model with a column for each input.

        Raises:
            TensorNotFoundError: There is no column for an input.
        """
        read = dict(self.columns)
        for one in self.inputs:
            if one.name in read or one.name in columns:
                read.setdefault(one.name, one.name)
            elif len(self.inputs) == len(columns) == 1:
                read[one.name] = columns[0]
        for one in self.inputs:
            if read.get(one.name) not in columns:
                named = f" {read[one.name]!r}" if one.name in read else ""
                raise TensorNotFoundError(
                    f"there is no column{named} for the input {one} of {self.path.name!r}; columns"
                    f" are: {', '.join(map(repr, columns))}\nname it: inputs={{{one.name!r}: …}}",
                    tensor=read.get(one.name, one.name),
                )
        return type(self)(self.path, inputs=read)

    def named(self) -> Self:
        """Return the model with columns of the names of its inputs, where none was given."""
        names = {one.name: one.name for one in self.inputs}
        return type(self)(self.path, inputs=names | self.columns)

    def refuse_types(self, types: Mapping[str, SampleType]) -> None:
        """Refuse columns whose samples, as they are stored, cannot be its inputs.

        Raises:
            ShapeMismatchError: Samples of a column differ in shape, or do not have the input's.
            DTypeMismatchError: The dtype does not convert without loss.
        """
        for one in self.inputs:
            kind = types.get(self.columns[one.name])
            if kind is None or kind.dtype is None:
                continue
            _check_dtype(one, kind.dtype, self.columns[one.name])
            if not fits((None, *kind.shape), one.shape) or None in kind.shape:
                raise ShapeMismatchError(
                    f"{self.columns[one.name]!r} is {kind.describe()}, and {self.path.name!r} takes"
                    f" {one}\nmake samples of one shape, in tl.infer() by decode= as of"
                    " view.loader(), such as {'image': tl.decode.Resize(224, 224)}",
                    tensor=self.columns[one.name],
                    expected=one.shape,
                    actual=kind.shape,
                )

    def __call__(self, columns: Mapping[str, Any]) -> Arrays:
        """Run it on columns of equal length; a batch size that it does not take is padded.

        Raises:
            ShapeMismatchError: A column does not have the shape of its input, or an output does
                not have a value per row.
            DTypeMismatchError: A column does not convert to its input without loss.
            InvalidInputError: A column is not an array, or the model failed.
        """
        given = self._inputs_of(columns)
        rows = len(next(iter(given.values())))
        size = self.batch_size or max(rows, 1)
        parts = [self._run(given, start, min(rows, start + size)) for start in range(0, rows, size)]
        if not parts:
            return {
                one.name: np.zeros((0, *(size or 0 for size in one.shape[1:])), one.dtype)
                for one in self.outputs
            }
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def quantized(self, samples: Iterable[Mapping[str, Any]], folder: Path) -> Model:
        """Return the model in 8-bit integers, calibrated on batches of its columns.

        Weights are signed, one scale per channel, activations unsigned with the range that the
        samples have, by ``onnxruntime.quantization`` (Jacob et al.,
        https://arxiv.org/abs/1712.05877).

        Args:
            samples: Batches of columns.
            folder: For the file of the new model.
        """
        quantization = _library("onnxruntime.quantization")
        batches = iter(samples)

        class Samples(quantization.CalibrationDataReader):
            def get_next(_) -> Arrays | None:  # noqa: N805  # pyright: ignore[reportSelfClsParameterName] - self is the model
                batch = next(batches, None)
                return None if batch is None else self._padded(self._inputs_of(batch))

        path = folder / f"{self.path.stem}.int8.onnx"
        with TemporaryDirectory(dir=folder) as prepared:
            ready = Path(prepared) / "model.onnx"
            try:
                quantization.quant_pre_process(self.path, ready, skip_symbolic_shape=True)
                quantization.quantize_static(
                    ready,
                    path,
                    Samples(),
                    per_channel=True,
                    activation_type=quantization.QuantType.QUInt8,
                    weight_type=quantization.QuantType.QInt8,
                )
            except InvalidInputError:
                raise
            except Exception as error:
                raise InvalidInputError(
                    f"onnxruntime cannot quantize {str(self.path)!r}: {_first_line(error)}\nrun it"
                    " as it is: int8=False"
                ) from error
        return type(self)(path, inputs=self.columns)

    def __repr__(self) -> str:
        return f"Model({os.fspath(self.path)!r}, inputs={self.columns!r})"

    def _inputs_of(self, columns: Mapping[str, Any]) -> Arrays:
        return {one.name: _array_for(one, columns, self.columns[one.name]) for one in self.inputs}

    def _padded(self, given: Arrays) -> Arrays:
        """Repeat the last row, a value that the model is known to take, up to its batch size."""
        rows = len(next(iter(given.values())))
        missing = (self.batch_size or rows) - rows
        if not missing:
            return given
        return {
            name: np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
            for name, values in given.items()
        }

    def _run(self, given: Arrays, start: int, stop: int) -> Arrays:
        feeds = self._padded({name: values[start:stop] for name, values in given.items()})
        rows = len(next(iter(feeds.values())))
        try:
            made = self._session.run(None, feeds)
        except Exception as error:
            shapes = ", ".join(f"{name!r} {values.shape}" for name, values in feeds.items())
            raise InvalidInputError(
                f"{self.path.name!r} failed for {shapes}: {_first_line(error)}"
            ) from error
        found: Arrays = {}
        for one, values in zip(self.outputs, map(np.asarray, made), strict=True):
            if values.ndim == 0 or len(values) != rows:
                raise ShapeMismatchError(
                    f"the output {one.name!r} of {self.path.name!r} has shape {values.shape} for"
                    f" {rows} rows, not a value per row\nexport the model with a dynamic"
                    " batch axis, and without sums over the batch",
                    expected=rows,
                    actual=values.shape,
                )
            found[one.name] = values[: stop - start]
        return found


@dataclass(frozen=True)
class ModelCall:
    """A model as a function of ``ds.map``: from columns to the tensors of a schema.

    Attributes:
        model: The model, bound to columns.
        schema: The types of the tensors that outputs become.
        outputs: The output of each tensor.
    """

    model: Model
    schema: Mapping[str, Any]
    outputs: Mapping[str, str]

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        types: Mapping[str, SampleType],
        columns: Sequence[str] | None,
        schema: Mapping[str, Any] | None,
    ) -> ModelCall:
        """Make a call of a model, with arguments of ``ds.map``.

        Raises:
            InvalidInputError: A tensor of the schema has no output.
        """
        model = Model(path).bound([*types] if columns is None else columns)
        model.refuse_types(types)
        made = [one.name for one in model.outputs]
        given = model.schema if schema is None else schema
        if len(given) == len(made) == 1:  # under any name
            return cls(model, given, dict.fromkeys(given, made[0]))
        for name in given:
            if name not in made:
                raise InvalidInputError(
                    f"schema= names {shown(name)}, and the outputs of {model.path.name!r} are"
                    f" {', '.join(map(str, model.outputs))}\nname some of these",
                    argument="schema",
                    actual=name,
                )
        return cls(model, given, {name: name for name in given})

    def __call__(self, columns: Mapping[str, Any]) -> Arrays:
        """Return the outputs by tensor."""
        found = self.model(columns)
        return {name: found[output] for name, output in self.outputs.items()}

    @property
    def digest(self) -> str:
        """The digest of the model."""
        return self.model.digest

    def refuse_another(self, session: Session) -> None:
        """Refuse to fill some rows of tensors whose other rows are of another model.

        Raises:
            InvalidStateError: The metadata of a tensor have another digest.
        """
        known = session.snapshot().schema.by_name
        for name in self.schema:
            other = known[name].attributes.get("model") if name in known else None
            if other not in (None, self.model.digest):
                raise InvalidStateError(
                    f"{name!r} of {session.store.url!r} was computed by another model,"
                    f" {str(other)[:19]}…, than {self.model.path.name!r}, {self.digest[:19]}…,"
                    " and not all of its rows would be computed again\nmap to another URL, or to"
                    " tensors of other names: schema={…}; in place, map all rows",
                    tensor=name,
                    expected=other,
                    actual=self.model.digest,
                )

    def note_digest(self, session: Session) -> None:
        """Stage the digest of the model in the metadata of the tensors that it filled."""
        for name in self.schema:
            known = session.snapshot().spec(name).attributes
            if known.get("model") != self.model.digest:
                alter_tensor(session, name, metadata={**known, "model": self.model.digest})


def fits(given: Sequence[int | None], wanted: Sequence[int | None]) -> bool:
    """Whether shapes agree, None agreeing with any size; the first one is the batch."""
    pairs = zip(given[1:], wanted[1:], strict=False)
    return len(given) == len(wanted) and all(
        one is None or other is None or one == other for one, other in pairs
    )


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_extra("running ONNX models", "onnx") from error


def _session_of(path: Path) -> Any:
    runtime = _library("onnxruntime")
    there = runtime.get_available_providers()
    providers = [one for one in PROVIDERS if one in there]
    try:
        return runtime.InferenceSession(os.fspath(path), providers=providers)
    except Exception as error:
        raise InvalidInputError(
            f"onnxruntime {runtime.__version__} cannot load {str(path)!r} as a model:"
            f" {_first_line(error)}",
            actual=str(path),
        ) from error


def _first_line(error: Exception) -> str:
    return shown((str(error).strip().splitlines() or [type(error).__name__])[0]).strip("'\"")


def _ports(found: Iterable[Any], path: Path) -> tuple[Port, ...]:
    ports: list[Port] = []
    for one in found:
        kind = one.type.removeprefix("tensor(").removesuffix(")")
        if kind not in DTYPES:
            raise UnsupportedFeatureError(
                f"{one.name!r} of {path.name!r} is a {one.type}, not an array that NumPy has"
                "\nexport the model with arrays alone; of scikit-learn: options={'zipmap': False}",
                actual=one.type,
            )
        shape = tuple(size if isinstance(size, int) else None for size in one.shape)
        ports.append(Port(one.name, np.dtype(DTYPES[kind]), shape))
    return tuple(ports)


def _type_of(port: Port) -> SampleType:
    if port.dtype == object:
        if len(port.shape) != 1:
            raise UnsupportedFeatureError(
                f"the output {port} has arrays of strings, which no type stores"
                "\nmap a function that joins them"
            )
        return Text()
    if len(port.shape) <= 1:
        return Scalar(str(port.dtype))
    return Array(str(port.dtype), port.shape[1:])


def _check_dtype(port: Port, given: np.dtype[Any], column: str) -> None:
    is_rounded = given.kind == port.dtype.kind == "f"  # as when floats are stored
    if port.dtype != object and not is_rounded and not np.can_cast(given, port.dtype, "safe"):
        raise DTypeMismatchError(
            f"{column!r} has {given}, which {port.dtype} of the input {port.name!r} does not hold"
            f" without loss\nconvert it: in tl.infer() by decode={{{column!r}:"
            f" tl.decode.Cast({str(port.dtype)!r})}}",
            tensor=column,
            expected=str(port.dtype),
            actual=str(given),
        )


def _array_for(port: Port, columns: Mapping[str, Any], name: str) -> npt.NDArray[Any]:
    if name not in columns:
        raise TensorNotFoundError(
            f"there is no column {name!r} for the input {port}; the batch has"
            f" {', '.join(map(repr, columns))}\nname it: inputs={{{port.name!r}: …}}",
            tensor=name,
        )
    values = columns[name]
    if isinstance(values, list) and any(one is None for one in values):
        raise InvalidInputError(
            f"{name!r} has NULLs, and {port} of a model has none\nleave these rows out:"
            f" where={not_null(name)}; in tl.infer() also null={{{name!r}: …}}",
            tensor=name,
        )
    if port.dtype == object and isinstance(values, list):
        values = np.array(values, dtype=object)
    if not isinstance(values, np.ndarray):
        raise ShapeMismatchError(
            f"{name!r} has samples of different shapes, and the model takes {port}\nin tl.infer()"
            f" make them alike by decode= or pad them by collate={{{name!r}: 'pad'}}",
            tensor=name,
        )
    _check_dtype(port, values.dtype, name)
    if not fits(values.shape, port.shape):
        raise ShapeMismatchError(
            f"{name!r} has shape {values.shape}, rows first, and the model takes {port}"
            "\nimages with channels first: layout='NCHW' in tl.infer()",
            tensor=name,
            expected=port.shape,
            actual=values.shape,
        )
    return np.ascontiguousarray(values.astype(port.dtype, copy=False))


def _digest(path: Path) -> str:
    digest = sha256()
    for file in (path, *_files_of_weights(path)):
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def _files_of_weights(path: Path) -> list[Path]:
    """Return the files beside a model that have its large tensors ("external data")."""
    model = _library("onnx").load_model(path, load_external_data=False)
    names = {
        entry.value
        for tensor in model.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [path.parent / name for name in sorted(names)]
