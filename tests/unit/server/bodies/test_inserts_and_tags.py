"""Transactions whose rows come from a query, and those that name what they publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.unit.server.written import Written, columns, send


@pytest.fixture
def written(tmp_path: Path, connect: Callable[..., httpx.Client]) -> Written:
    return Written(tmp_path, connect)


COPY = {"op": "insert", "tql": "SELECT * WHERE label = $label", "params": {"label": "a"}}


def test_rows_that_a_query_gives_are_inserted(written: Written) -> None:
    computed = {"op": "insert", "tql": "SELECT x * 10, 'b' WHERE x > 1", "columns": ["x", "label"]}

    answer = send(written.client("write:notes"), COPY, computed)

    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"] == 7, "the second sees what the first left"
    notes = written.notes
    assert notes["x"][:].tolist() == [0, 1, 2, 0, 2, 20, 20]
    assert notes["text"].read(null="-") == ["zero", "one", "two", "zero", "two", "-", "-"]
    assert notes["label"][:].tolist() == [0, 1, 0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('SELECT * FROM "memory://elsewhere"', "query-name"),
        ("SELECT * WHERE nothing = 1", "query-name"),
        ("SELECT * WHERE", "query-syntax"),
        ("DELETE FROM this", "query-syntax"),
        ("SELECT x, label", "invalid-input"),
    ],
)
def test_an_insert_reaches_nothing_but_its_dataset_and_fits_it(
    written: Written, text: str, code: str
) -> None:
    operation = {"op": "insert", "tql": text, "columns": ["x"]}

    answer = send(written.client("write:notes"), {"op": "delete", "rows": [0]}, operation)

    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.text
    assert written.notes.version == "main@1"


def test_an_insert_and_a_condition_end_at_the_limits_of_queries(written: Written) -> None:
    bounded = written.client("write:notes", max_query_nbytes=1)
    condition = {"op": "delete", "where": "text = 'one'"}

    answers = [send(bounded, operation) for operation in (COPY, condition)]

    assert [one.status_code for one in answers] == [413, 413]
    assert [one.json()["code"] for one in answers] == ["query-limit"] * 2
    assert written.notes.version == "main@1"


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "insert", "tql": "SELECT x, label"},
        {"op": "delete", "where": "x > 1"},
        {"op": "update", "tensor": "text", "where": "x > 1", "value": "late"},
    ],
)
def test_what_rows_were_chosen_by_is_a_conflict_when_another_changed_it(
    written: Written, operation: dict[str, Any]
) -> None:
    client = written.client("write:notes")
    other = {"op": "update", "tensor": "x", "rows": [1], "value": 7}
    elsewhere = {"op": "update", "tensor": "image", "rows": [1], "value": None}

    send(client, elsewhere)
    kept = send(client, operation, base_version="main@1")
    send(client, other, base_version="main@1")
    answer = send(client, operation, base_version="main@1")

    assert kept.status_code == 200, kept.text
    assert answer.status_code == 409
    assert answer.json()["conflict"]["tensor"] in ("x", "label")


def test_a_tag_names_what_its_transaction_publishes(written: Written) -> None:
    client = written.client("write:notes")
    operations = [{"op": "tag", "name": "v1"}, columns(), {"op": "tag", "name": "latest-run"}]

    first = send(client, *operations, key="job-1")
    written.notes.delete_tag("latest-run")
    taken = send(client, *operations, key="job-1")

    assert first.json()["version"] == "main@2"
    assert {name: one.version for name, one in written.notes.tags.items()} == {"v1": "main@2"}
    assert taken.status_code == 400, "a name that was given up stays used"
    assert "latest-run" in taken.json()["detail"]


def test_a_transaction_sent_again_tags_what_it_published_then(written: Written) -> None:
    client = written.client("write:notes")
    first = send(client, columns(), key="job-1")
    send(client, columns())

    again = send(client, columns(), {"op": "tag", "name": "v1"}, key="job-1")

    assert again.json() == first.json() | {"is_repeated": True}
    assert written.notes.tags["v1"].version == "main@2"
    assert len(written.notes) == 5


@pytest.mark.parametrize("name", ["taken", "main", "given-up", "pin-x", "a@b"])
def test_a_tag_that_cannot_be_leaves_nothing_of_the_transaction(
    written: Written, name: str
) -> None:
    written.notes.tag("taken")
    written.notes.tag("given-up")
    written.notes.delete_tag("given-up")

    answer = send(written.client("write:notes"), columns(), {"op": "tag", "name": name})

    assert answer.status_code == 400, answer.text
    assert written.notes.version == "main@1"


def test_tags_need_a_scope_for_the_whole_dataset_and_something_to_name(written: Written) -> None:
    tag = {"op": "tag", "name": "v1"}

    scoped = send(written.client("write:notes@main"), columns(), tag)
    alone = send(written.client("write:notes"), tag)

    assert (scoped.status_code, scoped.json()["code"]) == (403, "access")
    assert (alone.status_code, alone.json()["code"]) == (400, "invalid-input")
    assert written.notes.version == "main@1"
    assert not written.notes.tags


def test_an_insert_reads_no_file_of_the_server(written: Written, tmp_path: Path) -> None:
    Image.new("L", (4, 4)).save(tmp_path / "secret.png")
    column = {"op": "add_tensor", "tensor": "photo", "type": {"kind": "image", "codec": "png"}}
    column["type"]["nullable"] = True
    text = f"SELECT 5, 'a', '{tmp_path / 'secret.png'}'"
    operation = {"op": "insert", "tql": text, "columns": ["x", "label", "photo"]}

    answer = send(written.client("write:notes"), column, operation)

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-input"), answer.text
    assert "name of a local file" in answer.text
    assert written.notes.version == "main@1"
