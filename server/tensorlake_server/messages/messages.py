"""The JSON of the REST API, as types; viewer/src/api/types.ts is made of them.

Requests are parsed into these once, at the border. Rows are written by msgspec straight from their
columns (see bodies/cells.py), so `RowsPage` here only describes them. After a change: ``make
api``.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from typing_extensions import TypeAliasType  # in typing since Python 3.12; pydantic brings this one

__all__ = [
    "Asked",
    "Branch",
    "Branches",
    "CellValue",
    "ClassCount",
    "ClassCounts",
    "CommitInfo",
    "Cost",
    "DatasetInfo",
    "DatasetList",
    "DatasetName",
    "DiffInfo",
    "FolderList",
    "Histogram",
    "JobInfo",
    "JobList",
    "JobSummary",
    "ObjectInfo",
    "ObjectList",
    "ProblemInfo",
    "QueryRequest",
    "QueryResult",
    "Ref",
    "Row",
    "RowsPage",
    "SaveViewRequest",
    "SavedViewInfo",
    "SavedViews",
    "SessionRequest",
    "Statistics",
    "Summary",
    "Tags",
    "TensorInfo",
    "ThumbnailsRequest",
    "UpdatedRows",
    "Versions",
]

MAX_TQL_CHARACTERS = 16_384
MAX_MEMBERS = 100  # of an object that a type here describes
MAX_NAMES = 10_000  # of one whose names are users'
FREE_MEMBERS = frozenset({"params", "state", "value"})  # any JSON: nothing of them can be wrong
MAX_THUMBNAILS = 256
MAX_THUMBNAIL_SIDE = 1024


class Message(BaseModel):
    """A body; unknown keys of requests are refused, so that a misspelt one is never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Asked(Message):
    """A request body: with few members, so that a list of all its errors stays small.

    No value is cast, or a deletion would take ``true`` and ``"2"`` for rows.
    """

    model_config = ConfigDict(strict=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_members(cls, value: Any) -> Any:
        members: dict[str, Any] = value if isinstance(value, dict) else {}
        if len(members) > MAX_MEMBERS:
            raise ValueError(f"an object of {len(members):,} members: none here has as many")
        for name, one in members.items():
            if name not in FREE_MEMBERS and isinstance(one, dict) and len(one) > MAX_NAMES:
                raise ValueError(f"{name[:80]!r} has more than {MAX_NAMES:,} members")
        return value


class JobInfo(Message):
    """A request that is worked on."""

    id: str
    status: Literal["running"]
    started: str


class JobSummary(Message):
    """A request that was sent to be answered later; ``done`` has an answer, of any status.

    Its status is queued, running, done or failed.
    """

    id: str
    request: str
    status: str
    started: str


class JobList(Message):
    """The jobs of a client, the newest first."""

    jobs: list[JobSummary]


class ProblemInfo(Message):
    """RFC 9457; ``line`` to ``stop`` are the place in a query's text."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    line: int | None = None
    column: int | None = None
    start: int | None = None
    stop: int | None = None
    conflict: dict[str, Any] | None = None


class SessionRequest(Asked):
    """The token of the link that the server printed, of its token file, or of its provider."""

    token: Annotated[str, Field(max_length=8192)]


class DatasetName(Message):
    """One dataset of the lake."""

    name: str


class DatasetDeleted(Message):
    """Paths at a dataset's place that are not the dataset's, and were left, sorted."""

    left: list[str]


class DatasetList(Message):
    """The lake's datasets, by name."""

    datasets: list[DatasetName]


class TensorInfo(Message):
    """One column: its type, and what the viewer needs to draw it."""

    name: str
    kind: Annotated[str, Field(description="the type's tag: image, bbox, class_label, scalar, …")]
    type: Annotated[str, Field(description="as people write it: Image(jpeg)")]
    dtype: str | None
    shape: list[int | None] | None
    nullable: bool
    media_type: str | None
    picture: Annotated[bool, Field(description="whether samples can be shown as images")]
    names: Annotated[list[str] | None, Field(description="of classes, or of keypoints")] = None
    of: Annotated[str | None, Field(description="the image that coordinates refer to")] = None
    per: Annotated[str | None, Field(description="the tensor whose items are labelled")] = None
    format: Annotated[str | None, Field(description="order of a box's four numbers")] = None
    skeleton: Annotated[
        list[tuple[int, int]] | None, Field(description="keypoints drawn joined, by position")
    ] = None


class DatasetInfo(Message):
    """One version of one dataset."""

    name: str
    url: Annotated[str | None, Field(description="for tl.open; null when the server hides it")]
    version: str
    digest: str
    rows: int
    nbytes: int | None
    tensors: list[TensorInfo]


class CommitInfo(Message):
    """One commit; ``changes`` has one short line a change."""

    version: str
    digest: str
    message: str
    author: str | None
    time: str
    parents: list[str]
    changes: list[str]


class Versions(Message):
    """Commits, the newest first; ``next`` continues, None at the first commit."""

    versions: list[CommitInfo]
    next: str | None


class Ref(Message):
    """A branch or a tag, and the commit that it names."""

    name: str
    version: str


class Branch(Message):
    """A branch, and the commit at its head; its own name where that cannot be read."""

    name: str
    version: str
    damaged: Annotated[str | None, Field(description="why it cannot be read")] = None


class Branches(Message):
    """All branches."""

    branches: list[Branch]


class Tags(Message):
    """All tags."""

    tags: list[Ref]


class UpdatedRows(Message):
    """Rows that have another value of one tensor: their positions in both versions."""

    tensor: str
    count: int
    rows_before: list[int]
    rows: list[int]


class DiffInfo(Message):
    """The differences between two versions, by row identity; rows are listed up to ``limit``."""

    a: str
    b: str
    limit: int
    schema_changes: list[str]
    added: int
    added_rows: list[int]
    removed: int
    removed_rows: list[int]
    updated: list[UpdatedRows]


class ObjectInfo(Message):
    """One object of a dataset; ``modified`` is by the store's clock."""

    path: str
    nbytes: int
    modified: str


class ObjectList(Message):
    """Objects in the order of their paths; ``next`` is the path to continue after, or None."""

    objects: list[ObjectInfo]
    next: str | None


class FolderList(Message):
    """The folders directly under a prefix that hold objects."""

    folders: list[str]


CellValue = TypeAliasType(
    "CellValue", "str | float | bool | list[CellValue] | dict[str, CellValue] | None"
)
"""Any JSON: a sample that is shown whole."""


class Summary(Message):
    """The summary in place of a sample that JSON cannot hold, or that is too large."""

    kind: Annotated[
        Literal["media", "array", "text", "json", "bytes", "error"], Field(alias="$summary")
    ]
    nbytes: int | None = None
    media_type: str | None = None
    dtype: str | None = None
    shape: list[int] | None = None
    items: Annotated[int | None, Field(description="of a sequence: images play as frames")] = None
    preview: CellValue = None
    message: str | None = None


class Row(Message):
    """One row, with a cell for each column; of rows that a query computed both names are null."""

    model_config = ConfigDict(extra="allow", frozen=True)

    row: Annotated[int | None, Field(alias="_row", description="its position in the version")]
    row_id: Annotated[str | None, Field(alias="_row_id", description="permanent row identifier")]
    __pydantic_extra__: dict[str, CellValue | Summary]  # pyright: ignore[reportIncompatibleVariableOverride] - pydantic reads it for what else there may be


class RowsPage(Message):
    """Rows by position in the version, or in a query's result; ``next`` is where to continue."""

    version: str
    view: str | None
    offset: int
    total: int
    next: int | None
    rows: list[Row]


class QueryRequest(Asked):
    """A query over one version (None: main's newest), or selected rows of it: one of both."""

    tql: Annotated[str, Field(max_length=MAX_TQL_CHARACTERS)] | None = None
    rows: Annotated[
        str | None,
        Field(description="base64 of ascending runs, as pairs of varints: gap, length"),
    ] = None
    params: dict[str, Any] = {}
    version: str | None = None
    limit: Annotated[int, Field(ge=0, le=1000)] = 64
    columns: Annotated[list[str], Field(fail_fast=True)] | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.tql is None) == (self.rows is None):
            raise ValueError("give either tql (a query) or rows (runs of rows)")
        if self.params and self.tql is None:
            raise ValueError("params belong to tql, and rows have none")
        return self


