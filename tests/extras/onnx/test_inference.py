"""ONNX Runtime is the judge: tl.infer and ds.map give what a session gives for the same arrays."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = [
    pytest.mark.extras,
    # onnxruntime's calibration, of NumPy's own scalars
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
ROWS, FEATURES, CLASSES = 70, 16, 4


def saved(path, nodes, inputs, outputs, weights=(), **options):
    values = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "graph",
        [values(*one) for one in inputs],
        [values(*one) for one in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in weights],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path, **options)
    return path


def network(path, *, batch=None, width=FEATURES, **options):
    """Two layers; outputs are logits and the best class."""
    rng = np.random.default_rng(5)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w1"], ["h"]),
        onnx.helper.make_node("Relu", ["h"], ["r"]),
        onnx.helper.make_node("MatMul", ["r", "w2"], ["logits"]),
        onnx.helper.make_node("ArgMax", ["logits"], ["best"], axis=1, keepdims=0),
    ]
    weights = [
        ("w1", rng.normal(size=(width, 32)).astype("float32")),
        ("w2", rng.normal(size=(32, CLASSES)).astype("float32")),
    ]
    outputs = [("logits", FLOAT, [batch, CLASSES]), ("best", INT64, [batch])]
    return saved(path, nodes, [("x", FLOAT, [batch, width])], outputs, weights, **options)


def same(path, kind=FLOAT, shape=(None,), ndim_out=None):
    """Copy x to y."""
    out = list(shape) if ndim_out is None else [None] * ndim_out
    node = onnx.helper.make_node("Identity", ["x"], ["y"])
    return saved(path, [node], [("x", kind, list(shape))], [("y", kind, out)])


@pytest.fixture
def model(tmp_path):
    return network(tmp_path / "m.onnx")


@pytest.fixture
def x():
    return np.random.default_rng(3).normal(size=(ROWS, FEATURES)).astype("float32")


@pytest.fixture
def points(tmp_path, x):
    schema = {"x": tl.Array("float32", (FEATURES,)), "note": "str"}
    with tl.create(str(tmp_path / "points.tl"), schema) as dataset:
        dataset.extend({"x": x, "note": ["n"] * ROWS})
        dataset.commit("rows")
        yield dataset
        dataset.discard()


def expected(path, x):
    return onnxruntime.InferenceSession(path).run(None, {"x": x})


def gathered(batches):
    parts = list(batches)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def test_outputs_are_those_of_a_session_with_the_rows_in_order(points, model, x):
    found = gathered(tl.infer(points, model, batch_size=32))

    logits, best = expected(model, x)
    assert np.allclose(found["logits"], logits, atol=1e-6)
    assert (found["best"] == best).all()
    assert found["_row"].tolist() == list(range(ROWS))
    assert len(tl.infer(points, model, batch_size=32)) == 3


def test_a_view_of_repeated_rows_at_an_old_version_gives_their_outputs(points, model, x):
    points["x"][:] = np.zeros((ROWS, FEATURES), "float32")
    points.commit("zeros")
    view = points.at("main@1")[[9, 3, 3, 69]]

    found = gathered(tl.infer(view, model))

    assert found["_row"].tolist() == [9, 3, 3, 69]
    assert np.allclose(found["logits"], expected(model, x[[9, 3, 3, 69]])[0], atol=1e-6)


def test_a_fixed_batch_size_is_padded_and_cut(points, tmp_path, x):
    fixed = network(tmp_path / "fixed.onnx", batch=8)

    found = gathered(tl.infer(points, fixed))

    padded = [np.resize(x[at : at + 8], (8, FEATURES)) for at in range(0, ROWS, 8)]
    logits = np.concatenate([expected(fixed, part)[0] for part in padded])[:ROWS]
    assert np.allclose(found["logits"], logits, atol=1e-6)
    assert [len(b["best"]) for b in tl.infer(points, fixed, batch_size=20)] == [20, 20, 20, 10]


def test_ranks_divide_the_rows_and_leave_padding_out(points, model):
    parts = [
        gathered(tl.infer(points, model, batch_size=16, rank=r, world_size=3)) for r in (0, 1, 2)
    ]

    assert sorted(np.concatenate([part["_row"] for part in parts])) == list(range(ROWS))


def test_no_rows_give_no_batch_and_cannot_calibrate(points, model):
    none = points.where("note = 'other'")

    assert list(tl.infer(none, model)) == []
    with pytest.raises(tl.InvalidInputError, match="has none"):
        tl.infer(none, model, int8=True)


def test_int8_agrees_with_float_on_most_rows_and_keeps_its_digest(points, model, x):
    quantized = tl.infer(points, model, int8=True)

    found = gathered(quantized)
    logits, best = expected(model, x)
    assert (found["best"] == best).mean() >= 0.9
    assert 0 < np.abs(found["logits"] - logits).max() < 0.1 * np.abs(logits).max()
    assert quantized.digest == tl.infer(points, model).digest
    assert gathered(quantized)["logits"].tolist() == found["logits"].tolist()  # runs again


def test_int8_of_a_fixed_batch_size_is_calibrated_on_padded_batches(points, tmp_path):
    found = gathered(tl.infer(points, network(tmp_path / "f.onnx", batch=8), int8=True))

    assert found["best"].shape == (ROWS,)


def test_images_are_decoded_for_the_model(tmp_path):
    mean = onnx.helper.make_node("ReduceMean", ["image"], ["mean"], axes=[1, 2, 3], keepdims=0)
    path = saved(
        tmp_path / "mean.onnx",
        [mean],
        [("image", FLOAT, [None, 3, 8, 8])],
        [("mean", FLOAT, [None])],
    )
    with tl.create("memory://infer-images", {"image": tl.Image("png")}) as dataset:
        dataset.extend({"image": [np.full((9 + n, 7, 3), 10 * n, "uint8") for n in range(4)]})
        dataset.commit("four")
        steps = {"image": [tl.decode.Resize(8, 8), tl.decode.ToFloat()]}

        found = gathered(tl.infer(dataset, path, decode=steps, layout="NCHW"))
        assert np.allclose(found["mean"], np.arange(4) * 10 / 255, atol=1e-5)
        with pytest.raises(tl.ShapeMismatchError, match=r"layout='NCHW'"):
            list(tl.infer(dataset, path, decode=steps))
        with pytest.raises((tl.ShapeMismatchError, tl.DTypeMismatchError), match="decode="):
            tl.infer(dataset, path)


def test_map_fills_tensors_with_the_digest_in_their_metadata(points, model, x):
    points.map(model, columns=["x"])
    points.commit("predictions")

    logits, best = expected(model, x)
    assert np.allclose(points["logits"].read(), logits, atol=1e-6)
    assert (points["best"].read() == best).all()
    assert points["logits"].metadata == {"model": tl.infer(points, model).digest}
    assert points["logits"].metadata["model"].startswith("sha256:")


def test_map_takes_some_outputs_or_the_only_one_under_another_name(points, model, tmp_path):
    points.map(model, columns=["x"], schema={"best": "int64"}, where="_row < 5")
    assert points.where("best IS NULL").count() == ROWS - 5

    copy = same(tmp_path / "same.onnx", shape=(None, FEATURES))
    points.map(copy, columns=["x"], schema={"copied": tl.Array("float32", (FEATURES,))})
    assert (points["copied"].read() == points["x"][:]).all()
    with pytest.raises(tl.InvalidInputError, match=r"outputs of 'm\.onnx'"):
        points.map(model, columns=["x"], schema={"bset": "int64"})


def test_map_into_a_new_dataset_has_the_metadata_committed(points, model, tmp_path):
    made = points.map(model, columns=["x"], to=str(tmp_path / "made.tl"))

    assert not made.has_changes
    assert "model" in tl.open(made.url)["best"].metadata
    assert points.map(model, columns=["x"], to=made.url).version == made.version  # nothing is new


def test_another_model_replaces_the_digest(points, model, tmp_path):
    points.map(model, columns=["x"])
    before = points["best"].metadata
    other = network(tmp_path / "other.onnx", batch=8)
    points.map(other, columns=["x"])

    assert points["best"].metadata != before


def test_a_model_does_not_run_in_forked_processes(points, model):
    with pytest.raises(tl.InvalidInputError, match="leave engine= out"):
        points.map(model, columns=["x"], engine="processes")


@pytest.mark.parametrize(
    ("schema", "values", "error", "words"),
    [
        ({"x": tl.Array("float32", (3,))}, [[1, 2, 3]], tl.ShapeMismatchError, "takes 'x'"),
        ({"x": tl.Array("float32", (None,))}, [[1, 2]], tl.ShapeMismatchError, "one shape"),
        ({"x": tl.Array("int64", (FEATURES,))}, [[1] * FEATURES], tl.DTypeMismatchError, "loss"),
        ({"a": "float32", "b": "int64"}, [1], tl.TensorNotFoundError, "inputs="),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_rows_are_read(
    model, schema, values, error, words
):
    with tl.create("memory://infer-refused", schema) as dataset:
        dataset.extend(dict.fromkeys(schema, values))
        for call in (lambda: tl.infer(dataset, model), lambda: dataset.map(model)):
            with pytest.raises(error, match=words):
                call()
        dataset.discard()
    tl.delete("memory://infer-refused", confirm="memory://infer-refused")


def test_narrower_numbers_are_widened_and_doubles_are_rounded(model):
    with tl.create("memory://infer-widened", {"x": tl.Array("float64", (FEATURES,))}) as dataset:
        dataset.extend({"x": np.full((2, FEATURES), 0.1)})
        dataset.commit("two")
        small = np.full((2, FEATURES), 0.1, "float32")
        assert (gathered(tl.infer(dataset, model))["best"] == expected(model, small)[1]).all()


def test_nulls_are_refused_with_what_to_do(model):
    kind = {"x": tl.Array("float32", (FEATURES,), nullable=True)}
    with tl.create("memory://infer-null", kind) as dataset:
        dataset.extend({"x": [np.zeros(FEATURES), None]})
        dataset.commit("two")
        with pytest.raises(tl.InvalidInputError, match="IS NOT NULL"):
            dataset.map(model)
        assert len(gathered(tl.infer(dataset, model, null={"x": 0}))["best"]) == 2
        dataset.map(model, where="x IS NOT NULL")
        assert dataset.where("best IS NULL").rows.tolist() == [1]
        dataset.discard()


def test_files_that_are_not_models_are_refused(points, tmp_path):
    path = tmp_path / "no.onnx"
    path.write_bytes(b"\x00not a model")
    with pytest.raises(tl.InvalidInputError, match="cannot load"):
        tl.infer(points, path)


def test_a_sum_over_the_batch_is_refused(points, tmp_path):
    node = onnx.helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)
    path = saved(
        tmp_path / "sum.onnx", [node], [("x", FLOAT, [None, FEATURES])], [("y", FLOAT, [])]
    )
    with pytest.raises(tl.ShapeMismatchError, match="not a value per row"):
        list(tl.infer(points, path))


def test_outputs_that_are_not_arrays_are_refused(points, tmp_path):
    node = onnx.helper.make_node("SequenceConstruct", ["x"], ["y"])
    path = tmp_path / "sequence.onnx"
    values = onnx.helper.make_tensor_value_info("x", FLOAT, [None, FEATURES])
    made = onnx.helper.make_tensor_sequence_value_info("y", FLOAT, None)
    graph = onnx.helper.make_graph([node], "graph", [values], [made])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    with pytest.raises(tl.UnsupportedFeatureError, match="zipmap"):
        tl.infer(points, path)


def test_the_digest_covers_weights_in_a_file_of_their_own(points, tmp_path):
    def digest(name, seed):
        (tmp_path / name).mkdir()
        path = network(
            tmp_path / name / "m.onnx", save_as_external_data=True, location="w", size_threshold=0
        )
        data = (path.parent / "w").read_bytes()
        (path.parent / "w").write_bytes(data[:-4] + seed)
        return tl.infer(points, path).digest

    assert digest("one", b"aaaa") != digest("two", b"bbbb")


def test_a_transform_makes_the_inputs(points, model, x):
    found = gathered(
        tl.infer(points, model, columns=["x"], transform=lambda row: {**row, "x": row["x"] * 2})
    )

    assert np.allclose(found["logits"], expected(model, x * 2)[0], atol=1e-5)
    with pytest.raises(tl.TensorNotFoundError, match="no column 'x'"):
        list(tl.infer(points, model, columns=["x"], transform=lambda row: {"_row": row["_row"]}))
    with pytest.raises(tl.InvalidInputError, match="keep what the row has"):
        list(tl.infer(points, model, columns=["x"], transform=lambda row: {"x": row["x"]}))


def ones(path, weight, output="y"):
    """The sum of four columns, times a weight."""
    return saved(
        path,
        [onnx.helper.make_node("MatMul", ["x", "w"], [output])],
        [("x", FLOAT, [None, 4])],
        [(output, FLOAT, [None, 1])],
        [("w", np.full((4, 1), weight, "float32"))],
    )


def test_rows_are_never_of_two_models(tmp_path):
    one, two = ones(tmp_path / "1.onnx", 1), ones(tmp_path / "2.onnx", 2)
    ds = tl.create(str(tmp_path / "x.tl"), {"x": tl.Array("float32", (4,))})
    ds.extend({"x": np.ones((20, 4), "float32")})
    ds.commit("ones")
    url = str(tmp_path / "y.tl")
    ds.map(one, to=url)
    assert ds.map(one, to=url).map_report.rows == 0

    with pytest.raises(tl.InvalidInputError, match="other arguments: model="):
        ds.map(two, to=url)
    ds.map(one, where="_row < 10")
    ds.commit("the first ten")
    with pytest.raises(tl.InvalidStateError, match="computed by another model"):
        ds.map(two, where="_row >= 10")
    with pytest.raises(tl.InvalidStateError, match="computed by another model"):
        ds.map(two, on_error="skip")

    ds.map(two)
    assert np.unique(ds["y"].read()).tolist() == [8]
    ds.discard()


def test_outputs_named_as_the_rows_and_models_without_inputs_are_refused(tmp_path):
    ds = tl.create(str(tmp_path / "x.tl"), {"x": tl.Array("float32", (4,))})
    with pytest.raises(tl.InvalidInputError, match="named '_row'"):
        tl.infer(ds, ones(tmp_path / "row.onnx", 1, output="_row"))
    with pytest.raises(tl.InvalidInputError, match="no 'framework'"):
        tl.infer(ds, ones(tmp_path / "y.onnx", 1), framework="torch")
    alone = saved(
        tmp_path / "alone.onnx",
        [onnx.helper.make_node("Identity", ["w"], ["y"])],
        [],
        [("y", FLOAT, [None, 1])],
        [("w", np.ones((3, 1), "float32"))],
    )
    with pytest.raises(tl.InvalidInputError, match="has no input"):
        tl.infer(ds, alone)
