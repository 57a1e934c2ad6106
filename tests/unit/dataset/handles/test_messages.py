"""The errors that users meet most: first line what, where and with which value; last what to do.

The whole text is compared: these messages are the documentation that a user reads first.
"""

import pickle
import re

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import shown

URL = "memory://messages/pets"


@pytest.fixture
def ds():
    with tl.create(
        URL,
        {
            "image": tl.Image("jpeg"),
            "label": tl.ClassLabel(["cat", "dog"]),
            "boxes": tl.BBox(format="xyxy", of="image"),
            "vector": tl.Embedding(4),
        },
    ) as made:
        made.extend(columns(2))
        made.commit("two pets")
        yield made
        made.discard()
    tl.delete(URL, confirm=URL)


def columns(count: int, **replaced: object) -> dict[str, object]:
    shapes = [(8, 8 + number, 3) for number in range(count)]
    return {
        "image": [np.zeros(shape, np.uint8) for shape in shapes],
        "label": ["cat"] * count,
        "boxes": [[]] * count,
        "vector": np.zeros((count, 4)),
        **replaced,
    }


def told(kind: type[Exception], call) -> str:
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


def test_a_dataset_that_is_not_there_names_the_one_beside_it(ds):
    assert told(tl.DatasetNotFoundError, lambda: tl.open("memory://messages/pet")) == (
        "no tensorlake dataset at 'memory://messages/pet'\n"
        "(beside it: 'pets'); did you mean 'memory://messages/pets'?"
        " to make a new one: tl.create(url, schema)"
    )


def test_a_wrong_shape_names_row_tensor_and_both_shapes(ds):
    wrong = columns(4, boxes=[[], [], [], np.zeros((2, 5))])

    assert told(tl.ShapeMismatchError, lambda: ds.extend(wrong)) == (
        "row 3 of extend(): 'boxes' expects float32 of shape (None, 4) (BBox(xyxy, of=image)),"
        " got float64 (2, 5)\n"
        "nothing was staged; the 4 rows of this call were rejected together"
    )
    assert not ds.has_changes


def test_append_counts_the_rows_of_its_own_call(ds):
    ds.extend(columns(11))
    row = {name: values[0] for name, values in columns(1, boxes=[np.zeros((2, 5))]).items()}

    with pytest.raises(tl.ShapeMismatchError) as raised:
        ds.append(row)

    assert str(raised.value).startswith("row 0 of append(): 'boxes' expects float32")
    assert raised.value.facts["row"] == 0
    assert len(ds) == 13


def test_extend_counts_the_rows_of_its_own_call_over_all_its_batches(ds):
    ds.extend(columns(11))
    batches = iter([columns(3), columns(3, label=["cat", "cat", "dgo"])])

    with pytest.raises(tl.UnknownClassError, match=r"row 5 of extend\(\)"):
        ds.extend(batches)


def test_an_unknown_class_names_the_nearest_and_how_to_add_it(ds):
    assert told(tl.UnknownClassError, lambda: ds.extend(columns(2, label=["cat", "dgo"]))) == (
        "'label' has no class 'dgo' (2 classes: 'cat', 'dog'); did you mean 'dog'?\n"
        "to add it: ds['label'].add_names(['dgo'])  (row 1 of extend(); nothing was staged)"
    )


def test_a_missing_tensor_names_its_type_and_what_was_given(ds):
    row = {"image": np.zeros((8, 8, 3), np.uint8), "label": "cat", "boxes": []}

    assert told(tl.MissingTensorError, lambda: ds.append(row)) == (
        "append() lacks 'vector' (required: Embedding(4)); given: 'image', 'label', 'boxes'\n"
        "give it, or make it optional: ds.alter_tensor('vector', nullable=True)"
    )


def test_a_query_points_at_a_name_that_nothing_has(ds):
    assert told(tl.QueryNameError, lambda: ds.query("WHERE lable = 'cat'")) == (
        "[query-name] at line 1, column 7: no tensor or function 'lable'\n"
        "    WHERE lable = 'cat'\n"
        "          ^^^^^ did you mean 'label'?   tensors: image, label, boxes, vector"
    )


def test_a_query_says_how_to_compare_an_array(ds):
    assert told(tl.QueryTypeError, lambda: ds.query("WHERE boxes > 10")) == (
        "[query-type] at line 1, column 7: 'boxes' is an array (None, 4);"
        " a comparison with a number gives many answers a row\n"
        "    WHERE boxes > 10\n"
        "          ^^^^^^^^^^ write ANY(boxes > 10) or ALL(boxes > 10),"
        " or one element: boxes[0, 2] > 10"
    )


@pytest.mark.parametrize(
    ("tql", "name"),
    [
        ("WHERE lable = 'cat'", "QueryNameError"),
        ("WHERE boxes > 10", "QueryTypeError"),
        ("WHERE label = = 'cat'", "QuerySyntaxError"),
    ],
)
def test_a_traceback_shows_a_query_error_by_its_public_name(ds, tql, name):
    with pytest.raises(tl.QueryError) as raised:
        ds.query(tql)

    assert type(raised.value).__name__ == name
    assert isinstance(raised.value, getattr(tl, name))


def test_images_of_different_shapes_are_refused_before_anything_is_read(ds):
    assert told(tl.RaggedBatchError, lambda: ds.torch(batch_size=2, columns=["image"])) == (
        "'image' has samples of different shapes, from (8, 8, 3) to (8, 9, 3),"
        " and cannot be stacked\n"
        "add decode={'image': tl.decode.Resize(224, 224)}, or collate={'image': 'list'}"
        "   (found from the schema, before any data was read)"
    )