class ExplainRequest(Asked):
    """A query that is asked about, not run."""

    tql: Annotated[str, Field(max_length=MAX_TQL_CHARACTERS)]
    params: dict[str, Any] = {}
    version: str | None = None


class Explanation(Message):
    """How a query would run, one step a line."""

    plan: str


class CompletionRequest(Asked):
    """A query that is being written, and the place of the cursor in it."""

    tql: Annotated[str, Field(max_length=MAX_TQL_CHARACTERS)]
    cursor: Annotated[int, Field(ge=0)]
    version: str | None = None


class Offer(Message):
    """A text that could replace the word before the cursor, and what it is."""

    text: str
    kind: Literal["tensor", "class", "function", "keyword"]
    detail: str


class Completions(Message):
    """Completions, the most specific kinds first."""

    offers: list[Offer]


class Cost(Message):
    """The cost of a query; None where it was not counted."""

    seconds: float
    nbytes: int | None
    requests: int | None


class QueryResult(Message):
    """A query's rows: ``view`` names them permanently; of aggregates, no rows of the dataset."""

    view: str
    version: str
    tql: str
    tensors: list[TensorInfo]
    rows: int
    is_computed: bool
    cost: Cost
    page: RowsPage


class SavedViewInfo(Message):
    """Rows of a version under a name; ``tql`` is what led to them, None where they were picked."""

    name: str
    version: str
    rows: int
    tql: str | None
    message: str
    author: str | None


