"""``ds.tensorflow()``: a tf.data.Dataset of a loader: its specs, epochs, states and ranks."""

from __future__ import annotations

import json
from itertools import chain, islice

import numpy as np
import pytest

import tensorlake as tl
from tests.support import golden_batches
from tests.support.golden_batches import digests_of
from tests.unit.loader.conftest import fill_pets, threads_left

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

TWO = [tf.config.LogicalDeviceConfiguration()] * 2  # before TensorFlow starts its devices
tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], TWO)
READ = {"batch_size": 8, "shuffle": True, "seed": 1, "columns": ["x", "total", "_row"]}


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    with fill_pets(str(tmp_path_factory.mktemp("pets") / "pets.tl")) as dataset:
        yield dataset


def rows_of(data):
    return [batch["_row"].numpy().tolist() for batch in data]


def expected_rows(dataset, **read):
    return [batch["_row"].tolist() for batch in dataset.loader(**{**READ, **read})]


# ---- specs, and batches that have them


def test_batches_are_those_of_the_loader_in_every_epoch(samples):
    ours, theirs = samples.loader(**READ), samples.tensorflow(**READ)

    assert isinstance(theirs, tf.data.Dataset)
    assert len(theirs) == 5
    for _ in range(2):
        pairs = list(zip(ours, theirs.as_numpy_iterator(), strict=True))
        assert len(pairs) == 5
        for one, other in pairs:
            assert other.pop("_valid").all()
            assert one.keys() == other.keys()
            for name in one:
                assert one[name].tobytes() == other[name].tobytes()
                assert one[name].dtype == other[name].dtype


def test_specs_come_from_the_columns(pets):
    data = pets.tensorflow(
        batch_size=4,
        drop_last=True,
        columns=["image", "label", "boxes", "tokens", "name", "_row_id"],
        collate={"image": "list", "boxes": tl.collate.Pad(-1, to=3)},
        layout="NCHW",
    )

    assert data.element_spec == {
        "image": tf.RaggedTensorSpec((4, 3, None, None), tf.uint8, ragged_rank=3),
        "label": tf.TensorSpec((4,), tf.int64),
        "boxes": tf.TensorSpec((4, 3, 4), tf.float32),
        "boxes_mask": tf.TensorSpec((4, 3), tf.bool),
        "tokens": tf.TensorSpec((4, 300), tf.uint16),
        "name": tf.TensorSpec((4,), tf.string),
        "_row_id": tf.TensorSpec((4,), tf.string),
        "_valid": tf.TensorSpec((4,), tf.bool),
    }
    assert len([*data]) == 15


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_ragged_tensors_have_the_samples_of_lists(pets, layout):
    read = {
        "batch_size": 7,
        "columns": ["image", "boxes", "name"],
        "collate": {"image": "list"},
        "layout": layout,
    }

    for one, other in zip(pets.loader(**read), pets.tensorflow(**read), strict=True):
        for name in ("image", "boxes"):
            assert isinstance(other[name], tf.RaggedTensor)
            for sample, ragged in zip(one[name], other[name], strict=True):
                dense = ragged.to_tensor() if isinstance(ragged, tf.RaggedTensor) else ragged
                np.testing.assert_array_equal(dense.numpy(), sample)
        assert [text.decode() for text in other["name"].numpy()] == one["name"]


@pytest.mark.parametrize("how", ["concat", "pad"])
def test_collated_columns_are_those_of_the_loader(pets, how):
    read = {"batch_size": 7, "columns": ["boxes"], "collate": {"boxes": how}}

    for one, other in zip(pets.loader(**read), pets.tensorflow(**read), strict=True):
        assert one.keys() == other.keys() - {"_valid"}
        for name, value in one.items():
            np.testing.assert_array_equal(other[name].numpy(), value)


