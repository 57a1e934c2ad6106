"""Routes that change datasets: made, removed, transactions. All or nothing, and safe to repeat.

A client's changes are staged on the version that it read and published by one commit: readers see
all of it or nothing, and a concurrent commit that changed the same is 409, with the rows.
With a ``key`` a transaction can be sent again when its answer got lost: its commit answers it.
"""

from __future__ import annotations

import hashlib
import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, assert_never

from fastapi import APIRouter, Query, Request

from tensorlake.dataset import (
    Member,
    QueryLimits,
    WorkKey,
    change_names,
    insert_inside,
    note_condition,
    query_inside,
    session_of,
)
from tensorlake.errors import InvalidInputError, SchemaError, TensorlakeError
from tensorlake.types import NO_DEFAULT, as_type, from_json
from tensorlake.versions import authored_by
from tensorlake_server.bodies.arrow import ARROW_TYPE
from tensorlake_server.bodies.arrow_uploads import read_arrow
from tensorlake_server.bodies.json import BodyRoute, in_body_thread, parsed_json
from tensorlake_server.bodies.values import check_arrow_columns, parse_columns, parse_value
from tensorlake_server.http.openapi import component
from tensorlake_server.http.problems import Problem
from tensorlake_server.lake.group_commits import MOST_APPEND_NBYTES
from tensorlake_server.messages.changes import (
    AddNames,
    AddTensor,
    Append,
    Committed,
    CreateRequest,
    Delete,
    DropTensor,
    Insert,
    RenameTensor,
    Tag,
    TransactionRequest,
    Update,
    Upsert,
)
from tensorlake_server.messages.messages import DatasetDeleted, DatasetName
from tensorlake_server.request.context import (
    DatasetPath,
    hold_more,
    lake_of,
    note_change,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tensorlake.dataset import Commit, Dataset
    from tensorlake.types import SampleType
    from tensorlake_server.lake.group_commits import GroupCommits
    from tensorlake_server.messages.changes import Operation

__all__ = ["router"]

DIGEST_CHARACTERS = 32  # of 4 bits

router = APIRouter(prefix="/v1/datasets", tags=["writing"], route_class=BodyRoute)


@router.post("", response_model=DatasetName, status_code=201)
def create_dataset(request: Request, asked: CreateRequest) -> DatasetName:
    """Make a dataset; needs a scope to write all of it."""
    schema = {name: parse_type(given) for name, given in asked.schema_.items()}
    lake = lake_of(request)
    with authored_by(lake.author):
        lake.create(asked.name, schema, grace=asked.grace, exist_ok=asked.exist_ok)
    return DatasetName(name=asked.name)


@router.delete("/{name}", response_model=DatasetDeleted)
def delete_dataset(
    request: Request,
    name: DatasetPath,
    confirm: Annotated[str, Query(description="the name again")],
) -> DatasetDeleted:
    """Remove a dataset and all its versions, for good; needs an ``admin`` scope.

    Other files at its place are left; the response names them.
    """
    lake = lake_of(request)
    lake.check_readable(name)
    if confirm != name:
        raise InvalidInputError(
            f"this removes every version of {name!r} for good\nto confirm: confirm={name}"
        )
    return DatasetDeleted(left=lake.delete(name))


@router.post(
    "/{name}/transactions",
    response_model=Committed,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {"schema": component(TransactionRequest)},
                ARROW_TYPE: {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
)
async def commit_transaction(
    request: Request,
    name: DatasetPath,
    branch: Annotated[str | None, Query(description="of an Arrow body; main if none")] = None,
    message: Annotated[str | None, Query(description="of an Arrow body")] = None,
    base_version: Annotated[str | None, Query(description="of an Arrow body")] = None,
    key: Annotated[str | None, Query(description="of an Arrow body", max_length=256)] = None,
) -> Committed:
    """Change one branch: all of the operations, or none. An Arrow stream is rows to append."""
    from starlette.concurrency import run_in_threadpool

    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    lake_of(request).check_writable(name, None)  # before the body is taken in
    body = await request.body()
    most = settings_of(request).max_write_nbytes
    if media_type == ARROW_TYPE:
        appended = TransactionRequest.model_construct(
            operations=[],
            branch="main" if branch is None else branch,
            message=message or "",
            base_version=base_version,
            key=key,
        )
        hold = partial(hold_more, request)
        read = partial(read_arrow, body, most_nbytes=most, hold=hold)
        table = await in_body_thread(request, read)
        work = await in_body_thread(request, lambda: _work_key(request, key, body))
        return await _committed_append(
            request, name, appended, work, _append_of_arrow(table), len(body)
        ) or await run_in_threadpool(
            _commit, request, name, appended, work, _append_of_arrow(table)
        )
    if media_type not in ("application/json", ""):
        raise Problem(
            415,
            "unsupported-media-type",
            f"send application/json or {ARROW_TYPE}, not {media_type}",
        )
    beside = ", ".join(request.query_params)
    if beside:
        detail = f"{beside}: a JSON body has these itself\nput them into the body"
        raise Problem(422, "invalid-input", detail)
    asked = await in_body_thread(request, lambda: parsed_json(TransactionRequest, body))
    stage = _stage_all(request, asked)
    work = await in_body_thread(request, lambda: _work_key(request, asked.key, _work_of(asked)))
    if all(isinstance(operation, Append) for operation in asked.operations):
        answer = await _committed_append(request, name, asked, work, stage, len(body))
        if answer is not None:
            return answer
    return await run_in_threadpool(_commit, request, name, asked, work, stage)


def _work_of(asked: TransactionRequest) -> bytes:
    """Encode the changes of a transaction, however its JSON was written, without its tags."""
    if asked.key is None:
        return b""
    staged = [one for one in asked.operations if not isinstance(one, Tag)]
    does = [one.model_dump(exclude_unset=True) for one in staged]
    return json.dumps(does, sort_keys=True).encode()


def _work_key(request: Request, key: str | None, does: bytes) -> WorkKey | None:
    """Return the key of a request's work: of its client, and of what it does."""
    if key is None:
        return None
    caller = lake_of(request).caller.encode()
    digest = hashlib.sha256(b"%d:%s%s" % (len(caller), caller, does))
    return WorkKey(key, digest.hexdigest()[:DIGEST_CHARACTERS])


async def _committed_append(
    request: Request,
    name: str,
    asked: TransactionRequest,
    work: WorkKey | None,
    stage: Callable[[Dataset], None],
    nbytes: int,
) -> Committed | None:
    """Publish a small append together with those of others; None: it is to be published alone."""
    groups: GroupCommits = request.app.state.groups
    if asked.base_version is not None or nbytes > MOST_APPEND_NBYTES:
        return None
    lake = lake_of(request)
    lake.check_writable(name, asked.branch)
    member = Member(stage, asked.message, lake.author, work)
    outcome, rows = await groups.append(name, asked.branch, member, nbytes)
    if outcome.commit is None:
        assert outcome.error is not None, "one of both"
        raise outcome.error
    note_change(request, outcome.commit.version)
    return Committed(
        version=outcome.commit.version,
        digest=outcome.commit.digest,
        rows=rows,
        is_repeated=outcome.is_repeated,
    )


def parse_type(given: str | dict[str, Any]) -> SampleType:
    """Read a tensor's type as JSON has it.

    Raises:
        SchemaError: It is not a type.
        UnsupportedFeatureError: It is of a kind that this server does not know.
    """
    if isinstance(given, str):
        return as_type(given)
    if not isinstance(given.get("kind"), str):
        raise SchemaError('a type is a dtype\'s name, "str", or an object with its "kind"')
    try:
        return from_json(given)
    except (TypeError, AttributeError, ValueError, KeyError) as error:
        if isinstance(error, TensorlakeError):
            raise
        raise SchemaError(f"{given!r} is not a type: {error}") from error


def _commit(
    request: Request,
    name: str,
    asked: TransactionRequest,
    key: WorkKey | None,
    stage: Callable[[Dataset], None],
) -> Committed:
    lake = lake_of(request)
    tags = [operation.name for operation in asked.operations if isinstance(operation, Tag)]
    if tags:
        lake.check_writable(name)  # a tag is of the whole dataset
    work = lake.begin(name, asked.branch, base=asked.base_version, key=key)
    dataset = work.dataset
    try:
        if work.done is None:
            stage(dataset)
        commit = work.commit(asked.message, author=lake.author, tags=tags)
    finally:
        dataset.discard()
    note_change(request, commit.version)
    return _committed(dataset, commit, is_repeated=work.done is not None)


def _committed(dataset: Dataset, commit: Commit, *, is_repeated: bool) -> Committed:
    at = dataset if dataset.version == commit.version else dataset.at(commit.version)
    return Committed(
        version=commit.version, digest=commit.digest, rows=len(at), is_repeated=is_repeated
    )


def _append_of_arrow(table: Any) -> Callable[[Dataset], None]:
    def stage(dataset: Dataset) -> None:
        check_arrow_columns(table, dataset.schema)
        dataset.extend(table)

    return stage


def _stage_all(request: Request, asked: TransactionRequest) -> Callable[[Dataset], None]:
    settings = settings_of(request)
    limits = settings.query_limits()
    if all(isinstance(operation, Tag) for operation in asked.operations):
        raise InvalidInputError(
            "a transaction of tags alone publishes nothing that they could name"
            "\nname a version that is there: POST …/tags"
        )

    def stage(dataset: Dataset) -> None:
        for operation in asked.operations:
            _stage(dataset, operation, limits)

    return stage


def _stage(dataset: Dataset, operation: Operation, limits: QueryLimits) -> None:
    match operation:
        case Append(columns=columns):
            dataset.extend(parse_columns(columns, dataset.schema))
        case Insert(tql=text, params=params, columns=columns):
            insert_inside(dataset, text, params, names=columns or (), limits=limits)
        case Upsert(columns=columns, on=on):
            dataset.upsert(parse_columns(columns, dataset.schema), on=on)
        case Update():
            _stage_update(dataset, operation, _rows(dataset, operation, limits))
            _note_where(dataset, operation)
        case Delete():
            dataset.delete(_rows(dataset, operation, limits))
            _note_where(dataset, operation)
        case AddTensor(tensor=tensor, type=given, fill=fill):
            kind = parse_type(given)
            has_fill = "fill" in operation.model_fields_set
            filled = parse_value(fill, tensor, {tensor: kind}) if has_fill else NO_DEFAULT
            dataset.add_tensor(tensor, kind, filled)
        case DropTensor(tensor=tensor):
            dataset.drop_tensor(tensor)
        case RenameTensor(tensor=tensor, to=to):
            dataset.rename_tensor(tensor, to)
        case AddNames(tensor=tensor, names=names):
            change_names(session_of(dataset), tensor, "add", names)
        case Tag():
            pass  # it names what is published, once it is
        case _:
            assert_never(operation)


def _stage_update(dataset: Dataset, operation: Update, rows: list[int]) -> None:
    if operation.values is None:
        value = parse_value(operation.value, operation.tensor, dataset.schema)
        values = [value] * len(rows)
    else:
        given = {operation.tensor: operation.values}
        values = parse_columns(given, dataset.schema)[operation.tensor]
    if len(rows) or values:
        dataset[operation.tensor][rows] = values


def _rows(dataset: Dataset, operation: Update | Delete, limits: QueryLimits) -> list[int]:
    if operation.rows is not None:
        return operation.rows
    text = f"WHERE {operation.where}"
    return query_inside(dataset, text, operation.params, limits).rows.tolist()


def _note_where(dataset: Dataset, operation: Update | Delete) -> None:
    if operation.where is not None:
        note_condition(dataset, operation.where)
