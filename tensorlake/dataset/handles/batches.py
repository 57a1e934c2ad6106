"""``torch()``, ``jax()`` and ``loader()``, methods of Dataset, View and Mix.

A call passes on only the arguments that were given: `LoaderArguments` holds the defaults. Names of
other libraries (``num_workers=``) are refused by the loader, with the name used here.
"""

from __future__ import annotations

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
    from tensorlake.dataset.core.rowset import RowSet
    from tensorlake.loader import Framework, Loader, Packing

__all__ = ["Packed", "jax", "loader", "torch"]


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


class HasDocuments(Protocol):
    """Rows that can be packed."""

    @property
    def __rowset__(self) -> RowSet: ...

    def __loader__(
        self, framework: Framework, arguments: dict[str, Any], packing: Packing | None = None
    ) -> Loader: ...


@dataclass(frozen=True, eq=False, repr=False)
class Packed:
    """Documents as sequences of one length: what ``pack()`` returns, to be streamed."""

    documents: HasDocuments
    packing: Packing

    torch, jax, loader = torch, jax, loader

    def __repr__(self) -> str:
        packing, rows = self.packing, self.documents.__rowset__
        return (
            f"Packed sequences of {packing.length:,} tokens of {packing.tokens!r}, from"
            f" {len(rows):,} rows of {rows.url!r} {rows.version}"
        )

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make a loader of a framework."""
        from tensorlake.dataset.transform.pack import packed_arguments

        return self.documents.__loader__(framework, *packed_arguments(arguments, self.packing))
