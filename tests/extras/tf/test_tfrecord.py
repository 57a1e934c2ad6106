"""TensorFlow reads what `to_tfrecord` writes, and writes what `tl.ingest.tfrecord` reads."""

from __future__ import annotations

import numpy as np
import pytest

import tensorlake as tl

tf = pytest.importorskip("tensorflow")
pytestmark = [pytest.mark.extras, pytest.mark.filterwarnings("ignore")]  # of theirs


def test_tensorflow_parses_what_is_written(samples, tmp_path):
    samples.to_tfrecord(tmp_path / "out", shard_size=300)
    paths = sorted(map(str, (tmp_path / "out").glob("*.tfrecord")))
    features = {
        "x": tf.io.FixedLenFeature((3,), tf.float32),
        "total": tf.io.FixedLenFeature((), tf.float32),
    }
    read = tf.data.TFRecordDataset(paths).map(lambda one: tf.io.parse_single_example(one, features))
    rows = [*read.as_numpy_iterator()]
    assert len(paths) > 1
    assert np.array_equal([row["x"] for row in rows], samples["x"][:])
    assert np.array_equal([row["total"] for row in rows], samples["total"][:])


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_what_tensorflow_writes_is_read(tmp_path, compression):
    path = str(tmp_path / ("x.tfrecord" + (".gz" if compression else "")))
    image = tf.io.encode_png(np.zeros((2, 3, 3), np.uint8)).numpy()
    with tf.io.TFRecordWriter(path, compression) as writer:
        for n in range(4):
            values = {
                "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[-n])),
                "point": tf.train.Feature(float_list=tf.train.FloatList(value=[n, 0.1])),
                "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[image])),
            }
            features = tf.train.Features(feature=values)
            writer.write(tf.train.Example(features=features).SerializeToString())
    ds = tl.ingest.tfrecord(path, str(tmp_path / "x.tl"))
    assert ds["label"][:].tolist() == [0, -1, -2, -3]
    assert np.array_equal(ds["point"][:], np.array([[n, 0.1] for n in range(4)], np.float32))
    assert ds["image"].bytes(3) == image
