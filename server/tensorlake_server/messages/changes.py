"""The JSON of requests that change something, as types; `messages.py` has those that only read.

Operations of a transaction are staged one after another, each on what those before it left, and
published together. ``rows`` are positions.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from tensorlake_server.messages.messages import Asked, CellValue, Message, Summary

__all__ = [
    "AddNames",
    "AddTensor",
    "Append",
    "BranchRequest",
    "Committed",
    "CreateRequest",
    "Delete",
    "DisputedCell",
    "DropTensor",
    "Insert",
    "MergeRequest",
    "Merged",
    "Operation",
    "OptimizeRequest",
    "Optimized",
    "RenameTensor",
    "RestoreRequest",
    "Tag",
    "TagRequest",
    "TransactionRequest",
    "Update",
    "Upsert",
]

MAX_OPERATIONS = 1000
Name = Annotated[str, Field(min_length=1, max_length=1024)]
Text = Annotated[str, Field(max_length=16_384)]
Position = Annotated[int, Field(ge=0, lt=2**63)]
Schema = Annotated[
    dict[Name, str | dict[str, Any]],
    Field(
        description="types by tensor: a dtype's name, `str`, or an object with `kind`",
        examples=[{"image": {"kind": "image", "codec": "jpeg"}, "score": "float32"}],
    ),
]


class CreateRequest(Asked):
    """A new dataset."""

    name: Name
    schema_: Annotated[Schema, Field(alias="schema")]
    grace: Annotated[str, Field(max_length=16, description="as tl.create takes it")] = "24h"
    exist_ok: bool = False


class _Rows(Asked):
    """Rows by position, or by a condition (TQL, with ``params``): one of both."""

    rows: Annotated[list[Position], Field(fail_fast=True)] | None = None
    where: Text | None = None
    params: Annotated[dict[str, Any], Field(default_factory=dict)]

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.rows is None) == (self.where is None):
            raise ValueError("give either rows (positions) or where (a condition)")
        return self


class Append(Asked):
    """New rows, at the end: values by tensor."""

    op: Literal["append"]
    columns: dict[str, list[Any]]


class Insert(Asked):
    """Rows that a query of the dataset gives, at the end; what it reads ends at the dataset."""

    op: Literal["insert"]
    tql: Annotated[Text, Field(examples=["SELECT * WHERE label = $label LIMIT 100"])]
    params: Annotated[dict[str, Any], Field(default_factory=dict)]
    columns: Annotated[
        Annotated[list[Name], Field(fail_fast=True)] | None,
        Field(description="the tensors that the outputs go to, in order; their own names if none"),
    ] = None


class Upsert(Asked):
    """Rows by key: where it is known the row gets the values, else it is appended."""

    op: Literal["upsert"]
    columns: dict[str, list[Any]]
    on: Annotated[list[str], Field(min_length=1), Field(fail_fast=True)]


class Update(_Rows):
    """Values for rows of one tensor: ``values``, one a row, or one ``value`` for all."""

    op: Literal["update"]
    tensor: str
    values: list[Any] | None = None
    value: Any = None

    @model_validator(mode="after")
    def _values_or_value(self) -> Self:
        if self.values is not None and "value" in self.model_fields_set:
            raise ValueError("give either values (one a row) or value (for all)")
        if self.values is None and "value" not in self.model_fields_set:
            raise ValueError("give values (one a row) or value (for all)")
        return self


class Delete(_Rows):
    """Rows that go."""

    op: Literal["delete"]


class AddTensor(Asked):
    """A new tensor; rows that exist get ``fill``, else the type's default, else NULL."""

    op: Literal["add_tensor"]
    tensor: str
    type: str | dict[str, Any]
    fill: Any = None


class DropTensor(Asked):
    """A tensor that goes; older versions keep it."""

    op: Literal["drop_tensor"]
    tensor: str


