"""Column groups: columns with rows of their own, beside the tensors of a version.

    indexes {name: {"kind": "ledger", "parameters": {…}, "rows": 3,
                    "schema": {"tensors": [{"id": "9f3c…", "name": "item", …}, …]},
                    "roots": {"9f3c…": ROOT of extents, …},
                    "covers": {"a07b…": {"state": ROOT of extents, "reads": {…}}}}}

The parts of a group are ordinary columns: each has a tensor's spec, an index, chunks and checksums.
Whatever carries the trees of a version (branches, merges, copies, collections, checks) so carries
groups of any kind, which need not be known to it; only the code of a kind reads its parts.

``covers``, left out where it is empty, has the cells of tensors that the group was derived from
(``format/coverage.py``). A group that covers a tensor goes with it.

Invariants: every index covers ``rows`` rows. Along a log, up to an entry that records ``rewrite``,
the samples of a part's id only grow: content that replaces other content gets new ids. Members
unknown to this version are kept, and refused where packs that they might cite would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.format.coverage import Coverage
from tensorlake.format.entry.schema import Schema
from tensorlake.format.index.extents import Extents
from tensorlake.format.spec.canonical_json import canonical_bytes
from tensorlake.format.spec.integrity import damaged
from tensorlake.format.trees.nodes import Root
from tensorlake.quantities import is_whole_number

__all__ = [
    "COVERED",
    "INDEXES",
    "MAX_PARAMETERS_NBYTES",
    "ColumnGroup",
    "check_group_name",
    "column_groups",
    "cover_roots",
    "group_roots",
    "index_changes",
]

MAX_NAME_NBYTES = 200
MAX_PARAMETERS_NBYTES = 4 * 1024

INDEXES = "index/"
"""Begins the names of groups that are indexes: what they have is in a tensor, too."""

COVERED = " as covered"
"""Ends the name of a state that a group covers, whose pages are kept, and no chunks."""

_RESERVED = "page"  # {"page": …} is the address of the member's page
_MALFORMED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnGroup:
    """The columns of one group, by reference.

    Attributes:
        kind: Tells which code reads it.
        schema: The specs of its parts, as JSON: reading a version does not parse them.
        roots: The index of each part, by its id.
        rows: Rows of every part.
        parameters: JSON of the kind.
        covers: The cells that it was derived from, by tensor id.
        unknown: Members of other versions, preserved.
        parsed: The specs of its parts, where they need no parsing.
    """

    kind: str
    schema: Mapping[str, Any]
    roots: Mapping[str, Root[Extents]]
    rows: int
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    covers: Mapping[str, Coverage] = field(default_factory=dict[str, Coverage])
    unknown: Mapping[str, Any] = field(default_factory=dict[str, Any])
    parsed: Schema | None = field(default=None, repr=False)

    @classmethod
    def empty(
        cls, kind: str, schema: Schema, parameters: Mapping[str, Any] | None = None
    ) -> ColumnGroup:
        """Make a group without rows.

        Raises:
            InvalidInputError: The parameters are not JSON, or too large.
        """
        nbytes = len(canonical_bytes(dict(parameters or {})))
        if nbytes > MAX_PARAMETERS_NBYTES:
            raise InvalidInputError(
                f"the parameters of a column group take {nbytes:,} bytes, the format allows"
                f" {MAX_PARAMETERS_NBYTES:,}\nput large values into a part",
                nbytes=nbytes,
            )
        roots = {spec.id: Root.of(Extents.empty()) for spec in schema.tensors}
        return cls(kind, schema.to_json(), roots, 0, dict(parameters or {}), parsed=schema)

    def parts(self) -> Schema:
        """Parse the specs of the parts.

        Raises:
            SchemaError: They are malformed.
            UnsupportedFeatureError: A type is unknown to this version.
        """
        return self.parsed or Schema.from_json(self.schema)

    def with_roots(self, roots: Mapping[str, Root[Extents]], rows: int) -> ColumnGroup:
        """Return the group with other indexes of its parts."""
        return replace(self, roots=roots, rows=rows)

    def continues(self, other: ColumnGroup | None) -> bool:
        """Whether it has the other group's samples, and perhaps more at the end."""
        return other is not None and set(self.roots) == set(other.roots)

    def check_known(self, name: str) -> None:
        """Refuse a group that may cite packs in a way unknown to this version.

        Raises:
            UnsupportedFeatureError: It has members that are unknown.
        """
        unknown = {*self.unknown, *(key for one in self.covers.values() for key in one.unknown)}
        if unknown:
            raise UnsupportedFeatureError(
                f"the column group {name!r} has the members"
                f" {', '.join(map(repr, sorted(unknown)))}, whose packs are unknown to this"
                " tensorlake\ninstall a newer tensorlake",
                features=(name,),
            )

    def to_json(self) -> dict[str, Any]:
        """Return the group's JSON."""
        return {
            **self.unknown,
            "kind": self.kind,
            "parameters": dict(self.parameters),
            "rows": self.rows,
            "schema": dict(self.schema),
            "roots": {part: root.to_json() for part, root in self.roots.items()},
        } | (
            {"covers": {id_: one.to_json() for id_, one in self.covers.items()}}
            if self.covers
            else {}
        )

    @classmethod
    def from_json(cls, value: Any, *, where: str) -> Self:
        """Read the JSON of a group.

        Raises:
            CorruptionError: It is malformed, or an index does not cover its rows.
        """
        try:
            members = dict(cast("Mapping[str, Any]", value))
            kind, rows, schema, roots, parameters = (
                members.pop(name) for name in ("kind", "rows", "schema", "roots", "parameters")
            )
            parts: dict[str, str] = {one["id"]: one["name"] for one in schema["tensors"]}
            if not isinstance(kind, str) or not is_whole_number(rows) or rows < 0:
                raise TypeError(f"kind {kind!r:.60} or rows {rows!r:.60}")
            if not parts or not all(map(_is_text, (*parts, *parts.values()))):
                raise TypeError(f"parts {parts!r:.200}")
            if len(parts) != len(schema["tensors"]) or len({*parts.values()}) != len(parts):
                raise ValueError("two parts have one id or name")
            if set(roots) != set(parts):
                raise ValueError("the indexes do not match the parts")
            parsed = {
                part: Root.from_json(roots[part], Extents, where=f"{where}, part {name!r:.60}")
                for part, name in parts.items()
            }
            covers = {
                id_: Coverage.from_json(one, where=f"{where}, what it covers of {id_!r:.60}")
                for id_, one in dict(members.pop("covers", {})).items()
            }
            group = cls(kind, dict(schema), parsed, rows, dict(parameters), covers, members)
        except _MALFORMED as error:
            raise damaged(where, f"it is not a column group ({error!r:.300})") from error
        for part, root in parsed.items():
            if root.rows != rows:
                why = f"the index of {parts[part]!r:.60} covers {root.rows:,} rows of {rows:,}"
                raise damaged(where, why)
        return group


