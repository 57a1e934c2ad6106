"""Structs: dicts outside, a tensor a field inside; groups of tensors read and written as one."""

import io
import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tensorlake as tl
from tensorlake.dataset import session_of
from tensorlake.dataset.query.assignment import assign
from tensorlake.errors import (
    InvalidInputError,
    MissingTensorError,
    ReadOnlyError,
    SchemaError,
    TensorNotFoundError,
)
from tensorlake.types import Ragged, as_type, expand_structs
from tests.support.examples import examples

POSE = tl.Struct(
    {
        "score": "float32",
        "box": tl.Struct({"x": "int16", "y": "int16"}),
        "words": tl.Array("int8", (None,)),
    },
    nullable=True,
)
ROWS = [
    {"score": 0.5, "box": {"x": 1, "y": 2}, "words": [1, 2]},
    None,
    {"score": None, "box": None, "words": []},
]
READ = [
    {"score": 0.5, "box": {"x": 1, "y": 2}, "words": [1, 2]},
    {"score": None, "box": {"x": None, "y": None}, "words": None},
    {"score": None, "box": {"x": None, "y": None}, "words": []},
]
_numbers = itertools.count()


def create(schema):
    return tl.create(f"memory://struct-{next(_numbers)}", schema)


def plain(value):
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return value.tolist() if hasattr(value, "tolist") else value


@pytest.fixture
def ds():
    ds = create({"id": "int64", "pose": POSE})
    ds.extend([{"id": row, "pose": pose} for row, pose in enumerate(ROWS)])
    ds.commit()
    return ds


def test_a_struct_is_a_tensor_for_each_field(ds):
    assert [*ds.schema] == ["id", "pose/score", "pose/box/x", "pose/box/y", "pose/words"]
    assert all(ds.schema[name].nullable for name in ds["pose"].members)
    assert ds["pose"].fields == ("score", "box", "words")
    assert [*ds["pose"].tensors] == [*ds["pose"].members]
    assert repr(ds["pose"]) == "Group 'pose' · 3 rows of score, box, words"


@pytest.mark.parametrize(
    "columns",
    [
        {"pose": ROWS},
        {"pose": {"score": [0.5, None, None], "box": [{"x": 1, "y": 2}, None, None],
                  "words": [[1, 2], None, []]}},
        {"pose/score": [0.5, None, None], "pose/box": {"x": [1, None, None], "y": [2, None, None]},
         "pose/words": [[1, 2], None, []]},
        {"pose": pa.array(ROWS)},
    ],
    ids=["rows of dicts", "dict of columns", "some by field", "Arrow structs"],
)  # fmt: skip
def test_values_are_taken_in_any_nesting(columns):
    ds = create({"pose": POSE})

    ds.extend(columns)

    assert [plain(ds["pose"][row]) for row in range(3)] == READ
    assert [plain(one) for one in ds["pose"]] == READ
    assert [plain(row["pose"]) for row in ds] == READ


def test_structured_arrays_and_tables_are_taken():
    ds = create({"p": tl.Struct({"x": "int16", "y": "float32"})})
    array = np.array([(1, 2), (3, 4)], dtype=[("x", "i2"), ("y", "f4")])

    ds.extend({"p": array})
    ds.extend(pa.table({"p": pa.array([{"x": 5, "y": 6.0}])}))
    ds.append({"p": {"x": 7, "y": 8}})
    ds.extend(iter([{"p": {"x": 9, "y": 10}}, {"p": {"x": 11, "y": 12}}]))
    ds.extend(iter([{"p": [{"x": 13, "y": 14}]}, {"p": {"x": [15], "y": [16]}}]))

    assert ds["p"]["x"][:].tolist() == [1, 3, 5, 7, 9, 11, 13, 15]
    assert ds["p"]["y"][:].tolist() == [2, 4, 6, 8, 10, 12, 14, 16]


value = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(-100, 100),
        "b": st.none() | st.lists(st.integers(0, 9), max_size=3),
        "c": st.none() | st.fixed_dictionaries({"t": st.none() | st.text(max_size=3)}),
    }
)


