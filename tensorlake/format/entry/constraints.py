"""Constraints: what must hold of the rows of a dataset, as its schema declares them.

    {"boxes inside": {"tql": "ALL(boxes >= 0)", "inputs": ["9f3c…"], "valid": true},
     "unique(id)":   {"unique": ["a07b…"]}}

A condition holds for a row unless it is false; NULL is allowed. Values of a unique key, one of
each of its tensors, occur in one row at most; a key with a NULL in any number. Writers that do not
know constraints must not write, so the entry has the feature ``constraints``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Constraint", "constraints_from_json"]


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a schema.

    Attributes:
        tql: A condition on each row; None of a unique key.
        inputs: Ids of the tensors that the condition reads, or that are the key.
        valid: Whether rows that were there before it were checked, too.
        unknown: Members of other versions, preserved.
    """

    tql: str | None
    inputs: tuple[str, ...]
    valid: bool = True
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        if self.tql is None:
            return {**self.unknown, "unique": list(self.inputs)}
        own = {"tql": self.tql, "inputs": list(self.inputs), "valid": self.valid}
        return {**self.unknown, **own}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read the JSON form.

        Raises:
            TypeError, KeyError, ValueError: It is something else.
        """
        members = dict(value)
        if "unique" in members:
            return cls(None, tuple(map(_text, members.pop("unique"))), unknown=members)
        tql, inputs, valid = (members.pop(name) for name in ("tql", "inputs", "valid"))
        return cls(_text(tql), tuple(map(_text, inputs)), bool(valid), members)


def constraints_from_json(value: Any) -> dict[str, Constraint]:
    """Read the constraints of a schema, by name.

    Raises:
        TypeError, KeyError, ValueError: They are something else.
    """
    return {_text(name): Constraint.from_json(one) for name, one in dict(value).items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a text")
    return value