def test_a_conflict_says_what_both_changed_who_did_and_how_to_go_on(ds):
    with tl.open(URL) as other:
        other["vector"][0] = [1, 0, 0, 0]
        other.commit("turn it")
    ds["vector"][0] = [0, 1, 0, 0]

    first, last = told(tl.ConflictError, lambda: ds.commit("turn it too")).splitlines()

    assert first == (
        f"'main' of '{URL}' moved from main@1 to main@2 while this transaction was open;"
        " both changed 'vector' of 1 row (0)"
    )
    assert last.endswith(
        "'turn it'. Your changes are kept:"
        " ds.refresh(keep_staged=True, on_conflict='ours') and commit again, or ds.discard()"
    )
    assert ds.has_changes


def test_a_handle_at_a_tag_says_how_to_get_a_writable_one(ds):
    ds.tag("v1")

    assert told(tl.ReadOnlyError, lambda: ds.at("v1").extend(columns(1))) == (
        f"this handle is at 'v1' of '{URL}' and cannot write\n"
        "a branch is writable: ds.branch('fix', at='v1')"
    )


def test_a_version_that_is_not_there_lists_those_that_are(ds):
    assert told(tl.VersionNotFoundError, lambda: ds.at("v9")).splitlines() == [
        f"'{URL}' has no branch, tag or commit 'v9'",
        "branches: main; tags: none",
    ]


def test_a_view_of_staged_rows_is_saved_after_a_commit(ds):
    ds.extend(columns(1))
    view = ds.query("WHERE label = 'cat'")

    assert told(tl.UncommittedChangesError, lambda: view.save("cats")) == (
        f"the view 'cats' shows staged changes of '{URL}', which others cannot read\n"
        "commit them, then repeat the query and save it"
    )


def test_a_store_that_is_not_known_lists_those_that_are():
    text = told(tl.InvalidInputError, lambda: tl.open("ftp://host/pets"))

    assert text.startswith("no store for 'ftp://host/pets': its scheme 'ftp' is not known")
    assert "s3://" in text.splitlines()[-1]


class Unprintable:
    def __repr__(self):
        raise RuntimeError


@pytest.mark.parametrize(
    "value",
    [10**5000, [10**5000], Unprintable(), [Unprintable()], "x" * 10**5],
    ids=["huge", "list of huge", "unprintable", "list of unprintable", "long"],
)
def test_values_of_any_size_and_kind_are_refused_in_a_short_message(value):
    ds = tl.create(f"memory://messages-{id(value)}", {"x": "int64"})

    for call in (
        lambda: tl.Array(value, ()),
        lambda: tl.BBox(format=value),
        lambda: ds.torch(seed=value),
        lambda: ds.tag(value),
        lambda: ds.merge(value),
        lambda: ds.split({"a": 1.0}, group=value),
    ):
        with pytest.raises(tl.TensorlakeError) as raised:
            call()
        assert len(str(raised.value)) < 4000
    tl.delete(ds.url, confirm=ds.url)


@pytest.mark.parametrize(
    "call",
    [
        lambda ds, name: ds["label"].codes([name]),
        lambda ds, name: ds["label"].__setitem__(0, name),
        lambda ds, name: ds["label"].rename(name, "other"),
        lambda ds, name: ds["label"].add_names([name, name]),
        lambda ds, name: ds.query(f"SELECT {name}"),
        lambda ds, name: ds.diff("main@0").updated[name],
        lambda ds, name: ds.map(lambda row: {name: 1}, schema={"y": "int64"}),
        lambda ds, name: tl.mix({name: 3}),
        lambda ds, name: tl.open(ds.url, storage_options={name: 1}),
        lambda ds, name: tl.open(f"memory://{name}"),
        lambda ds, name: tl.open(f"{name}://x"),
        lambda ds, name: tl.ClassLabel(["a"], default=name),
    ],
)
def test_a_long_name_is_cut_and_cut_shorter_the_second_time(call):
    ds = tl.create("memory://long-names", {"label": tl.ClassLabel(["cat"])}, exist_ok=True)
    ds.append({"label": "cat"})
    name = "".join(f"part{i}" for i in range(1000))

    with pytest.raises(tl.TensorlakeError) as raised:
        call(ds, name)

    message = str(raised.value)
    assert name[:40] in message
    assert len(max(re.findall(r"[a-z0-9]+", message), key=len)) <= 200
    assert len(message) < 700
    ds.discard()


def test_an_attribute_with_a_long_name_is_cut():
    ds = tl.create("memory://long-names", {"label": tl.ClassLabel(["cat"])}, exist_ok=True)

    with pytest.raises(AttributeError) as raised:
        getattr(ds, "x" * 5000)

    assert len(str(raised.value)) < 300


def test_a_url_is_whole_however_long_it_is():
    url = "s3://bucket/" + "folder-of-pictures/" * 100

    assert url in str(tl.StorageError(f"{url!r} cannot be read\ntry again"))


def test_classes_in_a_message_are_few_and_short():
    label = tl.ClassLabel([f"class {i} " * 50 for i in range(1000)])
    ds = tl.create("memory://long-classes", {"label": label}, exist_ok=True)

    with pytest.raises(tl.UnknownClassError) as raised:
        ds["label"].codes(["nope"])

    assert len(str(raised.value)) < 1000


def test_a_line_of_a_message_is_cut_and_others_stay():
    error = tl.InvalidInputError("x/" * 50_000 + "\nwrite this instead")

    first, last = str(error).splitlines()
    assert (len(first), first[-1], last) == (16_384, "…", "write this instead")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_string_is_shown_whole_where_it_may_be_a_name_or_url():
    url = "s3://bucket/" + "folder/" * 20

    assert shown(url) == repr(url)
    assert shown("x" * 1000) == f"'{'x' * 180}'… (1,000 characters)"
