"""Changes over HTTP: all or nothing, safe to repeat, and as far as a scope reaches."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

import tensorlake as tl
from tests.unit.server.written import JPEG, TRANSACTIONS, Written, columns, send

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


@pytest.fixture
def written(tmp_path: Path, connect: Callable[..., httpx.Client]) -> Written:
    return Written(tmp_path, connect)


def test_operations_are_one_commit_in_the_tokens_name(written: Written) -> None:
    answer = send(
        written.client("write:notes"),
        columns(text=["three"], image=[{"$base64": base64.b64encode(JPEG).decode()}]),
        {"op": "update", "tensor": "x", "rows": [0, 3], "values": [0.5, "NaN"]},
        {
            "op": "update",
            "tensor": "label",
            "where": "x >= $low",
            "params": {"low": 1},
            "value": "b",
        },
        {"op": "delete", "rows": [1]},
        message="four things",
    )

    assert answer.status_code == 200
    notes = written.notes
    assert answer.json() | {"digest": ""} == {
        "version": "main@2", "digest": "", "rows": 3, "is_repeated": False
    }  # fmt: skip
    assert notes["text"].read(null="-") == ["zero", "two", "three"]
    assert notes["x"][:].tolist()[:2] == [0.5, 2.0]
    assert np.isnan(notes["x"][2])
    assert [notes["label"].names[code] for code in notes["label"][:]] == ["a", "b", "a"]
    assert notes["image"].bytes(2) == JPEG
    assert (notes.log()[0].message, notes.log()[0].author) == ("four things", "ana")


def test_one_operation_that_fails_leaves_nothing_of_the_others(written: Written) -> None:
    answer = send(
        written.client("write:notes"),
        {"op": "delete", "rows": [0]},
        {"op": "update", "tensor": "label", "rows": [0], "value": "zebra"},
    )

    assert answer.status_code == 400
    assert answer.json()["code"] == "unknown-class"
    assert (written.notes.version, len(written.notes)) == ("main@1", 3)


def test_values_of_an_expression_are_refused_as_such(written: Written) -> None:
    notes = written.notes
    notes.add_tensor("double", "float32", compute="2.0 * x")
    notes.commit("an expression")

    update = {"op": "update", "tensor": "double", "rows": [0], "value": 1.0}
    for operation in (update, columns(text=["three"], double=[2.0])):
        answer = send(written.client("write:notes"), operation)

        assert answer.status_code == 400, answer.text
        assert "which an expression computes" in answer.text
    answer = send(written.client("write:notes"), update | {"tensor": "dubble"})
    assert (answer.status_code, answer.json()["code"]) == (404, "tensor-not-found")


def test_a_transaction_sent_again_is_answered_by_its_commit(written: Written) -> None:
    client = written.client("write:notes")

    first = send(client, {"op": "delete", "rows": [0]}, key="job-1").json()
    again = send(client, {"op": "delete", "rows": [0]}, key="job-1").json()

    assert again == first | {"is_repeated": True}
    assert len(written.notes) == 2


def test_a_key_is_of_one_client_and_one_request(written: Written) -> None:
    ana, other = written.client("write:notes"), written.client("write:notes")
    delete = {"op": "delete", "rows": [0]}
    assert send(ana, delete, key="job-1").status_code == 200

    refused = [
        send(ana, {"op": "delete", "rows": [1]}, key="job-1"),
        send(ana, delete, delete, key="job-1"),
        send(other, delete, key="job-1"),
        send(other, columns(text=["three"]), key="job-1"),
    ]

    assert [(one.status_code, one.json()["code"]) for one in refused] == [
        (409, "invalid-state")
    ] * 4
    assert "the key 'job-1' is that of main@2" in refused[0].json()["detail"]
    assert send(ana, {"rows": [0], "op": "delete"}, key="job-1").json()["is_repeated"] is True
    assert len(written.notes) == 2


def test_what_another_changed_since_is_a_conflict_with_its_rows(written: Written) -> None:
    client = written.client("write:notes")
    change = {"op": "update", "tensor": "x", "rows": [1], "value": 7}
    send(client, {"op": "update", "tensor": "x", "rows": [1, 2], "values": [5, 6]}, message="mine")

    answer = send(client, change, base_version="main@1")

    assert answer.status_code == 409
    conflict = answer.json()["conflict"]
    assert (conflict["base"], conflict["head"]) == ("main@1", "main@2")
    assert (conflict["tensor"], conflict["rows"]) == ("x", [1])
    assert (conflict["author"], conflict["commit_message"]) == ("ana", "mine")
    assert written.notes["x"][:].tolist() == [0, 5, 6]


def test_what_others_changed_elsewhere_is_kept(written: Written) -> None:
    client = written.client("write:notes")
    send(client, {"op": "delete", "rows": [0]})

    answer = send(
        client, {"op": "update", "tensor": "x", "rows": [2], "value": 7}, base_version="main@1"
    )

    assert answer.status_code == 200
    assert written.notes["x"][:].tolist() == [1, 7]


@pytest.mark.parametrize("base", ["main@99", "other@1", "v1", "main@", "main@-1", "main@1x", "@"])
def test_a_base_that_is_no_version_of_the_branch_is_refused(written: Written, base: str) -> None:
    answer = send(written.client("write"), {"op": "delete", "rows": [0]}, base_version=base)

    assert answer.status_code in (400, 404)
    assert len(written.notes) == 3


def test_rows_come_as_an_arrow_stream(written: Written) -> None:
    table = pa.table(
        {
            "text": ["x", None], "label": ["b", "a"], "x": [1.5, 2.5],
            "image": pa.array([JPEG, None], pa.binary()), "blob": pa.array([b"1", None]),
        }
    )  # fmt: skip
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    client = written.client("write:notes")
    params = {"message": "arrow", "key": "k"}

    answers = [
        client.post(TRANSACTIONS, content=sink.getvalue(), headers=ARROW, params=params)
        for _ in range(2)
    ]

    assert [one.json()["rows"] for one in answers] == [5, 5]
    assert written.notes["image"].bytes(3) == JPEG


def test_what_a_json_body_says_itself_is_not_said_beside_it(written: Written) -> None:
    client = written.client("write")
    body = {"operations": [{"op": "delete", "rows": [0]}]}

    answer = client.post(TRANSACTIONS, json=body, params={"branch": "fix"})

    assert answer.status_code == 422
    assert "branch: a JSON body has these itself" in answer.json()["detail"]
    assert len(written.notes) == 3


@pytest.mark.parametrize("cut", [0, 1, 8, 100, 400])
def test_a_truncated_stream_adds_nothing(written: Written, cut: int) -> None:
    table = pa.table({"text": ["x"] * 50, "label": ["b"] * 50, "x": [1.5] * 50})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)

    answer = written.client("write:notes").post(
        TRANSACTIONS, content=sink.getvalue()[:cut], headers=ARROW
    )

    assert answer.status_code == 400
    assert len(written.notes) == 3


@pytest.mark.parametrize("tensor", ["image", "blob"])
def test_no_text_is_read_as_a_path(written: Written, tensor: str) -> None:
    client = written.client("write:notes")
    path = str(written.path / ("secret.jpg" if tensor == "image" else "secret.txt"))
    table = pa.table({"label": ["a"], "x": [1.0], tensor: [path]})
    nested = pa.table({"label": ["a"], "x": [1.0], tensor: pa.array([path]).dictionary_encode()})
    answers = [
        send(client, columns(**{tensor: [given]}))
        for given in (path, [path], {"path": path}, {"$base64": path, "path": path})
    ]
    answers.append(send(client, {"op": "update", "tensor": tensor, "rows": [0], "value": path}))
    answers.append(
        send(client, {"op": "add_tensor", "tensor": "new", "fill": path,
                      "type": {"kind": "image", "codec": "jpeg"}})
    )  # fmt: skip
    for one in (table, nested):
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, one.schema) as out:
            out.write_table(one)
        answers.append(client.post(TRANSACTIONS, content=sink.getvalue(), headers=ARROW))

    assert {answer.status_code for answer in answers} == {400}
    assert written.notes.version == "main@1"


def test_a_scope_for_branches_writes_those_and_nothing_else(written: Written) -> None:
    client = written.client("write:notes@fix-*")
    delete = {"op": "delete", "rows": [0]}

    assert client.post("/v1/datasets/notes/branches", json={"name": "fix-1"}).status_code == 201
    assert send(client, delete, branch="fix-1").status_code == 200
    refused = [
        send(client, delete),
        send(client, delete, branch="fix-1@1"),
        client.post("/v1/datasets/notes/branches", json={"name": "other"}),
        client.post("/v1/datasets/notes/tags", json={"name": "fix-tag"}),
        client.post("/v1/datasets/notes/merge", json={"source": "fix-1"}),
        client.post("/v1/datasets/notes/restore", json={"restored": "main@0"}),
        client.delete("/v1/datasets/notes/branches/main"),
        client.delete("/v1/datasets/notes", params={"confirm": "notes"}),
        client.post("/v1/datasets", json={"name": "more", "schema": {"x": "int8"}}),
    ]

    assert [one.status_code for one in refused if one.status_code not in (403, 404)] == []
    assert refused[0].json()["code"] == "access"
    assert "write:notes@main" in refused[0].json()["detail"]
    assert (written.notes.version, len(written.notes)) == ("main@1", 3)


def test_a_reader_changes_nothing_and_a_server_without_write_neither(written: Written) -> None:
    reader, sealed = written.client("read"), written.client("admin", write=False)

    for client in (reader, sealed):
        assert send(client, {"op": "delete", "rows": [0]}).status_code == 403
        tag = client.post("/v1/datasets/notes/tags", json={"name": "v1"})
        assert tag.status_code == 403
    assert "--write" in send(sealed, {"op": "delete", "rows": [0]}).json()["detail"]


def test_branches_are_merged_and_conflicts_named(written: Written) -> None:
    client = written.client("write:notes")
    client.post("/v1/datasets/notes/branches", json={"name": "fix"})
    send(client, {"op": "update", "tensor": "x", "rows": [0], "value": 5}, branch="fix")
    send(client, {"op": "update", "tensor": "x", "rows": [0], "value": 6})
    merge = "/v1/datasets/notes/merge"

    clash = client.post(merge, json={"source": "fix"})
    tried = client.post(merge, json={"source": "fix", "on_conflict": "theirs", "dry_run": True})
    done = client.post(merge, json={"source": "fix", "on_conflict": "theirs"})

    assert clash.status_code == 409
    assert (tried.json()["version"], len(tried.json()["conflicts"])) == (None, 1)
    assert done.json()["version"] == "main@3"
    assert written.notes["x"][0] == 5


def test_a_dry_run_of_a_merge_names_the_checks_that_it_would_break(written: Written) -> None:
    client = written.client("write:notes")
    client.post("/v1/datasets/notes/branches", json={"name": "fix"})
    send(client, {"op": "update", "tensor": "x", "rows": [0], "value": -5}, branch="fix")
    notes = written.notes
    notes.add_check("positive", "x >= 0")
    notes.commit("a check")
    merge = "/v1/datasets/notes/merge"

    tried = client.post(merge, json={"source": "fix", "dry_run": True})
    refused = client.post(merge, json={"source": "fix"})

    assert (tried.status_code, refused.status_code) == (200, 409)
    assert tried.json()["version"] is None
    assert "'positive'" in str(tried.json())
    assert refused.json()["code"] == "constraint"
    assert written.notes["x"][0] >= 0


def test_a_merge_decides_cell_by_cell(written: Written) -> None:
    client = written.client("write:notes")
    client.post("/v1/datasets/notes/branches", json={"name": "fix"})
    send(client, {"op": "update", "tensor": "x", "rows": [0, 1, 2], "value": 5}, branch="fix")
    send(client, {"op": "update", "tensor": "x", "rows": [0, 1], "value": 6})
    merge = "/v1/datasets/notes/merge"

    preview = client.post(merge, json={"source": "fix", "dry_run": True}).json()
    first, second = preview["disputed"]
    half = {"x": {first["row_id"]: "theirs"}}
    refused = client.post(merge, json={"source": "fix", "decisions": half})
    both = {"x": {**half["x"], second["row_id"]: "ours"}}
    done = client.post(merge, json={"source": "fix", "decisions": both})

    assert [(one["tensor"], one["row"], one["ours"], one["theirs"]) for one in (first, second)] == [
        ("x", 0, 6, 5),
        ("x", 1, 6, 5),
    ]
    assert (refused.status_code, refused.json()["conflict"]["rows"]) == (409, [1])
    assert done.json()["version"] == "main@3"
    assert written.notes["x"][:3].tolist() == [5, 6, 5]


def test_tags_branches_and_restores(written: Written) -> None:
    client = written.client("write:notes")
    send(client, {"op": "delete", "rows": [0, 1]})

    tag = client.post("/v1/datasets/notes/tags", json={"name": "v1", "at": "main@1"})
    again = client.post("/v1/datasets/notes/tags", json={"name": "v1"})
    restored = client.post("/v1/datasets/notes/restore", json={"restored": "v1"})
    given_up = [client.delete("/v1/datasets/notes/tags/v1").status_code for _ in range(2)]

    assert tag.json() == {"name": "v1", "version": "main@1"}
    assert again.status_code == 400
    assert restored.json()["rows"] == 3
    assert given_up == [204, 404]


def test_a_refusal_names_the_whole_command_for_a_token(written: Written) -> None:
    refused = written.client("read:notes").post("/v1/datasets/notes/tags", json={"name": "v1"})

    assert refused.status_code == 403
    remedy = "tensorlake token create --name NAME --scope 'write:notes"
    assert remedy in refused.json()["detail"]
    assert refused.json()["detail"].endswith(" --auth FILE")


def test_datasets_are_made_and_removed(written: Written) -> None:
    client = written.client("admin:more/*")
    schema = {"image": {"kind": "image", "codec": "jpeg"}, "x": "float32", "text": "str"}

    made = client.post("/v1/datasets", json={"name": "more/pets", "schema": schema})
    unsure = client.delete("/v1/datasets/more~pets", params={"confirm": "pets"})
    kept = client.get("/v1/datasets/more~pets")
    (written.lake / "more/pets/NOTES.txt").write_text("mine")
    removed = client.delete("/v1/datasets/more~pets", params={"confirm": "more/pets"})

    assert (made.status_code, unsure.status_code, removed.status_code) == (201, 400, 200)
    assert removed.json() == {"left": ["NOTES.txt"]}
    assert [one["name"] for one in kept.json()["tensors"]] == ["image", "x", "text"]
    assert client.get("/v1/datasets/more~pets").status_code == 404


@pytest.mark.parametrize(
    "name", ["notes/inner", "deep", "deep/er", "../out", "/out", ".", "a/../b"]
)
def test_no_dataset_is_made_in_or_around_another_or_outside(written: Written, name: str) -> None:
    tl.create(str(written.lake / "deep/er/est"), {"x": "int8"})
    before = {path for path in written.path.rglob("*") if path != written.auth}

    answer = written.client("admin").post(
        "/v1/datasets", json={"name": name, "schema": {"x": "int8"}}
    )

    assert answer.status_code == 400
    assert {path for path in written.path.rglob("*") if path != written.auth} == before


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8)
    | st.sampled_from(["image", "x", "kind", "scalar", "$base64", "/etc/passwd", 2**63, 1e308]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["kind", "of", "dtype", "names", "x", "$base64"]), inner),
    max_leaves=5,
)  # fmt: skip
operations = st.fixed_dictionaries(
    {
        "op": st.sampled_from(
            [
                "append",
                "update",
                "delete",
                "insert",
                "tag",
                "upsert",
                "add_tensor",
                "rename_tensor",
                "add_names",
            ]
        )
    },
    optional={
        "columns": st.dictionaries(
            st.sampled_from(["text", "label", "x", "image", "blob", "none"]),
            st.lists(json_values, max_size=2),
            max_size=3,
        ),
        "tensor": st.sampled_from(["text", "label", "x", "image", "blob", "new", "_x", ""]),
        "rows": st.lists(st.integers(-1, 2**63), max_size=3),
        "where": st.sampled_from(["x > 0", "x >", "nothing = 1", "true"]),
        "value": json_values,
        "values": st.lists(json_values, max_size=3),
        "type": json_values,
        "fill": json_values,
        "to": st.text(max_size=5),
        "tql": st.sampled_from(["SELECT *", "SELECT x * 2", "WHERE x > 1 LIMIT 2", "WHERE", ""]),
        "name": st.text(max_size=5),
        "names": st.lists(st.text(max_size=3), max_size=2),
        "on": st.lists(st.sampled_from(["text", "x", "image", "none"]), max_size=2),
    },
)


@pytest.mark.slow
@examples(
    max_examples=50,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(body=st.fixed_dictionaries({"operations": st.lists(operations, max_size=2)}) | json_values)
def test_no_body_breaks_the_route(written: Written, body: Any) -> None:
    client = _kept_client(written)

    answer = client.post(TRANSACTIONS, json=body)

    assert answer.status_code < 500, answer.text
    assert "Traceback" not in answer.text


CLIENTS: dict[Path, httpx.Client] = {}


def _kept_client(written: Written) -> httpx.Client:
    """One application for all examples of a test."""
    if written.path not in CLIENTS:
        CLIENTS[written.path] = written.client("admin")
    return CLIENTS[written.path]


def test_labels_that_are_not_one_for_each_box_are_refused(written: Written) -> None:
    label = tl.ClassLabel(["cat", "dog"], per="boxes")
    drawn = tl.create(str(written.lake / "drawn"), {"boxes": tl.BBox(), "label": label})
    drawn.extend({"boxes": [[[0, 0, 4, 4]]], "label": [["cat"]]})
    drawn.commit()
    client = written.client("write:drawn")
    more_labels = {"op": "update", "tensor": "label", "rows": [0], "values": [["cat", "dog"]]}
    more_boxes = {"op": "update", "tensor": "boxes", "rows": [0], "values": [[[0, 0, 2, 2]] * 2]}
    to = TRANSACTIONS.replace("notes", "drawn")

    alone = [
        client.post(to, json={"operations": [operation]}) for operation in (more_labels, more_boxes)
    ]
    both = client.post(to, json={"operations": [more_boxes, more_labels]})

    assert [(one.status_code, one.json()["code"]) for one in alone] == [(400, "shape-mismatch")] * 2
    assert both.status_code == 200
    assert len(tl.open(str(written.lake / "drawn"))[0]["label"]) == 2
