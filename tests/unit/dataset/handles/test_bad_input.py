"""Bad input: each an error that says what, where and what to do; the data stay as they were."""

import stat
import tempfile
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.handles.dataset import Dataset
from tensorlake.storage import MemoryStore, run
from tests.support.handles import create_on, open_on, rows_of
from tests.support.nobody import as_nobody

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffdb")
"""How a JPEG begins; the rest is missing."""

SCHEMA = {
    "image": tl.Image(codec="jpeg", nullable=True),
    "label": tl.ClassLabel(["cat", "dog"]),
    "boxes": tl.Array("float32", shape=(None, 4)),
    "n": "int8",
    "vector": tl.Embedding(4),
    "text": "str",
}


def good(**changed: object) -> dict[str, object]:
    row: dict[str, object] = {
        "image": None,
        "label": "cat",
        "boxes": np.zeros((1, 4), np.float32),
        "n": 1,
        "vector": [0.0, 1.0, 2.0, 3.0],
        "text": "one",
    }
    return {**row, **changed}


@pytest.fixture
def dataset() -> Dataset:
    """Two committed rows, and one staged."""
    dataset = create_on(MemoryStore(), SCHEMA)
    dataset.extend([good(), good(label="dog")])
    dataset.commit()
    dataset.append(good(text="staged"))
    return dataset


BAD_VALUES = [
    ("n", "3", tl.DTypeMismatchError, ["'n'", "int8", "'3'"]),
    ("n", 1.5, tl.DTypeMismatchError, ["'n'", "int8", "1.5"]),
    ("n", 300, tl.DTypeMismatchError, ["'n'", "int8", "300"]),
    ("n", None, tl.InvalidInputError, ["'n'", "nullable"]),
    ("boxes", np.zeros((2, 5)), tl.ShapeMismatchError, ["'boxes'", "(None, 4)", "(2, 5)"]),
    ("boxes", np.zeros(4), tl.ShapeMismatchError, ["'boxes'", "(None, 4)", "(4,)"]),
    ("vector", [1.0, 2.0], tl.ShapeMismatchError, ["'vector'", "4", "2"]),
    ("label", "dgo", tl.UnknownClassError, ["'dgo'", "'label'", "did you mean 'dog'", "add_names"]),
    ("label", 2, tl.UnknownClassError, ["'label'", "2", "cat"]),
    ("label", -1, tl.UnknownClassError, ["'label'", "-1"]),
    ("text", 7, tl.DTypeMismatchError, ["'text'", "7"]),
    ("image", JPEG, tl.InvalidInputError, ["'image'", "not a whole JPEG", "byte 20"]),
    ("image", b"GIF89a", tl.TensorlakeError, ["'image'"]),
    ("image", "/no/such/file.jpg", tl.TensorlakeError, ["'image'", "/no/such/file.jpg"]),
    ("image", np.zeros((4, 4, 3), np.float64), tl.TensorlakeError, ["'image'", "float64"]),
]


def extend_columns(dataset: Dataset, name: str, value: object) -> None:
    rows = [good(), good(), good(**{name: value})]
    dataset.extend({key: [row[key] for row in rows] for key in rows[0]})


WAYS = {
    "append": lambda ds, name, value: ds.append(good(**{name: value})),
    "rows": lambda ds, name, value: ds.extend([good(), good(), good(**{name: value})]),
    "columns": extend_columns,
    "iterator": lambda ds, name, value: ds.extend(
        good(**({name: value} if n == 1500 else {})) for n in range(1600)
    ),
    "assign": lambda ds, name, value: ds[name].__setitem__(1, value),
}


@pytest.mark.parametrize(("name", "value", "kind", "facts"), BAD_VALUES)
@pytest.mark.parametrize("way", WAYS)
def test_a_bad_value_is_refused_and_changes_nothing(dataset, name, value, kind, facts, way):
    before, version = rows_of(dataset), dataset.version

    with pytest.raises(kind) as caught:
        WAYS[way](dataset, name, value)

    message = str(caught.value)
    for fact in facts:
        assert fact in message
    if way in ("rows", "columns"):
        assert "row 2" in message
    if way == "iterator":
        assert "1500" in message.replace(",", "")
    assert len(message.splitlines()) >= 2, "the last line says what to do"
    assert rows_of(dataset) == before
    assert dataset.version == version
    assert len(dataset) == 3
    dataset.commit()
    assert len(dataset) == 3


def test_a_missing_column_is_named_with_what_was_given(dataset):
    row = good()
    del row["vector"]

    with pytest.raises(tl.MissingTensorError, match=r"(?s)append\(\) lacks 'vector'.*'image'"):
        dataset.append(row)
    with pytest.raises(tl.MissingTensorError, match=r"extend\(\) lacks 'vector'"):
        dataset.extend({name: [value] for name, value in row.items()})

    assert len(dataset) == 3


