"""What streams its rows in batches: a Dataset, a View, a mix of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorlake.loader import Framework, Loader

__all__ = ["Streamed"]


class Streamed(ABC):
    """Rows as batches of a framework's arrays."""

    def torch(self, **arguments: Any) -> Loader:
        """Stream batches of torch tensors; arguments in docs/reference/loader.md.

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
        return self.stream("torch", arguments)

    def jax(self, **arguments: Any) -> Loader:
        """Stream batches of JAX arrays; arguments in docs/reference/loader.md.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-stream-jax", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> for batch in ds.jax(batch_size=2):
            ...     print(batch["x"].tolist())
            [1, 2]
            [3]
            >>> ds.discard()
        """
        return self.stream("jax", arguments)

    def loader(self, **arguments: Any) -> Loader:
        """Stream batches of NumPy arrays; arguments in docs/reference/loader.md.

        Example:
            >>> import tensorlake as tl
            >>> ds = tl.create("memory://doc-stream-loader", {"x": "int64"})
            >>> ds.extend({"x": [1, 2, 3]})
            >>> for batch in ds.loader(batch_size=2):
            ...     print(batch["x"].tolist())
            [1, 2]
            [3]
            >>> ds.discard()
        """
        return self.stream("numpy", arguments)

    @abstractmethod
    def stream(self, framework: Framework, arguments: dict[str, Any]) -> Loader:
        """Make a loader of a framework: what ``torch()``, ``jax()`` and ``loader()`` call."""
