"""Cast users' values to arrays of one dtype, without loss.

The rules: a float may narrow (and rounds), but not overflow; an integer must fit; kinds never
change silently, except that an integer may become the float that equals it. So 1.5 into int,
"3" into int, 1 into bool and True into int are errors.

Arrays are cast as a whole. A list goes through one `numpy.asarray` where that is exact; only
when it is not, or when something is wrong, are samples checked one by one, to name the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.types.base.column import RaggedColumn, sizes_of
from tensorlake.types.base.dtypes import (
    NARROW_FLOATS,
    float_limits,
    holds_floats,
    is_narrow_float,
    parse_dtype,
    widened_floats,
)
from tensorlake.types.base.errors import (
    ARGUMENTS,
    STATEMENTS,
    Place,
    describe_value,
    dtype_mismatch,
    shape_mismatch,
)
from tensorlake.types.base.ragged import Ragged

__all__ = [
    "as_samples",
    "cast_array",
    "iterated",
    "joined_column",
    "ragged_column",
    "row_locator",
    "sample_array",
    "to_array",
    "uniform_values",
]

Shape = tuple[int | None, ...]

# Which kinds of dtype may become which: NumPy's one-letter kinds.
_ACCEPTED_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "fiu", "c": "cfiu"}
_WIDEST_INTEGERS = (np.dtype(np.int64), np.dtype(np.uint64))
_NESTED = {list, tuple}
_EXACT_IN_FLOAT64 = 2**53


def as_samples(value: Any, *, call: str, nullable: bool = False) -> np.ndarray | list[Any]:
    """Convert a user's column to a numeric array or a list of samples.

    `value` is untrusted: arrays and tensors of any library, Arrow, pandas, any iterable. Missing
    values of pandas become None if nullable: NaN too, since pandas has one value for both.

    Raises:
        InvalidInputError: The value is one sample, not a sequence of them.
    """
    if isinstance(value, np.ma.MaskedArray):
        return value.tolist()
    if isinstance(value, np.ndarray) and value.ndim:
        return value if value.dtype.kind in "biufcVM" else value.tolist()
    if isinstance(value, list):
        return value
    if isinstance(value, Ragged):
        return list(value)
    if isinstance(value, (str, bytes, bytearray, memoryview, dict)) or (
        np.ndim(value) == 0
        if isinstance(value, np.ndarray)
        else not isinstance(value, Iterable)
        and not hasattr(value, "__array__")
        and not hasattr(value, "__dlpack__")
    ):
        raise InvalidInputError(
            f"{call} takes a sequence of samples for each tensor, got {describe_value(value)}"
            "\nput a single sample into a list: [value]",
            actual=describe_value(value),
        )
    if hasattr(value, "isna") and hasattr(value, "to_numpy"):
        return _from_pandas(value, nullable=nullable)
    if hasattr(value, "to_pylist"):  # Arrow: its own arrays turn NULL into NaN
        return _from_arrow(value)
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        try:
            return as_samples(_foreign_array(value), call=call)
        except ValueError as error:
            raise InvalidInputError(f"{call}: {error}\ngive NumPy arrays", actual=value) from error
    return list(value)


def to_array(sample: Any) -> np.ndarray:
    """Return one sample of any library as an array; text and objects keep their NumPy kind.

    Raises:
        ValueError: Nested lists are of unequal lengths, or mix bools with numbers.
    """
    if isinstance(sample, np.ndarray):
        return sample
    if isinstance(sample, (list, tuple)):
        leaves = _leaf_types(sample)
        if bool in leaves and len(leaves) > 1:
            raise ValueError("bools mixed with other values")
        return np.asarray([to_array(item) for item in sample] if _is_foreign(leaves) else sample)
    if isinstance(sample, (int, float, complex, str, bytes, np.generic)):
        return np.asarray(sample)
    return _foreign_array(sample)


def iterated(sample: Any) -> Iterable[Any] | None:
    """Return an iterable over the items of a list-like sample; None for other samples."""
    if hasattr(sample, "__iter__"):
        try:
            return iter(sample)
        except (TypeError, RuntimeError, NotImplementedError):  # an array without axes
            return None
    return _foreign_array(sample) if hasattr(sample, "__dlpack__") else None


def cast_array(
    values: np.ndarray, dtype: np.dtype, place: Place, locate: Callable[[int], int]
) -> np.ndarray:
    """Cast all elements, or raise the error for the first that does not fit.

    `locate` gives the sample that holds the element at a flat position.
    """
    if values.dtype == dtype:
        return np.asarray(values, order="C")
    values = widened_floats(values)  # exact, and NumPy knows the rules of float32
    source = values.dtype
    if source.kind not in _accepted_kinds(dtype):
        position = locate(0)
        described = describe_value(values.reshape(-1)[0] if values.ndim == 0 else values)
        raise dtype_mismatch(place, position, described, hint=_kind_hint(values, dtype, place))
    rounds = dtype.kind in "fc" and source in _WIDEST_INTEGERS  # which NumPy calls safe
    if not (rounds or is_narrow_float(dtype)) and np.can_cast(source, dtype, "safe"):
        return np.asarray(values, dtype=dtype, order="C")
    with np.errstate(over="ignore", invalid="ignore"):
        result = np.asarray(values.astype(dtype), order="C")
    bad = _first_lost(values.reshape(-1), result.reshape(-1))
    if bad is not None:
        value = values.reshape(-1)[bad].item()
        is_infinite = bool(np.isinf(widened_floats(result.reshape(-1)[bad : bad + 1]))[0])
        lost = "it would become infinite" if is_infinite else f"{dtype.name} has no such number"
        kind = "integers must fit" if source.kind in "iu" else lost
        raise dtype_mismatch(place, locate(bad), f"{source} {shown(value)} ({kind})")
    return result


def uniform_values(
    samples: np.ndarray | list[Any], dtype: np.dtype, shape: tuple[int, ...], place: Place
) -> np.ndarray:
    """Stack samples of one shape into an array `(n, *shape)` of this dtype."""
    if len(samples) == 0:
        return np.zeros((0, *shape), dtype=dtype)
    stacked = samples if isinstance(samples, np.ndarray) else _stack_exactly(samples, dtype)
    if stacked is None or stacked.shape[1:] != shape:
        return _stack_one_by_one(samples, dtype, shape, place)
    elements = max(1, math.prod(shape))
    return cast_array(stacked, dtype, place, lambda position: position // elements)


def ragged_column(
    samples: np.ndarray | list[Any], dtype: np.dtype, shape: Shape, place: Place
) -> RaggedColumn:
    """Join samples whose shapes match `shape` (None means any length)."""
    if isinstance(samples, np.ndarray) and len(samples):
        if not _matches(samples.shape[1:], shape):
            actual = f"{samples.dtype} {samples.shape[1:]}"
            raise shape_mismatch(place, 0, actual)
        elements = max(1, math.prod(samples.shape[1:]))
        values = cast_array(samples, dtype, place, lambda position: position // elements)
        shapes = np.empty((len(samples), len(shape)), dtype=np.int64)
        shapes[:] = samples.shape[1:]
        return RaggedColumn(values.reshape(-1), shapes)
    listed = list(samples)
    if set(map(type, listed)) <= _NESTED and shape[0] is None and None not in shape[1:]:
        try:
            return _join_items(listed, dtype, tuple(n or 0 for n in shape[1:]), place)
        except InvalidInputError:
            pass  # found again below, where its row is known
    return _join_one_by_one(listed, dtype, shape, place)


def joined_column(samples: Ragged, dtype: np.dtype, shape: Shape, place: Place) -> RaggedColumn:
    """Cast contiguous samples all at once; as `ragged_column`."""
    fixed = np.array([-1 if length is None else length for length in shape])
    shapes = samples.shapes
    if shapes.shape[1:] != fixed.shape or bool(((shapes != fixed) & (fixed >= 0)).any()):
        return _join_one_by_one(list(samples), dtype, shape, place)  # names the row, or is empty
    values, locate = samples.values.reshape(-1), row_locator(sizes_of(shapes))
    return RaggedColumn(cast_array(values, dtype, place, locate), shapes)


def row_locator(lengths: np.ndarray) -> Callable[[int], int]:
    """Return a function from an element's index to its row, for contiguous rows."""
    stops = np.cumsum(lengths)
    return lambda element: int(np.searchsorted(stops, element, side="right"))


