"""tf.data over a NumPy loader: equal batches, a model trains on them, a state continues."""

from __future__ import annotations

from itertools import islice

import pytest

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs

READ = {"batch_size": 8, "shuffle": True, "seed": 1, "columns": ["x", "total", "_row"]}


def tf_data(loader):
    """Hand the batches of a loader to tf.data, each pass an epoch."""
    return tf.data.Dataset.from_generator(
        lambda: iter(loader),
        output_signature={
            "x": tf.TensorSpec((None, 3), tf.float32),
            "total": tf.TensorSpec((None,), tf.float32),
            "_row": tf.TensorSpec((None,), tf.int64),
        },
    )


def test_tf_data_gives_the_batches_of_the_loader_in_every_epoch(samples):
    ours, theirs = samples.loader(**READ), tf_data(samples.loader(**READ)).prefetch(2)

    for _ in range(2):
        pairs = list(zip(ours, theirs.as_numpy_iterator(), strict=True))
        assert len(pairs) == 5
        for one, other in pairs:
            assert one.keys() == other.keys()
            for name in one:
                assert one[name].tobytes() == other[name].tobytes()
                assert one[name].dtype == other[name].dtype


def test_a_state_continues_under_tf_data(samples):
    expected = [batch["_row"].tolist() for batch in samples.loader(**READ)]
    loader = samples.loader(**READ)
    seen = [batch["_row"].tolist() for batch in islice(loader, 2)]

    again = samples.loader(**READ)
    again.load_state_dict(loader.state_dict())
    rest = [batch["_row"].tolist() for batch in tf_data(again).as_numpy_iterator()]

    assert seen + rest == expected


def test_a_model_learns_from_tf_data(samples):
    """The sum of three numbers is linear: what is learned says whether pairs stayed together."""
    loader = samples.loader(**READ)
    weight = tf.Variable(tf.zeros((3, 1)))
    for _ in range(20):
        for batch in tf_data(loader).take(5):
            with tf.GradientTape() as tape:
                error = tf.squeeze(batch["x"] @ weight, 1) - batch["total"]
                loss = tf.reduce_mean(tf.square(error))
            weight.assign_sub(0.6 * tape.gradient(loss, weight))

    assert weight.numpy().ravel().tolist() == pytest.approx([1.0, 1.0, 1.0], abs=0.05)