def test_every_type_has_a_spec_or_is_refused_by_name():
    schema = {
        "tags": tl.Tags(),
        "blob": tl.Bytes(),
        "half": tl.Array("bfloat16", (2,)),
        "words": tl.Sequence(tl.Text()),
        "cells": tl.Array("int16", (None, None)),
        "note": tl.Json(),
    }
    ds = tl.create("memory://tf-types", schema)
    ds.append(
        {
            "tags": ["a", "b"],
            "blob": b"\x00\xff",
            "half": [1, 2],
            "words": ["lake"],
            "cells": np.arange(6).reshape(2, 3),
            "note": {},
        }
    )
    ds.append({**{name: [] for name in ("tags", "words")}, "blob": b"", "half": [3, 4],
               "cells": np.zeros((0, 4), "int16"), "note": {}})  # fmt: skip
    ds.commit("one of each")

    (batch,) = ds.tensorflow(batch_size=2, columns=["tags", "blob", "half", "words", "cells"])

    assert batch["tags"].to_list() == [[b"a", b"b"], []]
    assert batch["words"].to_list() == [[b"lake"], []]
    assert batch["blob"].numpy().tolist() == [b"\x00\xff", b""]
    assert (batch["half"].dtype, batch["half"].shape) == (tf.bfloat16, (2, 2))
    assert batch["cells"].to_list() == [[[0, 1, 2], [3, 4, 5]], []]
    with pytest.raises(tl.UnsupportedFeatureError, match="no type for 'note', which is Json"):
        ds.tensorflow(batch_size=2)


def test_null_needs_a_value_also_in_lists(pets):
    with pytest.raises(tl.InvalidInputError, match="'score' is NULL") as caught:
        pets.tensorflow(batch_size=4, columns=["score"], collate={"score": "list"})
    assert "'list'" not in str(caught.value)

    data = pets.tensorflow(batch_size=60, columns=["score"], null={"score": -1})
    assert next(iter(data))["score"].numpy()[3] == -1


def test_entries_of_functions_are_described_by_the_caller(samples):
    read = {"batch_size": 8, "columns": ["x"], "transform": double}
    spec = {"y": tf.TensorSpec((None, 3), tf.float32)}

    with pytest.raises(tl.InvalidInputError, match="transform= may return anything") as caught:
        samples.tensorflow(**read)
    assert "element_spec=" in str(caught.value)
    with pytest.raises(tl.InvalidInputError, match=r"a tf\.TypeSpec by name"):
        samples.tensorflow(**read, element_spec={"y": "float32"})

    batch = next(iter(samples.tensorflow(**read, element_spec=spec)))
    np.testing.assert_array_equal(batch["y"], 2 * samples["x"][:8])
    assert batch.keys() == {"y", "_valid"}


def double(row):
    return {"y": row["x"] * 2}


def test_lists_of_a_transform_become_ragged_as_described(samples):
    data = samples.tensorflow(
        batch_size=4,
        columns=["x"],
        transform=lambda row: {"head": row["x"][: int(row["x"][0] * 3)]},
        collate={"head": "list"},
        element_spec={"head": tf.RaggedTensorSpec((None, None), tf.float32)},
    )

    heads = [sample for batch in islice(data, 3) for sample in batch["head"].to_list()]
    data.load_state_dict(data.state_dict())
    heads += [sample for batch in data for sample in batch["head"].to_list()]

    assert [len(one) for one in heads] == [int(x[0] * 3) for x in samples["x"][:]]


def test_a_pair_for_keras_is_a_batch_transform(samples):
    spec = tf.TensorSpec((None, 3), tf.float32), tf.TensorSpec((None,), tf.float32)
    data = samples.tensorflow(
        batch_size=8,
        shuffle=True,
        batch_transform=lambda batch: (batch["x"], batch["total"]),
        element_spec=spec,
    )
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
    model.compile(tf.keras.optimizers.SGD(0.5), "mse")

    history = model.fit(data, epochs=30, verbose=0)

    assert data.element_spec == spec
    assert data.loader.epoch == 30
    assert history.history["loss"][-1] < 1e-3
    assert model.layers[0].kernel.numpy().ravel().tolist() == pytest.approx([1, 1, 1], abs=0.1)


# ---- epochs and states


def test_each_iteration_is_the_next_epoch(samples):
    loader, data = samples.loader(**READ), samples.tensorflow(**READ)
    epochs = [[batch["_row"].tolist() for batch in loader] for _ in range(4)]

    assert rows_of(data) == epochs[0]
    assert rows_of(data.repeat(2)) == epochs[1] + epochs[2]
    assert rows_of(data.map(lambda batch: batch, 2)) == epochs[3]
    assert len({*map(str, epochs)}) == 4