def _accepted_kinds(dtype: np.dtype) -> str:
    return _ACCEPTED_KINDS["f" if holds_floats(dtype) else dtype.kind]


def _from_pandas(value: Any, *, nullable: bool) -> np.ndarray | list[Any]:
    missing = np.asarray(value.isna(), np.bool_)
    is_number = isinstance(value.dtype, np.dtype) and value.dtype.kind in "fcO"
    if not missing.any() or (is_number and not nullable):
        array = np.asarray(value.to_numpy())
        return array if array.dtype.kind in "biufcM" else array.tolist()
    samples = value.tolist()  # as pandas Timestamps, which have their zones
    return [None if is_gone else one for one, is_gone in zip(samples, missing, strict=True)]


def _from_arrow(value: Any) -> np.ndarray | list[Any]:
    if getattr(value, "null_count", 1) == 0:
        kind = str(value.type)
        if kind.startswith(("int", "uint", "float", "double", "halffloat")):
            return np.asarray(value)
        if kind.startswith("fixed_size_list<") and hasattr(value, "flatten"):
            flat = value.flatten()
            if flat.null_count == 0 and str(flat.type).startswith(("int", "uint", "float", "d")):
                return np.asarray(flat).reshape(len(value), -1)
    return value.to_pylist()


def _foreign_array(value: Any) -> np.ndarray:
    """Return the array of another library's object.

    Raises:
        ValueError: It has none: it has no elements (torch's "meta"), is sparse, or fails.
    """
    try:
        return _array_of(value)
    except MemoryError:
        raise
    except Exception as error:  # whatever the other library raises
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"this {kind} cannot become an array: {reason}") from error