def test_an_unknown_column_is_refused_with_the_nearest_name(dataset):
    with pytest.raises(tl.TensorNotFoundError, match=r"'lable'.*'label'"):
        dataset.append(good(lable="cat"))

    assert len(dataset) == 3


def test_columns_of_unequal_lengths_are_refused_with_their_lengths(dataset):
    columns = {name: [value] * 2 for name, value in good().items()} | {"n": [1, 2, 3]}

    with pytest.raises(tl.ShapeMismatchError, match=r"'n' 3"):
        dataset.extend(columns)

    assert len(dataset) == 3


def test_a_scalar_where_a_column_is_expected_is_refused(dataset):
    with pytest.raises(tl.ShapeMismatchError, match=r"append\(\)"):
        dataset.extend(good())


@pytest.mark.parametrize("data", [7, "text", None, [1, 2], ["a"], [[1]]])
def test_what_is_no_data_is_refused_by_its_type(dataset, data):
    with pytest.raises(tl.InvalidInputError, match=r"extend\(\)"):
        dataset.extend(data)

    assert len(dataset) == 3


def test_rows_with_different_names_are_refused_with_the_row_in_the_whole_call(dataset):
    rows = [good() for _ in range(1100)]
    del rows[1050]["text"]

    with pytest.raises(tl.MissingTensorError, match=r"row 1050.*text"):
        dataset.extend(rows)

    assert len(dataset) == 3


@pytest.mark.parametrize("row", [3, -4, 10**12])
def test_a_row_that_is_not_there_is_an_index_error_with_the_count(dataset, row):
    for read in (
        lambda: dataset[row],
        lambda: dataset["n"][row],
        lambda: dataset[[0, row]],
        lambda: dataset["n"][[row]],
        lambda: dataset.delete(row),
        lambda: dataset["n"].__setitem__(row, 1),
    ):
        with pytest.raises(tl.RowNotFoundError, match="3 rows") as caught:
            read()
        assert isinstance(caught.value, IndexError)


@pytest.mark.parametrize("rows", [True, np.True_, 1.5, [0.5], [[0]], {"a": 1}, object()])
def test_what_names_no_rows_is_refused(dataset, rows):
    with pytest.raises(tl.InvalidInputError):
        dataset[rows]
    with pytest.raises(tl.InvalidInputError):
        dataset["n"][rows]
    with pytest.raises(tl.InvalidInputError):
        dataset.delete(rows)


def test_a_mask_of_another_length_is_refused(dataset):
    with pytest.raises(tl.ShapeMismatchError, match=r"\(3,\).*\(2,\)"):
        dataset["n"][np.array([True, False])]


def test_an_unknown_tensor_is_a_key_error_with_the_nearest_name(dataset):
    for read in (lambda: dataset["lable"], lambda: dataset[["n", "lable"]]):
        with pytest.raises(tl.TensorNotFoundError, match=r"'lable'.*'label'") as caught:
            read()
        assert isinstance(caught.value, KeyError)
    with pytest.raises(tl.TensorNotFoundError):
        dataset.drop_tensor("lable")
    with pytest.raises(tl.TensorNotFoundError):
        dataset.rename_tensor("lable", "l")


def test_an_unknown_tensor_in_tql_is_shown_in_the_text(dataset):
    with pytest.raises(tl.QueryNameError, match="line 1, column 7") as caught:
        dataset.query("WHERE lable = 'cat'")

    assert "did you mean 'label'" in str(caught.value)
    assert "^^^^^" in str(caught.value)


def test_an_unknown_class_in_a_predicate_is_refused(dataset):
    with pytest.raises(tl.TensorlakeError, match="dgo"):
        dataset["label"][dataset["label"] == "dgo"]
    with pytest.raises(tl.UnknownClassError, match="dgo"):
        _ = dataset["label"][:] == "dgo"


def test_assignment_lengths_must_match(dataset):
    with pytest.raises(tl.ShapeMismatchError, match="2 values for 3 rows"):
        dataset["n"][:] = [1, 2]

    assert dataset["n"][:].tolist() == [1, 1, 1]


def test_repeated_rows_in_an_assignment_are_refused(dataset):
    with pytest.raises(tl.InvalidInputError, match="more than once"):
        dataset["n"][[1, 1]] = [2, 3]
    with pytest.raises(tl.InvalidInputError, match="more than once"):
        dataset["n"][[1, -2]] = 5

    assert dataset["n"][:].tolist() == [1, 1, 1]


def test_no_such_url_names_what_is_near(tmp_path):
    tl.create(str(tmp_path / "pets"), {"x": "int64"}).close()

    with pytest.raises(tl.DatasetNotFoundError, match=r"(?s)/pet'.*did you mean.*pets'.*tl.create"):
        tl.open(str(tmp_path / "pet"))

    assert not (tmp_path / "pet").exists()