def test_batches_are_those_recorded_for_all_frameworks_before_and_after_a_resume(pets):
    first = pets.tensorflow(**golden_batches.READ)
    again = pets.tensorflow(**golden_batches.READ)

    digests = digests_of(islice(first, 2))
    again.load_state_dict(json.loads(json.dumps(first.state_dict())))

    assert digests + digests_of(again) == golden_batches.golden()


@pytest.mark.parametrize("stop", [1, 3, 5])
def test_a_state_continues_after_the_batches_that_were_taken(samples, stop):
    epochs = [expected_rows(samples)]
    second = samples.loader(**READ)
    second.set_epoch(1)
    epochs.append([batch["_row"].tolist() for batch in second])
    stopped = samples.tensorflow(**READ)
    seen = rows_of(islice(stopped, stop))
    state = json.loads(json.dumps(stopped.state_dict()))

    again = samples.tensorflow(**READ)
    again.load_state_dict(state)
    rest = rows_of(again)

    assert state["position"] == 8 * stop
    assert seen + rest == epochs[0] + (epochs[1] if stop == 5 else [])


def test_a_state_of_another_framework_and_world_continues(samples):
    first = samples.loader(**READ)
    seen = [batch["_row"].tolist() for batch in islice(first, 2)]

    ranks = []
    for rank in range(2):
        data = samples.tensorflow(
            **{**READ, "batch_size": 3}, rank=rank, world_size=2, prefetch="8MiB"
        )
        data.load_state_dict(first.state_dict())
        ranks.append(rows_of(data))

    rest = [row for pair in zip(*ranks, strict=True) for rows in pair for row in rows]
    assert [*chain(*seen), *rest] == [*chain(*expected_rows(samples))]


def test_a_state_alone_makes_the_loader_again(samples):
    data = samples.tensorflow(**READ)
    seen = rows_of(islice(data, 2))

    again = tl.loader_from_state(data.state_dict(), batch_size=8, columns=["_row"])

    assert seen + rows_of(again) == expected_rows(samples)


def test_a_newer_iterator_ends_the_older(samples):
    data = samples.tensorflow(**READ)
    older, newer = iter(data), iter(data)
    next(older)
    next(newer)

    with pytest.raises(tf.errors.OpError, match="by a newer iterator of its loader"):
        next(older)


def test_a_traced_function_reads_a_whole_epoch(samples):
    @tf.function
    def total(data):
        found = tf.constant(0, tf.int64)
        for batch in data:
            found += tf.reduce_sum(batch["_row"])
        return found

    data = samples.tensorflow(**READ)

    assert int(total(data)) == int(total(data)) == sum(range(40))
    assert data.loader.epoch == 2


def test_leaving_a_loop_ends_the_threads(samples):
    data = samples.tensorflow(**READ)
    for _ in data:
        break

    assert threads_left() == []


def test_an_error_of_the_loader_is_shown(samples):
    data = samples.tensorflow(
        batch_size=8, transform=fail, element_spec={"x": tf.TensorSpec((None, 3), tf.float32)}
    )

    with pytest.raises(tf.errors.OpError, match="a bad row"):
        next(iter(data))


def fail(row):
    raise ValueError("a bad row")


def test_a_mix_that_never_stops_has_no_length(samples):
    mixed = tl.mix({"a": (samples[:10], 0.5), "b": (samples[10:], 0.5)}, stop="never")
    data = mixed.tensorflow(batch_size=8, columns=["x", "_source"])

    assert data.element_spec["x"].shape == (8, 3)
    assert len([*data.take(20)]) == 20
    with pytest.raises(TypeError, match="never stops"):
        len(data)