class RenameTensor(Asked):
    """Another name for a tensor."""

    op: Literal["rename_tensor"]
    tensor: str
    to: str


class AddNames(Asked):
    """More classes of a class label."""

    op: Literal["add_names"]
    tensor: str
    names: Annotated[list[str], Field(fail_fast=True)]


class Tag(Asked):
    """A name for the version that the transaction publishes; it never moves."""

    op: Literal["tag"]
    name: Name


Operation = Annotated[
    Append
    | Insert
    | Upsert
    | Update
    | Delete
    | AddTensor
    | DropTensor
    | RenameTensor
    | AddNames
    | Tag,
    Field(discriminator="op"),
]


class TransactionRequest(Asked):
    """Changes of one branch, published together or not at all."""

    operations: Annotated[
        list[Operation], Field(min_length=1, max_length=MAX_OPERATIONS), Field(fail_fast=True)
    ]
    branch: Name = "main"
    message: Text = ""
    base_version: Annotated[
        str | None, Field(description="the version that was read; the newest when left out")
    ] = None
    key: Annotated[
        str | None,
        Field(min_length=1, max_length=256, description="sent again, it changes nothing"),
    ] = None


class Committed(Message):
    """The published commit; ``is_repeated`` when the same key had published it before."""

    version: str
    digest: str
    rows: int
    is_repeated: bool


class BranchRequest(Asked):
    """A new branch."""

    name: Name
    at: Annotated[str | None, Field(description="main's newest when left out")] = None


class TagRequest(Asked):
    """A new tag, which never moves."""

    name: Name
    at: Annotated[str | None, Field(description="main's newest when left out")] = None


Side = Literal["ours", "theirs"]


class MergeRequest(Asked):
    """Bring the changes of ``source`` (a branch, or any version) into a branch.

    ``decisions`` has, by tensor and row id, whose value a cell gets that both changed;
    ``rows`` whose decision holds for a row that one branch deleted and the other changed;
    ``on_conflict`` holds for all others.
    """

    source: Name
    branch: Name = "main"
    on_conflict: Literal["error", "ours", "theirs"] = "error"
    tensors: Annotated[list[str], Field(fail_fast=True)] | None = None
    decisions: dict[Name, dict[Name, Side]] | None = None
    rows: dict[Name, Side] | None = None
    dry_run: bool = False


class DisputedCell(Message):
    """A cell that both branches changed, to different values; ``row`` is that of ours."""

    tensor: str
    row: int
    row_id: str
    base: CellValue | Summary
    ours: CellValue | Summary
    theirs: CellValue | Summary


class DisputedRow(Message):
    """A row that one branch deleted and the other changed; ``row`` is that of ``version``."""

    row_id: str
    deleted_by: Side
    version: str
    row: int
    tensors: Annotated[list[str], Field(description="those that the other branch changed")]


class Merged(Message):
    """The result of a merge, or its preview: ``how`` is nothing, fast-forward or merge.

    A preview lists the cells and rows to decide, at most 1,000 of each; ``conflicts`` counts all.
    Cells of tensors that are ``per`` one another are to be decided alike in each row.
    """

    how: str
    version: str | None
    added: int
    removed: int
    updated: dict[str, int]
    indexes: Annotated[
        list[str], Field(description="indexes made or updated on the branch merged, line by line")
    ]
    conflicts: list[str]
    disputed: list[DisputedCell]
    disputed_rows: list[DisputedRow]


class OptimizeRequest(Asked):
    """Merge small chunks of a branch, and drop what deleted rows left behind."""

    branch: Name = "main"


class Optimized(Message):
    """The result of an optimization; ``commits`` is 0 if there was nothing to do."""

    version: str
    commits: int
    chunks_before: int
    chunks_after: int


class RestoreRequest(Asked):
    """Publish the content of an older version as a new commit of a branch."""

    restored: Annotated[str, Field(description="the older version")]
    branch: Name = "main"
