"""tensorlake: versioned, multi-modal datasets on object storage, streamed to PyTorch and JAX.

    import tensorlake as tl

    ds = tl.create("pets.tl", {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])})
    ds.extend({"image": paths, "label": labels})
    ds.commit("first batch")
    for batch in ds.query("WHERE label = 'cat'").torch(batch_size=64, shuffle=True):
        ...

A handle (`Dataset`) stands on a branch or a version; a `View` is rows × columns of one version.
docs/reference/sdk.md describes every name here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensorlake import errors
from tensorlake.dataset import (
    Commit,
    Dataset,
    Diff,
    Predicate,
    Row,
    Tensor,
    UncommittedChangesWarning,
    View,
    create,
    delete,
    exists,
)
from tensorlake.dataset import list_datasets as list  # noqa: A004 - the word users look for: tl.list
from tensorlake.dataset import open_dataset as open  # noqa: A004 - likewise tl.open
from tensorlake.errors import *  # noqa: F403 - the error tree is part of the face; it has __all__
from tensorlake.errors import __all__ as _error_names
from tensorlake.types import (
    Array,
    BBox,
    Bool,
    Bytes,
    ClassLabel,
    Embedding,
    File,
    Image,
    Json,
    Ragged,
    Scalar,
    Text,
)

if TYPE_CHECKING:
    from tensorlake.dataset import ingest
    from tensorlake.loader import collate, decode

__version__ = "0.1.0"

_LAZY = {
    "collate": "tensorlake.loader.collate",
    "decode": "tensorlake.loader.decode",
    "ingest": "tensorlake.dataset.ingest",
    "testing": "tensorlake.testing",
}

__all__ = [
    "Array",
    "BBox",
    "Bool",
    "Bytes",
    "ClassLabel",
    "Commit",
    "Dataset",
    "Diff",
    "Embedding",
    "File",
    "Image",
    "Json",
    "Predicate",
    "Ragged",
    "Row",
    "Scalar",
    "Tensor",
    "Text",
    "UncommittedChangesWarning",
    "View",
    "collate",
    "create",
    "decode",
    "delete",
    "errors",
    "exists",
    "ingest",
    "list",
    "open",
]
__all__ += [name for name in _error_names if name.endswith("Error")]


def __getattr__(name: str) -> Any:
    """Load the modules that training and ingestion need when they are first used."""
    if name in _LAZY:
        from importlib import import_module

        return import_module(_LAZY[name])
    raise AttributeError(f"module 'tensorlake' has no attribute {name!r}", name=name)