@examples(20)
@given(st.lists(st.none() | value, max_size=5))
def test_any_struct_comes_back_with_its_nulls_and_empty_lists(rows):
    schema = {
        "a": "int8",
        "b": tl.Sequence("int8"),
        "c": tl.Struct({"t": tl.Text()}),
    }
    ds = create({"s": tl.Struct(schema, nullable=True)})

    ds.extend({"s": rows})

    nothing = {"a": None, "b": None, "c": {"t": None}}
    expected = [nothing if one is None else {**one, "c": one["c"] or {"t": None}} for one in rows]
    found = [plain(one) for one in ds["s"]]
    assert [
        {**one, "b": None if one["b"] is None else [int(x) for x in one["b"]]} for one in found
    ] == expected
    ds.discard()


def test_rows_of_a_group_are_read_as_columns(ds):
    assert ds["pose"]["box"]["x"].read(null=0).tolist() == [1, 0, 0]
    assert ds["pose"]["box"][0] == {"x": 1, "y": 2}
    assert plain(ds["pose"]["box"][:1]) == {"x": [1], "y": [2]}
    assert plain(ds["pose"]["box"][ds["id"] == 0]) == {"x": [1], "y": [2]}
    assert len(ds[:2]["pose"]) == 2
    assert [*ds[["pose"]].schema] == [*ds["pose"].members]
    assert [*ds[:1][["pose/box", "id"]].schema] == ["pose/box/x", "pose/box/y", "id"]
    with pytest.raises(TensorNotFoundError):
        ds["pose"]["no"]
    with pytest.raises(TensorNotFoundError):
        ds[0]["no"]


def test_queries_name_fields_by_a_dot_or_in_quotes(ds):
    assert ds.query("WHERE pose.score > 0").rows.tolist() == [0]
    assert ds.query('WHERE "pose/box/x" = 1').rows.tolist() == [0]
    assert ds.query('WHERE "pose/box".y = 2').rows.tolist() == [0]
    view = ds.query("SELECT id, pose.score * 2 AS twice WHERE pose.score IS NOT NULL")
    assert view["twice"].tolist() == [1.0]
    assert tl.open(ds.url).query(view.tql)["twice"].tolist() == [1.0]
    with pytest.raises(tl.QueryError, match="no table 'pose'"):
        ds.query("WHERE pose.nothing > 0")


def test_values_of_a_group_are_assigned_all_or_none(ds):
    ds["pose"][1] = {"score": 2, "box": {"x": 3, "y": 4}, "words": [9]}
    ds["pose"]["box"][ds["id"] == 0] = {"x": 7}
    ds["pose"][[0, 2]] = [None, ROWS[0]]

    assert plain(ds["pose"][1]) == {"score": 2, "box": {"x": 3, "y": 4}, "words": [9]}
    assert [plain(one) for one in ds["pose"]][::2] == [READ[1], READ[0]]
    before = [plain(one) for one in ds["pose"]]
    with pytest.raises(InvalidInputError):
        ds["pose"][:] = {"score": 1, "box": {"x": 1, "y": 1e9}, "words": [0]}
    assert [plain(one) for one in ds["pose"]] == before
    ds.discard()
    with pytest.raises(InvalidInputError):
        ds["pose"][:] = {"score": 1, "box": {"x": "text"}}
    assert not ds.has_changes
    with pytest.raises(ReadOnlyError):
        ds[:1]["pose"][:] = {"score": 1}


def test_a_condition_on_a_field_that_is_assigned_is_asked_once():
    ds = create({"p": tl.Struct({"x": "int8", "y": "int8"})})
    ds.extend({"p": {"x": [1, 2], "y": [1, 2]}})

    ds["p"][ds["p"]["x"] == 1] = {"x": 2, "y": 5}

    assert plain(ds["p"][:]) == {"x": [2, 2], "y": [5, 2]}


def test_rows_of_a_view_get_values_by_identity(ds):
    view = tl.open(ds.url).query("WHERE id >= 1")
    ds.delete([1])

    assert assign(session_of(ds), "pose", view, [ROWS[0], ROWS[0]]) == 1
    assert plain(ds["pose"][1]) == READ[0]


