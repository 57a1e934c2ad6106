"""Tags: a few short words per row, stored as a JSON list of strings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tensorlake.errors import shown
from tensorlake.types.base.base import QueryKind, SampleType, check_default
from tensorlake.types.base.column import Buffer, Column, EncodedColumn
from tensorlake.types.base.errors import Place, describe_value, dtype_mismatch
from tensorlake.types.base.mixins import Encoded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Tags"]

_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Tags(Encoded, SampleType):
    """Words in the order given, each once; ``WHERE CONTAINS(tags, 'night')`` finds them.

    Unlike a `ClassLabel`'s names, words need not be declared.

    >>> Tags().convert([["night", "rain"], []], tensor="tags").samples
    [b'["night","rain"]', b'[]']
    """

    kind: ClassVar[str] = "tags"

    def __post_init__(self) -> None:
        check_default(self)

    @property
    def query_kind(self) -> QueryKind:
        """A JSON list of strings."""
        return "json"

    @property
    def expected(self) -> str:
        """The valid samples, as described in errors."""
        return "a list of different words (Tags)"

    def convert_values(self, samples: np.ndarray | list[Any], place: Place) -> Column:
        """Accept lists, tuples, sets (sorted) and arrays of strings."""
        encoded: list[Buffer] = []
        for position, sample in enumerate(samples):
            words = _words(sample)
            if words is None or not all(isinstance(word, str) for word in words):
                hint = f"put it into a list: [{shown(sample)}]" if isinstance(sample, str) else ""
                raise dtype_mismatch(place, position, describe_value(sample), hint=hint)
            if len(set(words)) < len(words):
                twice = next(word for word in words if words.count(word) > 1)
                raise dtype_mismatch(place, position, f"the word {twice!r} twice")
            try:
                encoded.append(_encoder.encode(words).encode())
            except UnicodeEncodeError as error:
                displayed = f"a str with {error.object[error.start]!r}, which is not a character"
                raise dtype_mismatch(place, position, displayed) from error
        return EncodedColumn(encoded)

    def present_sample(self, sample: bytes) -> Any:
        """Return the list of words."""
        return json.loads(sample)

    @property
    def item_counter(self) -> Callable[[Buffer], int]:
        """A function that counts words by parsing them."""
        return lambda sample: len(json.loads(bytes(sample)))


def _words(sample: Any) -> list[Any] | None:
    if isinstance(sample, (set, frozenset)):
        unordered: Iterable[Any] = sample
        return sorted(unordered, key=str)
    if isinstance(sample, np.ndarray):
        return sample.tolist() if sample.ndim == 1 else None
    return [*sample] if isinstance(sample, (list, tuple)) else None