@pytest.mark.parametrize(
    "url", ["nonsense://bucket/x", "", "memory://", "file://host/path", None, 7]
)
def test_a_url_of_no_known_kind_is_refused(url):
    with pytest.raises(tl.TensorlakeError):
        tl.open(url)


def test_creating_over_a_dataset_is_refused_and_leaves_it(tmp_path):
    with tl.create(str(tmp_path), {"x": "int64"}) as made:
        made.append({"x": 1})
        made.commit()

    with pytest.raises(tl.InvalidInputError, match="exist_ok"):
        tl.create(str(tmp_path), {"y": "str"})
    with pytest.raises(tl.SchemaError):
        tl.create(str(tmp_path), {"y": "str"}, exist_ok=True)

    assert rows_of(tl.create(str(tmp_path), {"x": "int64"}, exist_ok=True)) == [{"x": 1}]


@pytest.mark.parametrize(
    "schema",
    [None, {}, {"x": "int99"}, {"x": 7}, {"_x": "int64"}, {"": "int64"}, {"a": "str", 3: "str"}],
)
def test_a_schema_that_cannot_be_makes_nothing(tmp_path, schema):
    with pytest.raises(tl.TensorlakeError):
        tl.create(str(tmp_path / "new"), schema)

    assert not tl.exists(str(tmp_path / "new"))


@pytest.fixture
def open_folder():
    """A folder that everybody may look into, unlike those of tmp_path."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_no_permission_to_write_is_an_access_error_at_the_first_staged_change(open_folder):
    url = str(open_folder / "pets")
    tl.create(url, {"x": "int64"}).close()
    Path(url).chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)

    said = as_nobody(lambda: tl.open(url).append({"x": 1}))

    assert said.startswith("AccessError: may not add")
    assert url in said


def test_no_permission_to_read_is_an_access_error(open_folder):
    url = str(open_folder / "pets")
    tl.create(url, {"x": "int64"}).close()
    Path(url).chmod(0)

    said = as_nobody(lambda: tl.open(url))
    Path(url).chmod(0o755)

    assert said.startswith("AccessError: may not")
    assert url in said


def test_a_message_above_the_limit_is_refused_and_the_changes_stay(dataset):
    with pytest.raises(tl.InvalidInputError, match="message"):
        dataset.commit("x" * 5000)

    assert dataset.has_changes
    assert dataset.commit("short").version == "main@2"


def test_a_truncated_object_is_corruption_with_its_name():
    store = MemoryStore()
    dataset = create_on(store, {"x": "int64"})
    dataset.extend({"x": np.arange(1000)})
    dataset.commit()
    (path,) = [meta.path for meta in run(_listed(store, "packs/"))]
    data = run(store.get(path)) or b""
    run(store.put(path, data[:40]))

    with pytest.raises(tl.CorruptionError, match=path):
        open_on(store)["x"][:]


async def _listed(store: MemoryStore, prefix: str):
    return [meta async for meta in store.list(prefix)]


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda ds: ds[::0], "step 0"),
        (lambda ds: ds["x"].isin(3), r"write isin\(\[3\]\)"),
        (lambda ds: ds["x"].isin("ab"), r"write isin\(\['ab'\]\)"),
        (lambda ds: ds["label"].codes("cat"), r"give a list of names, \['cat'\]"),
        (lambda ds: ds.sample(1.0), "count must be an integer from 0 to 1, got 1.0"),
        (lambda ds: ds.sample(1, seed=-1), "seed must be an integer >= 0, got -1"),
        (lambda ds: ds.sample(1, seed="a"), "seed must be an integer >= 0, got .a."),
        (lambda ds: ds.log(-1), "limit must be an integer >= 0, got -1"),
        (lambda ds: ds.log("1"), "limit must be an integer >= 0, got .1."),
        (lambda ds: ds.upsert([{"x": 1, "label": 0}], on=3), r"upsert\(on=3\) names no key"),
        (lambda ds: ds.alter_tensor("x", nullable="yes"), "give True or False"),
        (lambda ds: tl.open(ds.url, storage_options="key"), "is a dict by fsspec's key names"),
    ],
)
def test_an_argument_of_another_kind_is_refused_with_what_is_meant(ask, told):
    ds = tl.create("memory://bad-kinds", {"x": "int64", "label": tl.ClassLabel(["cat", "dog"])})
    try:
        ds.append({"x": 1, "label": "cat"})
        ds.commit("one row")

        with pytest.raises(tl.InvalidInputError, match=told):
            ask(ds)

        assert not ds.has_changes
    finally:
        tl.delete(ds.url, confirm=ds.url)
