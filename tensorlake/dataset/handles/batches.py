"""``torch()``, ``jax()`` and ``loader()``, methods of Dataset, View and Mix.

Each is declared with all of its parameters, for readers, ``help()``, editors and type checkers.
A call passes on only the arguments that were given: `LoaderArguments` holds the defaults, and a
test compares them with those written here. Names of other libraries (``num_workers=``) are refused
by the loader, which knows what they are called here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tensorlake.dataset.display.signatures import declares

if TYPE_CHECKING:
    from tensorlake.loader import Framework, Loader, Shuffle
    from tensorlake.quantities import Duration

__all__ = ["jax", "loader", "torch"]


class HasLoader(Protocol):
    """Rows that a loader is made of."""

    def __loader__(self, framework: Framework, arguments: dict[str, Any]) -> Loader: ...


def _loader_of(framework: Framework, holder: HasLoader, **arguments: Any) -> Loader:
    return holder.__loader__(framework, arguments)


@declares(partial(_loader_of, "torch"))
def torch(
    self: HasLoader,
    *,
    batch_size: int | None = None,
    columns: Sequence[str] | None = None,
    shuffle: Shuffle = False,
    seed: int | None = None,
    decode: Mapping[str, Any] | None = None,
    transform: Callable[..., Mapping[str, Any]] | None = None,
    batch_transform: Callable[[dict[str, Any]], Any] | None = None,
    collate: Mapping[str, Any] | None = None,
    null: Mapping[str, Any] | None = None,
    layout: Literal["NHWC", "NCHW"] = "NHWC",
    device: Any = None,  # a torch.device or its name
    rank: int | None = None,
    world_size: int | None = None,
    global_batch_size: int | None = None,
    mesh: Any = None,  # sizes by axis name, or a torch DeviceMesh
    drop_last: bool = False,
    workers: int | None = None,
    prefetch: int | str = "256MiB",
    cache: int | str = "auto",
    on_error: Literal["raise", "skip"] = "raise",
    deterministic: bool = True,
    decode_on: Literal["client", "server"] = "client",
    timeout: Duration = 300.0,
) -> Loader:
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
    raise NotImplementedError  # `declares` calls `_loader_of` in its place


@declares(partial(_loader_of, "jax"))
def jax(
    self: HasLoader,
    *,
    batch_size: int | None = None,
    columns: Sequence[str] | None = None,
    shuffle: Shuffle = False,
    seed: int | None = None,
    decode: Mapping[str, Any] | None = None,
    transform: Callable[..., Mapping[str, Any]] | None = None,
    batch_transform: Callable[[dict[str, Any]], Any] | None = None,
    collate: Mapping[str, Any] | None = None,
    null: Mapping[str, Any] | None = None,
    layout: Literal["NHWC", "NCHW"] = "NHWC",
    device: Any = None,  # a jax.Device or its name
    rank: int | None = None,
    world_size: int | None = None,
    global_batch_size: int | None = None,
    mesh: Any = None,  # sizes by axis name, or a torch DeviceMesh
    drop_last: bool = False,
    workers: int | None = None,
    prefetch: int | str = "256MiB",
    cache: int | str = "auto",
    on_error: Literal["raise", "skip"] = "raise",
    deterministic: bool = True,
    decode_on: Literal["client", "server"] = "client",
    timeout: Duration = 300.0,
    sharding: Any = None,  # a jax.sharding.Sharding
) -> Loader:
    """Stream batches of JAX arrays; docs/reference/loader.md describes the arguments.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stream-jax", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> [batch["x"].tolist() for batch in ds.jax(batch_size=2)]
        [[1, 2], [3]]
        >>> ds.discard()
    """
    raise NotImplementedError  # `declares` calls `_loader_of` in its place


@declares(partial(_loader_of, "numpy"))
def loader(
    self: HasLoader,
    *,
    batch_size: int | None = None,
    columns: Sequence[str] | None = None,
    shuffle: Shuffle = False,
    seed: int | None = None,
    decode: Mapping[str, Any] | None = None,
    transform: Callable[..., Mapping[str, Any]] | None = None,
    batch_transform: Callable[[dict[str, Any]], Any] | None = None,
    collate: Mapping[str, Any] | None = None,
    null: Mapping[str, Any] | None = None,
    layout: Literal["NHWC", "NCHW"] = "NHWC",
    rank: int | None = None,
    world_size: int | None = None,
    global_batch_size: int | None = None,
    mesh: Any = None,  # sizes by axis name, or a torch DeviceMesh
    drop_last: bool = False,
    workers: int | None = None,
    prefetch: int | str = "256MiB",
    cache: int | str = "auto",
    on_error: Literal["raise", "skip"] = "raise",
    deterministic: bool = True,
    decode_on: Literal["client", "server"] = "client",
    timeout: Duration = 300.0,
) -> Loader:
    """Stream batches of NumPy arrays; docs/reference/loader.md describes the arguments.

    Example:
        >>> import tensorlake as tl
        >>> ds = tl.create("memory://doc-stream-loader", {"x": "int64"})
        >>> ds.extend({"x": [1, 2, 3]})
        >>> [batch["x"].tolist() for batch in ds.loader(batch_size=2)]
        [[1, 2], [3]]
        >>> ds.discard()
    """
    raise NotImplementedError  # `declares` calls `_loader_of` in its place
