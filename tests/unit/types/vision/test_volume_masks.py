"""Masks of volumes leave and come back as arrays of codes, also without their volume."""

import numpy as np
import pytest

import tensorlake as tl

pytest.importorskip("nibabel")


def test_masks_of_volumes_are_exported_as_arrays_and_ingested_again(tmp_path):
    schema = {"ct": tl.Nifti("int16"), "mask": tl.SegmentMask(["a", "b"], of="ct", nullable=True)}
    ds = tl.create("memory://masks-out", schema)
    codes = (np.arange(4 * 5 * 6).reshape(4, 5, 6) % 2).astype(np.uint8)
    for mask in (codes, None):
        ds.append({"ct": {"voxels": codes.astype("i2"), "affine": np.eye(4)}, "mask": mask})
    ds.commit()
    alone = ds[["mask"]]

    ds.to_parquet(tmp_path / "both.parquet")
    alone.to_webdataset(tmp_path / "shards")
    again = [
        tl.ingest.parquet(tmp_path / "both.parquet", "memory://masks-parquet"),
        tl.ingest.arrow(alone.to_arrow(), "memory://masks-arrow"),
        tl.ingest.webdataset(tmp_path / "shards", "memory://masks-shards"),
        alone.materialize("memory://masks-copy"),
    ]

    for other in again:
        assert other.schema["mask"] == ds.schema["mask"]
        np.testing.assert_array_equal(other[0]["mask"], codes)
        assert other[1]["mask"] is None
    np.testing.assert_array_equal(ds.to_pandas(columns=["mask"])["mask"][0], codes)
    np.testing.assert_array_equal(ds[:1].to_numpy(columns=["mask"])["mask"][0], codes)