@pytest.mark.parametrize(
    ("values", "error", "why"),
    [
        ({"pose": [1, 2]}, InvalidInputError, "row 0 .*'pose' is a group of 'score', 'box'"),
        ({"pose": "text"}, InvalidInputError, "got str"),
        ({"pose": [ROWS[0], {"score": 1}]}, MissingTensorError, "(?s)row 1 .*the same fields"),
        ({"pose": [{**ROWS[0], "z": 1}]}, TensorNotFoundError, "no tensor 'pose/z'"),
    ],
)
def test_what_is_no_struct_is_refused(ds, values, error, why):
    with pytest.raises(error, match=why):
        ds.extend({"id": [0] * len(values["pose"]), **values})
    assert len(ds) == 3


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: tl.Struct({}), "not empty"),
        (lambda: tl.Struct(["x"]), "not empty"),
        (lambda: tl.Struct({"a/b": "int8"}), "is not a field name"),
        (lambda: tl.Struct({"x": "int7"}), "did you mean"),
        (lambda: tl.Struct({"x": "int8"}, default={"y": 1}), "cannot have the default"),
        (lambda: tl.Sequence(tl.Struct({"x": "int8"}), default=[{"x": 1}]), "no default but"),
        (
            lambda: tl.Sequence(tl.Struct({"x": "int8"}, nullable=True)),
            "have no NULL, default or mark",
        ),
        (lambda: as_type(tl.Struct({"x": "int8"})), "group of tensors"),
        (lambda: create({"a": tl.Struct({"x": "int8"}), "a/x": "int8"}), "would be named 'a/x'"),
    ],
)
def test_a_struct_that_cannot_be_is_refused(make, why):
    with pytest.raises(SchemaError, match=why):
        make()


def test_fields_name_each_other_within_the_struct():
    boxes = tl.Struct({"image": tl.Image(), "boxes": tl.BBox(of="image"), "far": tl.BBox(of="b")})
    labels = tl.ClassLabel(["a"], per="boxes")

    made = expand_structs({"front": boxes, "back": tl.Struct({"boxes": tl.BBox(), "y": labels})})

    assert made["front/boxes"].of == "front/image"
    assert made["front/far"].of == "b"
    assert made["back/y"].per == "back/boxes"


def test_groups_are_added_renamed_and_dropped_as_one(ds):
    extra = tl.Struct({"n": "int8", "m": tl.Struct({"t": "str"})})

    ds.add_tensor("more", extra, fill={"n": 5, "m": {"t": "x"}})
    ds.rename_tensor("more", "less")
    assert plain(ds["less"][2]) == {"n": 5, "m": {"t": "x"}}
    ds.drop_tensor("pose")
    ds.commit("changed")

    assert [*tl.open(ds.url).schema] == ["id", "less/n", "less/m/t"]
    with pytest.raises(TensorNotFoundError):
        ds.drop_tensor("pose")
    with pytest.raises(SchemaError, match="fill"):
        ds.add_tensor("again", tl.Struct({"a": tl.Scalar("int8", default=1), "b": "int8"}))
    assert [*ds.schema] == ["id", "less/n", "less/m/t"]


def test_loaders_and_exports_take_the_name_of_a_group(ds):
    ds["pose"][1:] = {"score": 0, "box": {"x": 0, "y": 0}, "words": [[], []]}
    names = [*ds["pose"].members]

    batch = next(iter(ds.loader(batch_size=3, columns=["pose"])))

    assert [*batch] == names
    assert ds.to_arrow(["pose/box"]).column_names == ["pose/box/x", "pose/box/y"]
    assert [*ds.to_pandas(["pose"]).columns] == names
    ds.discard()


