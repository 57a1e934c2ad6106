"""TensorFlow loaders: a ``tf.data.Dataset`` of dicts of tensors, ragged ones where lengths differ.

    ds.tensorflow(…)  ─►  LoaderDataset (a tf.data.Dataset)  ──iter()──►  the loader's next epoch
                               .loader: epoch, state, statistics

TensorFlow traces programs before it reads data, so the dtype and shape of every entry come from the
columns; `tensorflow_spec` derives them. Batches keep their size when samples are skipped, and
``_valid`` marks the valid rows, as in JAX. TensorFlow would prefetch one batch more than the
training loop has, and divide batches among workers that have their own rank: both are turned off,
so the loader's state counts the batches that were handed out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.config.collate import null_in_batch
from tensorlake.loader.config.column_plan import VALID
from tensorlake.loader.config.converter import no_such_dtype
from tensorlake.loader.engine.loader import Loader
from tensorlake.loader.frameworks.tensorflow_spec import specs_of
from tensorlake.loader.sources.rows import OrderedRows
from tensorlake.loader.stages.batch_contents import Contents

__all__ = ["LoaderDataset", "TensorFlowConverter", "TensorFlowLoader", "tf_dataset"]

tf: Any = import_module("tensorflow")  # Any: its stubs describe a part of it


@dataclass(frozen=True, slots=True)
class TensorFlowConverter:
    """Convert arrays to tensors, and lists as their specs say.

    Attributes:
        specs: By name, a ``tf.TypeSpec`` of the entry; lists without one stay lists.
    """

    specs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = "tensorflow"
    keeps_places: bool = True
    presents: bool = True
    lists_null: bool = False
    placed: tuple[int, int] | None = None
    equal_parts: int = 1

    def turn_and_turns(self) -> tuple[int, int]:
        """Return that this process makes every batch."""
        return 0, 1

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Convert a batch's arrays and lists to tensors."""
        valid = batch.get(VALID)
        return {
            name: self._tensor(name, value, valid)
            if isinstance(value, list)
            else _dense(name, value)
            for name, value in batch.items()
        }

    def _tensor(self, name: str, samples: list[Any], valid: Any) -> Any:
        spec = self.specs.get(name)
        if spec is None:
            return samples
        if spec.dtype == tf.string:
            samples = [
                "" if one is None and valid is not None and not valid[at] else one
                for at, one in enumerate(samples)
            ]
        if any(one is None for one in samples):
            raise null_in_batch(name)
        if not isinstance(spec, tf.RaggedTensorSpec):
            return tf.convert_to_tensor(samples, spec.dtype)
        if spec.dtype == tf.string:
            return tf.ragged.constant(samples, tf.string, ragged_rank=spec.ragged_rank)
        return _ragged(samples, spec)