def _array_of(value: Any) -> np.ndarray:
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, without importing it
        value = value.detach().cpu()
        if hasattr(value, "resolve_conj"):  # lazily conjugated or negated: NumPy accepts neither
            value = value.resolve_conj().resolve_neg()
        name = str(value.dtype).removeprefix("torch.")
        if name in NARROW_FLOATS:  # torch does not convert these to NumPy, only their bits
            return _bits_of(value).view(parse_dtype(name))
    if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    return np.asarray(value)


def _bits_of(tensor: Any) -> np.ndarray:
    """Return the bits of a torch tensor, copying nothing."""
    import torch

    return tensor.contiguous().view(torch.int16 if tensor.itemsize > 1 else torch.uint8).numpy()


def _leaf_types(samples: Iterable[Any]) -> set[type]:
    level: Iterable[Any] = samples
    types: set[type] = set(map(type, samples))
    while types and types <= _NESTED:
        level = list(chain.from_iterable(level))
        types = set(map(type, level))
    return types


def _is_foreign(leaves: set[type]) -> bool:
    plain = (int, float, complex, str, bytes, type(None), np.generic, list, tuple)
    return not all(issubclass(leaf, plain) for leaf in leaves)


def _stack_exactly(samples: list[Any], dtype: np.dtype) -> np.ndarray | None:
    leaves = _leaf_types(samples)
    if leaves == set(map(type, samples)) and _is_foreign(leaves):
        try:
            arrays = list(map(to_array, samples))
        except ValueError:  # the sample that cannot be read is found one by one
            return None
        alike = len({(array.dtype, array.shape) for array in arrays}) == 1
        return np.stack(arrays) if alike and arrays[0].dtype.kind in "biufcV" else None
    try:
        if leaves == {int}:
            return _stack_integers(samples)
        if leaves <= {int, float, complex} and (holds_floats(dtype) or dtype.kind == "c"):
            stacked = np.asarray(samples)
            exact = leaves == {float} or bool(np.all(np.abs(stacked) < _EXACT_IN_FLOAT64))
            return stacked if exact else None
        if leaves == {bool} or (len(leaves) == 1 and issubclass(next(iter(leaves)), np.generic)):
            stacked = np.asarray(samples)
            return stacked if stacked.dtype.kind in "biufcV" else None
    except ValueError:  # unequal lengths: the sample that differs is found one by one
        return None
    return None