def test_map_reads_and_makes_structs(ds):
    size = tl.Struct({"area": "int32", "is_big": "bool"})

    def measure(row):
        area = row["id"] * 2
        return {"size": None if row["id"] == 1 else {"area": area, "is_big": area > 2}}

    ds.map(measure, columns=["id"], schema={"size": size})
    one = ds.map(
        lambda batch: {"size": {"area": batch["id"], "is_big": batch["id"] > 1}},
        columns=["id"],
        schema={"size": size},
        batch_size=2,
        to=f"{ds.url}-mapped",
    )

    assert [plain(row) for row in ds["size"]] == [
        {"area": 0, "is_big": False},
        {"area": None, "is_big": None},
        {"area": 4, "is_big": True},
    ]
    assert plain(one["size"][:]) == {"area": [0, 1, 2], "is_big": [False, False, True]}
    ds.discard()


def test_images_in_a_struct_are_decoded_when_asked_for():
    stream = io.BytesIO()
    Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(stream, "PNG")
    ds = create({"front": tl.Struct({"image": tl.Image("png"), "boxes": tl.BBox(of="image")})})
    ds.append({"front": {"image": stream.getvalue(), "boxes": [[0, 0, 1, 1]]}})

    assert ds["front"]["image"][0, :2].shape == (2, 5, 3)
    assert ds["front"]["image"].bytes(0) == stream.getvalue()
    assert json.loads(json.dumps(ds.schema["front/boxes"].to_json()))["of"] == "front/image"
    ds.discard()


# ---- lists of structs

POINT = tl.Struct({"x": "int16", "y": "int16"})
PEOPLE = tl.Sequence(
    tl.Struct({"name": "str", "joints": tl.Array("float32", (None, 2)), "at": POINT}),
    nullable=True,
)
LISTS = [
    [
        {"name": "a", "joints": [[1, 2]], "at": {"x": 1, "y": 2}},
        {"name": "b", "joints": [], "at": {"x": 3, "y": 4}},
    ],
    [],
    None,
]
READ_LISTS = [
    {"name": ["a", "b"], "joints": [[[1, 2]], []], "at": {"x": [1, 3], "y": [2, 4]}},
    {"name": [], "joints": [], "at": {"x": [], "y": []}},
    {"name": None, "joints": None, "at": {"x": None, "y": None}},
]


def listed(value):
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    if isinstance(value, list | Ragged):
        return [listed(one) for one in value]
    return plain(value)


@pytest.mark.parametrize("form", ["rows", "columns", "appended", "arrow", "dicts of lists"])
def test_lists_of_structs_are_taken_in_every_form_and_read_as_dicts_of_lists(form):
    ds = create({"id": "int64", "people": PEOPLE})
    rows = [{"id": row, "people": people} for row, people in enumerate(LISTS)]
    match form:
        case "rows":
            ds.extend(rows)
        case "columns":
            ds.extend({"id": [0, 1, 2], "people": LISTS})
        case "appended":
            for row in rows:
                ds.append(row)
        case "arrow":
            ds.extend(pa.Table.from_pylist(rows))
        case _:
            ds.extend([{"id": row, "people": people} for row, people in enumerate(READ_LISTS)])
    ds.commit()

    assert [listed(ds[row]["people"]) for row in range(3)] == READ_LISTS
    assert ds.where('LENGTH("people/name") = 2').rows.tolist() == [0]


def test_a_list_of_structs_may_be_left_out():
    people = tl.Sequence(tl.Struct({"name": "str"}), default=[])
    ds = create({"id": "int64", "people": people})

    ds.append({"id": 1})

    assert ds[0]["people"] == {"name": []}


@pytest.mark.parametrize(
    ("people", "error", "why"),
    [
        ([[{"name": "a"}, 3]], InvalidInputError, "row 0 .*'people' is a group of 'name'.*got int"),
        ([[{"name": "a"}, {"nom": "b"}]], MissingTensorError, r"(?s)\['nom'\].*the same fields"),
        ([[{"name": 1}]], InvalidInputError, "'people/name' expects"),
    ],
)
def test_a_list_that_is_not_of_such_structs_is_refused(people, error, why):
    ds = create({"people": tl.Sequence(tl.Struct({"name": "str"}))})

    with pytest.raises(error, match=why):
        ds.extend({"people": people})

    assert len(ds) == 0
