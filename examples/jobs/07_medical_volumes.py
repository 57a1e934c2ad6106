"""DICOM series to patches with their masks, and sliding boxes for validation.

Series are made for this page. A mask is declared ``of=`` its volume, so both are cut at one place.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pydicom
from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

import tensorlake as tl

SIDE, STEP = 32, 24


def write_series(folder: Path, voxels: np.ndarray) -> None:
    folder.mkdir(parents=True)
    series = generate_uid()
    for z, plane in enumerate(voxels):
        file = pydicom.Dataset()
        file.file_meta = pydicom.dataset.FileMetaDataset()
        file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        file.SOPClassUID, file.SOPInstanceUID = CTImageStorage, generate_uid()
        file.SeriesInstanceUID, file.Modality = series, "CT"
        file.ImagePositionPatient, file.ImageOrientationPatient = [0, 0, z], [1, 0, 0, 0, 1, 0]
        file.PixelSpacing = [1, 1]
        file.set_pixel_data(plane, "MONOCHROME2", 12)
        file.save_as(folder / f"{z}.dcm", enforce_file_format=True)


def segment(row: dict) -> dict:
    """A model that finds tissue above two thresholds."""
    voxels = row["ct"][:]
    return {"mask": (voxels > 1000).astype("uint8") + (voxels > 1950)}


# 1. Ingest: a row for each series, and the folder's name as a tensor.
rng = np.random.default_rng(7)
with TemporaryDirectory() as studies:
    for number in range(5):
        voxels = rng.integers(0, 2000, (40 + number, 48, 36)).astype(np.uint16)
        write_series(Path(studies, f"p{number}"), voxels)
    ds = tl.ingest.dicom(studies, "memory://job7", tensor="ct", pattern="{patient_id}/*")

# 2. Masks: volumes in the tiles of the CT. Patients are in one part each.
names = ["background", "liver", "tumour"]
ds.map(segment, schema={"mask": tl.SegmentMask(names, of="ct")}, columns=["ct"])
ds.commit("masks")
parts = ds.split({"train": 0.8, "val": 0.2}, group="patient_id", seed=2)

# 3. Two patches of each volume, half of them about tissue; the mask is cut with the CT.
patch = tl.decode.RandomPatch((SIDE,) * 3, n=2, center_on="mask", positive=0.5)
decode = {"ct": [patch, tl.decode.Cast("int32")]}
train = parts["train"].torch(batch_size=2, shuffle=True, columns=["ct", "mask"], decode=decode)
for batch in train:
    assert ((batch["ct"] > 1000) == (batch["mask"] > 0)).all()
    print("patches", tuple(batch["ct"].shape), f"{batch['mask'].bool().float().mean():.2f} tissue")

# 4. Boxes that cover the volumes, put together by their places.
val = parts["val"].windows(["ct", "mask"], size=(SIDE,) * 3, step=(STEP,) * 3)
votes = {row.row: np.zeros(row["ct"].shape, int) for row in parts["val"]}
for batch in val.torch(batch_size=8):
    for row, start in zip(batch["_row"].tolist(), batch["_start"].tolist(), strict=True):
        votes[row][tuple(slice(at, at + SIDE) for at in start)] += 1
print(len(val), "boxes; every voxel is in one:", all(one.all() for one in votes.values()))