def _stack_integers(samples: list[Any]) -> np.ndarray | None:
    for dtype in (np.int64, np.uint64):
        try:
            return np.asarray(samples, dtype=dtype)
        except OverflowError:
            continue
    return None


def _stack_one_by_one(
    samples: Sequence[Any] | np.ndarray, dtype: np.dtype, shape: tuple[int, ...], place: Place
) -> np.ndarray:
    stacked = np.empty((len(samples), *shape), dtype=dtype)
    for position, sample in enumerate(samples):
        array = sample_array(sample, place, position)
        if array.shape != shape:
            raise _shape_error(array, sample, place, position)
        if _is_of_no_kind(array, sample):
            continue
        stacked[position] = cast_array(array, dtype, place, lambda _, at=position: at)
    return stacked


def _join_items(
    samples: list[Any], dtype: np.dtype, item: tuple[int, ...], place: Place
) -> RaggedColumn:
    shapes = np.empty((len(samples), 1 + len(item)), dtype=np.int64)
    shapes[:, 0] = np.fromiter(map(len, samples), dtype=np.int64, count=len(samples))
    shapes[:, 1:] = item
    items = list(chain.from_iterable(samples))
    return RaggedColumn(uniform_values(items, dtype, item, place).reshape(-1), shapes)


def _join_one_by_one(
    samples: list[Any], dtype: np.dtype, shape: Shape, place: Place
) -> RaggedColumn:
    empty_shape = tuple(length or 0 for length in shape)
    arrays: list[np.ndarray] = []
    for position, sample in enumerate(samples):
        array = sample_array(sample, place, position)
        if array.shape == (0,):  # [] and np.array([]) mean "none of them" whatever they would hold
            array = np.zeros(empty_shape, dtype=dtype)
        elif not _matches(array.shape, shape):
            raise _shape_error(array, sample, place, position)
        elif _is_of_no_kind(array, sample):
            array = array.astype(dtype)
        arrays.append(array)
    shapes = np.array([array.shape for array in arrays], dtype=np.int64)
    shapes = shapes.reshape(len(arrays), len(shape))
    if len({array.dtype for array in arrays}) == 1:
        joined = np.concatenate([array.reshape(-1) for array in arrays])
        if widened_floats(joined[:0]).dtype.kind in _accepted_kinds(dtype):
            locate = row_locator(sizes_of(shapes))
            return RaggedColumn(cast_array(joined, dtype, place, locate), shapes)
    parts = [
        cast_array(array, dtype, place, lambda _, at=position: at).reshape(-1)
        for position, array in enumerate(arrays)
    ]
    return RaggedColumn(np.concatenate([np.zeros(0, dtype=dtype), *parts]), shapes)


def _is_of_no_kind(array: np.ndarray, sample: Any) -> bool:
    """Whether a sample is lists without an element, which NumPy converts to floats."""
    return array.size == 0 and isinstance(sample, list | tuple)


def sample_array(sample: Any, place: Place, position: int) -> np.ndarray:
    """Return one sample as an array, as `to_array`.

    Raises:
        InvalidInputError: It is not one; the error has its row.
    """
    try:
        return to_array(sample)
    except ValueError as error:
        if "bools" in str(error) or "DLPack" in str(error):
            raise dtype_mismatch(place, position, str(error)) from error
        raise shape_mismatch(place, position, "nested lists of unequal lengths") from error


