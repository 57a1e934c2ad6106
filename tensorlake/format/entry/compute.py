"""How the samples of a tensor are computed from those of others, as its schema declares it.

    {"inputs": ["9f3c…"], "version": "1", "code": "a07b…", "function": "embed", "batch_size": 64}
    {"tql": "SHAPE(image)[0]", "inputs": ["9f3c…"]}
    {"reasons_of": "9f3c…"}

A function's results are stored. The cells that they were made from are in a column group, so that
only stale ones are computed again (``versions/rows/derived.py``). The function itself is never
stored: a process brings it, and ``code`` tells whether it is the one declared. A TQL expression is
evaluated when the column is read, and its cells are a fill. The third form is of the tensor that
has the reasons why a function failed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tensorlake.quantities import is_whole_number

__all__ = ["Compute"]


@dataclass(frozen=True, slots=True)
class Compute:
    """How a tensor's samples are computed.

    Attributes:
        inputs: Ids of the tensors that the function gets, or that the expression reads.
        version: The user's name of the function's version.
        code: A digest of that version, the function's source and the inputs, as hex.
        function: The function's name, for messages.
        batch_size: Rows that the function gets at once; None: one.
        tql: A TQL expression in place of a function.
        reasons_of: The id of the computed tensor whose failures it has the reasons of.
        unknown: Members of other versions, preserved.
    """

    inputs: tuple[str, ...] = ()
    version: str = ""
    code: str = ""
    function: str = ""
    batch_size: int | None = None
    tql: str | None = None
    reasons_of: str | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        if self.tql is not None:
            return {**self.unknown, "tql": self.tql, "inputs": list(self.inputs)}
        if self.reasons_of is not None:
            return {**self.unknown, "reasons_of": self.reasons_of}
        return {
            **self.unknown,
            "inputs": list(self.inputs),
            "version": self.version,
            "code": self.code,
            "function": self.function,
            "batch_size": self.batch_size,
        }

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Read the JSON form.

        Raises:
            TypeError, KeyError, ValueError: It is something else.
        """
        members = dict(value)
        tql = members.pop("tql", None)
        if tql is not None:
            inputs = tuple(map(_text, members.pop("inputs")))
            return cls(inputs, tql=_text(tql), unknown=members)
        if "reasons_of" in members:
            return cls(reasons_of=_text(members.pop("reasons_of")), unknown=members)
        names = ("inputs", "version", "code", "function", "batch_size")
        inputs, version, code, function, size = (members.pop(name) for name in names)
        if size is not None and not (is_whole_number(size) and size > 0):
            raise ValueError(f"batch_size {size!r:.80}")
        texts = _text(version), _text(code), _text(function)
        return cls(tuple(map(_text, inputs)), *texts, batch_size=size, unknown=members)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a text")
    return value
