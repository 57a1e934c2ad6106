"""The kinds of indexes, and the kind for a type where none is named."""

from __future__ import annotations

from tensorlake.errors import InvalidInputError, did_you_mean
from tensorlake.format import TensorSpec
from tensorlake.indexes.bitmap import BITMAP
from tensorlake.indexes.btree import BTREE
from tensorlake.indexes.kind import IndexKind
from tensorlake.indexes.text import TEXT
from tensorlake.indexes.vector import VECTOR
from tensorlake.types import Bool, ClassLabel, Tags

__all__ = ["KINDS", "kind_for"]

KINDS: dict[str, IndexKind] = {kind.name: kind for kind in (BITMAP, BTREE, VECTOR, TEXT)}
"""The kinds by name, in the order in which they are tried for a type."""


def kind_for(spec: TensorSpec, name: str | None) -> IndexKind:
    """Return the kind of index for a tensor: the one named, or the one for its type.

    Raises:
        InvalidInputError: There is no such kind, or it does not suit the tensor.
    """
    if name is None:
        for kind in _in_turn(spec):
            if kind.suits(spec.type):
                return kind
        suited = "; ".join(f"{kind.name}: {kind.wants}" for kind in KINDS.values())
        raise InvalidInputError(
            f"{spec.name!r} is {spec.type.describe()}, for which there is no index\n{suited}",
            tensor=spec.name,
        )
    if name not in KINDS:
        raise InvalidInputError(
            f"there is no index of the kind {name!r}{did_you_mean(name, KINDS)}"
            f"\nkinds are {', '.join(map(repr, KINDS))}",
            kind=name,
        )
    kind = KINDS[name]
    if not kind.suits(spec.type):
        raise InvalidInputError(
            f"{spec.name!r} is {spec.type.describe()}; an index of the kind {name!r} is for"
            f" {kind.wants}\nleave the kind out to get the one for its type",
            tensor=spec.name,
            kind=name,
        )
    return kind


def _in_turn(spec: TensorSpec) -> list[IndexKind]:
    """Order the kinds: rows of each value for labels, tags and booleans, else sorted values."""
    is_listed = isinstance(spec.type, Bool | ClassLabel | Tags)
    kinds = list(KINDS.values())
    return kinds if is_listed else [*kinds[1:], kinds[0]]