def test_packed_sequences_have_their_specs():
    ds = tl.create(
        "memory://tf-packed",
        {"tokens": tl.Array("uint16", (None,)), "on": tl.Array("bool", (None,))},
    )
    texts = [np.arange(1 + n % 7) for n in range(50)]
    ds.extend({"tokens": texts, "on": [one > 1 for one in texts]})
    ds.commit("documents")
    packed = ds.pack("tokens", 10, eos=0, mask="on")

    for how in (
        {},
        {"collate": {"tokens": "concat"}, "decode": {"tokens": tl.decode.Cast("int64")}},
    ):
        pairs = zip(
            packed.loader(batch_size=4, **how), packed.tensorflow(batch_size=4, **how), strict=True
        )
        for one, other in pairs:
            assert one.keys() == other.keys() - {"_valid"}
            for name, value in one.items():
                np.testing.assert_array_equal(other[name].numpy(), value)


@pytest.mark.parametrize("tail", ["drop", "pad", "keep"])
def test_windows_have_their_specs(samples, tail):
    windows = samples.windows(columns=["x"], size=6, step=4, tail=tail)

    for one, other in zip(
        windows.loader(batch_size=3), windows.tensorflow(batch_size=3), strict=True
    ):
        assert one.keys() == other.keys() - {"_valid"}
        if tail == "keep":
            assert [row.tolist() for row in one.pop("x")] == other["x"].to_list()
        for name, value in one.items():
            np.testing.assert_array_equal(other[name].numpy(), value)


def test_packed_documents_of_a_mix_have_their_specs():
    sources = {}
    for name, length in (("a", 3), ("b", 5)):
        sources[name] = tl.create(
            f"memory://tf-mix-{name}", {"tokens": tl.Array("uint16", (None,))}
        )
        sources[name].extend({"tokens": [np.full(length, length)] * 20})
        sources[name].commit("documents")
    mixed = tl.mix({name: (ds, 1.0) for name, ds in sources.items()}, by="tokens", stop="never")
    packed = mixed.pack("tokens", 8, eos=0)

    pairs = zip(packed.loader(batch_size=2), packed.tensorflow(batch_size=2).take(9), strict=False)
    for one, other in pairs:
        assert one.keys() == other.keys() - {"_valid"}
        for name, value in one.items():
            np.testing.assert_array_equal(other[name].numpy(), value)


def test_batches_of_a_token_budget_have_any_number_of_rows():
    ds = tl.create("memory://tf-budget", {"tokens": tl.Array("uint16", (None,))})
    ds.extend({"tokens": [np.arange(1 + n % 7) for n in range(50)]})
    ds.commit("documents")
    read = {"batch_size": 20, "batch_by": "tokens", "drop_last": True}
    data = ds.tensorflow(**read)

    assert data.element_spec["tokens"].shape.as_list() == [None, None]
    for one, other in zip(ds.loader(**read), data, strict=True):
        assert [row.tolist() for row in one["tokens"]] == other["tokens"].to_list()


# ---- ranks, and tf.distribute


def test_the_cluster_of_tf_config_says_the_rank(samples, monkeypatch):
    cluster = {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}
    read = {**READ, "batch_size": None, "global_batch_size": 8}
    found = []
    for task in ({"type": "chief", "index": 0}, {"type": "worker", "index": 0}):
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        found.append(rows_of(samples.tensorflow(**read)))

    whole = [one + other for one, other in zip(*found, strict=True)]
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "ps"}}))
    with pytest.raises(tl.InvalidInputError, match="TF_CONFIG"):
        samples.tensorflow(**read).loader.remaining  # noqa: B018 - it raises
    monkeypatch.delenv("TF_CONFIG")
    assert whole == expected_rows(samples)


def test_a_strategy_does_not_divide_the_batches_again(samples):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

    whole = [
        np.concatenate([one.numpy() for one in strategy.experimental_local_results(batch["_row"])])
        for batch in strategy.experimental_distribute_dataset(samples.tensorflow(**READ))
    ]
    assert [rows.tolist() for rows in whole] == expected_rows(samples)

    def of_worker(context):
        return samples.tensorflow(
            **{**READ, "batch_size": 4},
            rank=context.input_pipeline_id,
            world_size=context.num_input_pipelines,
        )

    taken = [
        row
        for batch in strategy.distribute_datasets_from_function(of_worker)
        for one in strategy.experimental_local_results(batch["_row"])
        for row in one.numpy().tolist()
    ]
    assert taken == [*chain(*expected_rows(samples))]