class TensorFlowLoader(Loader):
    """A loader that knows the ``tf.TypeSpec`` of each entry."""

    _converter: TensorFlowConverter
    _given: Any = None  # the specs of what functions make

    def _show(self, rows: OrderedRows, made: Contents) -> None:
        super()._show(rows, made)
        known = specs_of(self._rows, self._arguments, self._columns, self._finish.channels_first)
        self._add_specs(known, self._given)

    def _add_specs(self, known: Mapping[str, Any], given: Any) -> None:
        of_functions = {} if given is None or self._is_last else given
        self._converter = replace(self._converter, specs={**known, **of_functions})
        self._finish.converter = self._converter

    def element_spec(self, given: Any) -> Any:
        """Return the structure of a batch's specs.

        Args:
            given: Specs by name, of entries that functions make; with ``batch_transform``, the
                whole structure. None: none.

        Raises:
            InvalidInputError: Functions make entries, and their specs are not given.
        """
        functions = self._functions()
        if given is None and functions:
            raise InvalidInputError(
                f"TensorFlow needs the dtype and shape of every entry beforehand, and"
                f" {' and '.join(functions)} may return anything\ngive them, such as"
                " element_spec={'image': tf.TensorSpec((None, 224, 224, 3), tf.float32)}"
                + (", as the structure that batch_transform returns" if self._is_last else ""),
                argument="element_spec",
            )
        is_by_name = isinstance(given, Mapping) and all(
            isinstance(one, tf.TypeSpec) for one in given.values()
        )
        if not (given is None or is_by_name or self._is_last):
            raise InvalidInputError(
                f"element_spec= is a tf.TypeSpec by name of an entry, got {shown(given)}"
                "\nwrite element_spec={'image': tf.TensorSpec((None, 224, 224, 3), tf.float32)}",
                argument="element_spec",
                actual=given,
            )
        self._given = given
        self._add_specs(self._converter.specs, given)
        return given if self._is_last and given is not None else dict(self._converter.specs)

    @property
    def _is_last(self) -> bool:
        """Whether a function makes the batch as a whole."""
        return self._arguments.batch_transform is not None

    def _functions(self) -> list[str]:
        arguments = self._arguments
        named = [
            f"{name}=" for name in ("transform", "batch_transform") if getattr(arguments, name)
        ]
        collated = [name for name, how in (arguments.collate or {}).items() if callable(how)]
        return named + [f"the function in collate= of {name!r}" for name in collated]


class LoaderDataset(tf.data.Dataset):
    """A ``tf.data.Dataset`` over a loader: each iteration is the next epoch.

    Attributes:
        loader: The loader: its epoch, ``len()``, ``skip()``, statistics.
    """

    def __init__(self, loader: TensorFlowLoader, element_spec: Any) -> None:
        self.loader = loader
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
        batches = tf.data.Dataset.from_generator(
            lambda: iter(loader), output_signature=element_spec
        )
        self._batches = batches.with_options(options)
        super().__init__(self._batches._variant_tensor)  # noqa: SLF001 - what subclasses give it

    def _inputs(self) -> list[Any]:
        return [self._batches]

    @property
    def element_spec(self) -> Any:
        """The ``tf.TypeSpec`` of each entry."""
        return self._batches.element_spec

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch.

        Raises:
            TypeError: The loader reads a mix that never stops.
        """
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the position after the last batch taken, as JSON; see ``Loader``."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state, of any framework, in the next iteration; see ``Loader``."""
        self.loader.load_state_dict(state)


def tf_dataset(loader: Loader, element_spec: Any = None) -> LoaderDataset:
    """Return a loader of TensorFlow as a ``tf.data.Dataset``.

    Raises:
        InvalidInputError: Functions make entries, and ``element_spec`` does not describe them.
    """
    assert isinstance(loader, TensorFlowLoader)
    return LoaderDataset(loader, loader.element_spec(element_spec))


def _dense(name: str, value: Any) -> Any:
    """Return an array as a tensor; another object as it is.

    Raises:
        InvalidInputError: A function of the user made an array of which TensorFlow has no dtype.
    """
    if not isinstance(value, np.ndarray):
        return value
    try:
        return tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        raise no_such_dtype(name, value.dtype, "TensorFlow") from error


def _ragged(samples: list[np.ndarray], spec: Any) -> Any:
    """Join samples, and note their lengths along each axis that is ragged."""
    rank = spec.ragged_rank
    inner = [length or 0 for length in spec.shape[1 + rank :]]
    values = [np.empty((0, *inner), spec.dtype.as_numpy_dtype)]
    values += [one.reshape(prod(one.shape[:rank]), *one.shape[rank:]) for one in samples]
    splits: list[np.ndarray] = []
    for axis in range(rank):
        lengths = [one.shape[axis] for one in samples]
        times = [prod(one.shape[:axis]) for one in samples]
        splits.append(np.concatenate([[0], np.cumsum(np.repeat(lengths, times))]).astype(np.int64))
    return tf.RaggedTensor.from_nested_row_splits(np.concatenate(values), splits, validate=False)