def _shape_error(array: np.ndarray, sample: Any, place: Place, position: int) -> Exception:
    if array.dtype.kind not in "biufcV":
        described = describe_value(sample)
        return dtype_mismatch(place, position, described)
    return shape_mismatch(place, position, f"{array.dtype} {array.shape}")


def _matches(actual: tuple[int, ...], shape: Shape) -> bool:
    return len(actual) == len(shape) and all(
        wanted is None or length == wanted for length, wanted in zip(actual, shape, strict=True)
    )


def _first_lost(values: np.ndarray, result: np.ndarray) -> int | None:
    """Return the first element that the cast changed, other than by rounding floats."""
    if not values.size:
        return None
    if values.dtype.kind in "fc":
        lost = ~np.isfinite(widened_floats(result)) & np.isfinite(values)
        if result.dtype.name == "float8_e4m3fn":  # which has NaN, but nothing for infinity
            lost |= np.isinf(values)
    elif result.dtype.kind in "iu":
        limits = np.iinfo(result.dtype)
        if int(values.min()) >= limits.min and int(values.max()) <= limits.max:
            return None
        lost = (values < limits.min) | (values > limits.max)
    else:
        exact = 2 ** (float_limits(result.dtype).nmant + 1)
        lost = (values > exact) | (values < -exact if values.dtype.kind == "i" else False)
        lost[lost] = _differ(values[lost], widened_floats(result[lost]))
    return int(np.argmax(lost)) if bool(lost.any()) else None


def _differ(integers: np.ndarray, floats: np.ndarray) -> np.ndarray:
    """Return where floats differ from integers, compared as integers, which do not round."""
    wide = np.real(floats).astype(np.float64)
    low, high = float(np.iinfo(integers.dtype).min), float(np.iinfo(integers.dtype).max)
    fits = (wide >= low) & (wide < high)  # no integer: NaN, infinity, and 2⁶³ as float of 2⁶³ − 1
    found = np.zeros(len(integers), integers.dtype)
    found[fits] = wide[fits].astype(integers.dtype)
    return ~fits | (found != integers)


def _kind_hint(values: np.ndarray, dtype: np.dtype, place: Place) -> str:
    source = values.dtype
    if source.kind in "biuf" and place.call in STATEMENTS:
        return f"kinds never change silently; write CAST(… AS {dtype.name.upper()})"
    if place.call in ARGUMENTS:
        return f"kinds never change silently; give a value of {dtype.name}, or None for NULL"
    if source.kind not in "biufc":
        return ""
    if source.kind == "f" and dtype.kind in "iu":
        return f"kinds never change silently; {_rounding_advice(values, dtype)}"
    return f"kinds never change silently; convert it yourself: values.astype({dtype.name!r})"


def _rounding_advice(values: np.ndarray, dtype: np.dtype) -> str:
    """Advise how to convert floats to integers: astype alone truncates and wraps."""
    limits, is_pixels = np.iinfo(dtype), dtype.kind == "u" and values.ndim > 1
    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    if finite.size < values.size:
        return f"replace NaN and infinity, then round: values.round().astype({dtype.name!r})"
    if is_pixels and low >= 0 and high <= 1:
        scaled = f"(values * {limits.max}).round().astype({dtype.name!r})"
        return f"scale intensities from 0 to 1: {scaled}"
    if is_pixels and -1 <= low < 0 and high <= 1:
        scaled = f"((values + 1) * {limits.max / 2}).round().astype({dtype.name!r})"
        return f"scale intensities from -1 to 1: {scaled}"
    if round(low) < limits.min or round(high) > limits.max:
        return f"values from {low:g} to {high:g} do not fit {limits.min} … {limits.max}: scale them"
    return f"convert it yourself: values.round().astype({dtype.name!r})"