class SavedViews(Message):
    """The saved views, by name, and whether who asks may save one."""

    views: list[SavedViewInfo]
    may_save: bool


class SaveViewRequest(Asked):
    """The ``view`` of a query's result, and the name that it is to have."""

    name: Annotated[str, Field(min_length=1, max_length=1024)]
    view: str
    message: Annotated[str, Field(max_length=16_384)] = ""


class ThumbnailsRequest(Asked):
    """Which samples, and how large: they fit into ``size`` × ``size``."""

    tensor: str
    rows: Annotated[
        list[Annotated[int, Field(ge=0)]], Field(max_length=MAX_THUMBNAILS), Field(fail_fast=True)
    ]
    size: Annotated[int, Field(ge=16, le=MAX_THUMBNAIL_SIDE)] = 256
    window: Annotated[
        str | None, Field(description="values that are black and white: low,high, or auto")
    ] = None
    version: str | None = None
    view: str | None = None


class ClassCount(Message):
    """How often a class, a word, a string or a boolean occurs, and in how many rows."""

    code: int
    name: str
    count: int
    rows: int


class ClassCounts(Message):
    """Counts over ``counted`` rows; ``distinct`` is how many different values there are.

    The most frequent strings and words are listed, and all classes.
    """

    counted: int
    values: int
    distinct: int
    entries: list[ClassCount]


class Histogram(Message):
    """``counts[i]`` values are in [edges[i], edges[i + 1]); the last bar holds its end too.

    ``bounds`` are the edges as TQL writes them, exactly: ``expression >= bounds[i]`` finds what the
    bars count. ``per`` element, a row holds many values, and ANY selects rows that hold one or more
    of them.
    """

    title: str
    expression: Annotated[str, Field(description="the TQL whose values these are")]
    per: Literal["row", "element"]
    is_whole: Annotated[bool, Field(description="whether values are integers")]
    is_rising: Annotated[bool, Field(description="whether edges are 1, 2, 5, 10, 20, …")]
    counted: Annotated[int, Field(description="rows whose values were counted")]
    values: int
    nans: int
    infinities: int
    minimum: Annotated[str | None, Field(description="of the finite values, as TQL")]
    maximum: str | None
    mean: float | None
    edges: list[float]
    bounds: list[str]
    counts: list[int]


class Statistics(Message):
    """Statistics of one tensor; NULLs and empty samples are those of ``counted`` of its ``rows``.

    Where that is fewer, they are runs of rows that are spread evenly over all.
    """

    tensor: str
    rows: int
    counted: int
    nulls: int
    empty: Annotated[int | None, Field(description="samples without elements; null: none can be")]
    classes: ClassCounts | None
    histograms: list[Histogram]