def index_changes(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> tuple[Mapping[str, Any], ...]:
    """Describe the indexes that one version has otherwise than another, from groups as JSON.

    Returns:
        An object for each, by name: {"op": "add", "drop" or "update", "name": …, "kind": …}. An
        index that only covers other rows is not updated.
    """
    found: list[Mapping[str, Any]] = []
    for name in sorted({*before, *after}):
        old, new = before.get(name), after.get(name)
        one = old if new is None else new
        if not name.startswith(INDEXES) or one is None:
            continue
        if old is not None and new is not None and old.get("roots") == new.get("roots"):
            continue
        op = "add" if old is None else "drop" if new is None else "update"
        found.append({"op": op, "name": name.removeprefix(INDEXES), "kind": one.get("kind")})
    return tuple(found)


def check_group_name(name: str) -> str:
    """Return the name if a group may have it.

    Raises:
        InvalidInputError: It is empty, too long, reserved or not text.
    """
    try:
        is_allowed = 0 < len(name.encode()) <= MAX_NAME_NBYTES and name != _RESERVED
    except (AttributeError, UnicodeEncodeError):
        is_allowed = False
    if not is_allowed:
        raise InvalidInputError(
            f"{name!r:.80} cannot be the name of a column group"
            f"\ngive a text of 1 to {MAX_NAME_NBYTES} bytes that is not {_RESERVED!r}",
            name=name,
        )
    return name


def column_groups(indexes: Mapping[str, Any], *, where: str) -> dict[str, ColumnGroup]:
    """Read the groups of an entry, by name.

    Args:
        indexes: The entry's member ``indexes``; its page is loaded.
        where: The entry, for errors.

    Raises:
        CorruptionError: One is malformed.
    """
    return {
        name: ColumnGroup.from_json(value, where=f"{where}, column group {name!r:.80}")
        for name, value in indexes.items()
    }


def group_roots(groups: Mapping[str, ColumnGroup]) -> dict[str, Root[Extents]]:
    """Return the indexes of all parts by ``group/part id``, which no tensor's id equals.

    Raises:
        UnsupportedFeatureError: A group may cite packs in a way unknown to this version.
    """
    roots: dict[str, Root[Extents]] = {}
    for name, group in groups.items():
        group.check_known(name)
        roots.update({f"{name}/{part}": root for part, root in group.roots.items()})
    return roots


def cover_roots(groups: Mapping[str, ColumnGroup]) -> dict[str, Root[Extents]]:
    """Return the states that groups cover, by ``group/tensor id as covered``.

    Raises:
        UnsupportedFeatureError: A group may cite packs in a way unknown to this version.
    """
    roots: dict[str, Root[Extents]] = {}
    for name, group in groups.items():
        group.check_known(name)
        roots.update({f"{name}/{id_}{COVERED}": one.state for id_, one in group.covers.items()})
    return roots


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
