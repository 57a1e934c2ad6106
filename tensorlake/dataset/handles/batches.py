"""``torch()``, ``jax()``, ``tensorflow()`` and ``loader()`` of Dataset, View and Mix; ``run()``.

A call passes on only the arguments that were given: `LoaderArguments` holds the defaults. Names of
other libraries (``num_workers=``) are refused by the loader, with the name used here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Unpack

from tensorlake.dataset.display.signatures import with_options
from tensorlake.dataset.transform.loader_options import (
    DEFAULTS,
    JaxOptions,
    LoaderOptions,
    TorchOptions,
)

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import HasViews, RowSet
    from tensorlake.dataset.runs.places import Runs
    from tensorlake.dataset.runs.run import Run
    from tensorlake.dataset.transform.windows import WindowForm
    from tensorlake.loader import (
        ComposedMix,
        Form,
        Framework,
        Loader,
        LoaderDataset,
        Packing,
    )

__all__ = ["Packed", "Windows", "jax", "loader", "run", "runs", "tensorflow", "torch"]


class HasLoader(Protocol):
    """Rows that a loader can read."""

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader: ...


@with_options(TorchOptions, DEFAULTS)
def torch(self: HasLoader, **arguments: Unpack[TorchOptions]) -> Loader:
    """Stream batches of torch tensors; docs/reference/loader.md describes the arguments.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stream-torch", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> for batch in ds.torch(batch_size=2):
        ...     print(batch["x"].tolist())
        [1, 2]
        [3]
        >>> ds.discard()
    """
    return self.__loader__("torch", dict(arguments))


@with_options(JaxOptions, DEFAULTS)
def jax(self: HasLoader, **arguments: Unpack[JaxOptions]) -> Loader:
    """Stream batches of JAX arrays; docs/reference/loader.md describes the arguments.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stream-jax", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> [batch["x"].tolist() for batch in ds.jax(batch_size=2)]
        [[1, 2], [3]]
        >>> ds.discard()
    """
    return self.__loader__("jax", dict(arguments))


@with_options(LoaderOptions, DEFAULTS)
def tensorflow(
    self: HasLoader, *, element_spec: Any = None, **arguments: Unpack[LoaderOptions]
) -> LoaderDataset:
    """Stream batches of TensorFlow tensors, as a ``tf.data.Dataset`` whose iterations are epochs.

    Columns of varying lengths are ragged tensors, and every batch has ``_valid``. The dataset has
    ``state_dict()`` and ``load_state_dict()``, and ``loader`` for the rest;
    docs/reference/loader.md describes the arguments.

    Args:
        self: The rows.
        element_spec: A ``tf.TypeSpec`` by name of each entry that ``transform=`` or a function in
            ``collate=`` makes; with ``batch_transform=``, the whole structure that it returns.

    Raises:
        InvalidInputError: Functions make entries, and ``element_spec`` does not describe them.
        UnsupportedFeatureError: TensorFlow has no type for a column.
        MissingExtraError: TensorFlow is not installed.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stream-tensorflow", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> try:
        ...     found = [batch["x"].numpy().tolist() for batch in ds.tensorflow(batch_size=2)]
        ... except tl.MissingExtraError:
        ...     found = [[1, 2], [3]]
        >>> found
        [[1, 2], [3]]
        >>> ds.discard()
    """
    made = self.__loader__("tensorflow", dict(arguments))  # raises where TensorFlow is missing
    from tensorlake.loader import tf_dataset

    return tf_dataset(made, element_spec)


@with_options(LoaderOptions, DEFAULTS)
def loader(self: HasLoader, **arguments: Unpack[LoaderOptions]) -> Loader:
    """Stream batches of NumPy arrays; docs/reference/loader.md describes the arguments.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stream-loader", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> [batch["x"].tolist() for batch in ds.loader(batch_size=2)]
        [[1, 2], [3]]
        >>> ds.discard()
    """
    return self.__loader__("numpy", dict(arguments))


def run(  # noqa: D417 - a method: self
    self: HasViews[Any],
    name: str,
    config: Mapping[str, Any] | None = None,
    *,
    keep: bool = False,
) -> Run:
    """Record a run: which rows its loaders read at each step, and the values that it logs.

    The record is beside the dataset, under ``runs/``, outside of its branches. A run of the same
    name is continued, at the step of the state that its loader is given.

    Args:
        name: Name of the run.
        config: JSON values to remember; values of keys that name secrets are hidden.
        keep: Whether to tag the version, as ``runs-main-12``, so that it does not expire: runs of
            a version share one tag.

    Raises:
        InvalidInputError: The run was recorded with another config; or the dataset is behind a
            server, which keeps no records.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-run-method", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> _ = ds.commit("three")
        >>> with ds.run("first", config={"lr": 0.1}) as run:
        ...     for batch in run.loader(batch_size=2):
        ...         run.log(loss=batch["x"].mean())
        >>> ds.runs["first"].rows_at(step=1).tolist()
        [2]
    """
    from tensorlake.dataset.runs.places import recorded_beside

    return recorded_beside(self, name, config, keep=keep)


def runs(self: HasViews[Any]) -> Runs:
    """The runs that are recorded beside the dataset, by name."""
    from tensorlake.dataset.runs.places import open_runs

    return open_runs(self)


class HasForms(Protocol):
    """Rows that can be packed."""

    def __loader__(
        self, framework: Framework, arguments: dict[str, Any], form: Form | None = None
    ) -> Loader: ...


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """Documents as sequences of one length: what ``pack()`` returns, to be streamed."""

    documents: HasForms
    packing: Packing

    torch, jax, tensorflow, loader = torch, jax, tensorflow, loader

    def __repr__(self) -> str:
        packing, rows = self.packing, getattr(self.documents, "__rowset__", None)
        packed = f"Packed sequences of {packing.length:,} tokens of {packing.tokens!r}, from"
        if rows is None:
            return f"{packed} a {self.documents!r}"
        return f"{packed} {len(rows):,} rows of {rows.url!r} {rows.version}"

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make a loader of a framework."""
        from tensorlake.dataset.transform.pack import packed_arguments

        return self.documents.__loader__(framework, *packed_arguments(arguments, self.packing))

    def __mixed_rows__(self) -> ComposedMix | None:
        """Return the documents of a mix, packed, for ``advance(mix=…)``; None: of a dataset."""
        from tensorlake.loader import ComposedMix

        make = getattr(self.documents, "__mixed_rows__", None)
        return None if make is None else ComposedMix(make(), self.packing)


class HasRowset(HasForms, Protocol):
    """Rows that can be cut into windows."""

    @property
    def __rowset__(self) -> RowSet: ...


@dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """Windows of rows, or of their arrays: what ``windows()`` returns, to be streamed."""

    rows: HasRowset
    columns: tuple[str, ...]
    form: WindowForm

    torch, jax, tensorflow, loader = torch, jax, tensorflow, loader

    def __len__(self) -> int:
        """Return the number of windows; reads the lengths of groups."""
        from tensorlake.dataset.transform.loaders import count_units

        return count_units(self.rows.__rowset__, self.form)

    def __repr__(self) -> str:
        rows = self.rows.__rowset__
        return (
            f"Windows of {', '.join(map(repr, self.columns))}: {self.form.steps}, from"
            f" {len(rows):,} rows of {rows.url!r} {rows.version}"
        )

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make a loader of a framework."""
        from tensorlake.dataset.transform.windows import window_arguments

        given = window_arguments(arguments, self.columns, self.form)
        return self.rows.__loader__(framework, given, self.form)
