"""DICOM files, made by pydicom."""

import io
from typing import Any

import numpy as np
import pydicom
from pydicom.dataset import FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian, RLELossless, generate_uid

__all__ = ["SECRET", "dicom_bytes", "series_bytes"]

SECRET = "DOE^JANE"
CT = "1.2.840.10008.5.1.4.1.1.2"
SERIES = generate_uid(entropy_srcs=["a series"])


def dicom_bytes(pixels: np.ndarray, *, is_packed: bool = False, **attributes: Any) -> bytes:
    """Write a slice of 16 bits as a file of a patient; attributes set to None are left out."""
    made = pydicom.Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made.file_meta.MediaStorageSOPClassUID = CT
    made.SOPClassUID = CT
    made.SOPInstanceUID = made.file_meta.MediaStorageSOPInstanceUID = generate_uid()
    made.PatientName = SECRET
    made.PatientID = SECRET
    made.StudyDescription = SECRET
    made.Modality = "CT"
    made.Rows, made.Columns = pixels.shape[-2:]
    made.SamplesPerPixel, made.PhotometricInterpretation = 1, "MONOCHROME2"
    made.BitsAllocated, made.BitsStored, made.HighBit = 16, 16, 15
    made.PixelRepresentation = int(pixels.dtype.kind == "i")
    made.PixelData = pixels.astype(pixels.dtype.newbyteorder("<")).tobytes()
    if pixels.ndim == 3:
        made.NumberOfFrames = len(pixels)
    given = {
        "SeriesInstanceUID": SERIES,
        "ImageOrientationPatient": [1, 0, 0, 0, 1, 0],
        "PixelSpacing": [0.5, 0.75],
        "SliceThickness": 3,
        "RescaleSlope": 1,
        "RescaleIntercept": -1024,
        **attributes,
    }
    for name, value in given.items():
        if value is None and name in made:
            delattr(made, name)
        elif value is not None:
            setattr(made, name, value)
    made.add_new((0x6000, 0x3000), "OW", SECRET.encode())  # an overlay
    if is_packed:
        made.compress(RLELossless)
    file = io.BytesIO()
    made.save_as(file, enforce_file_format=True)
    return file.getvalue()


def series_bytes(voxels: np.ndarray, step: float = 3.0, **attributes: Any) -> list[bytes]:
    """Write the slices of a volume [z, y, x] as files, in their order along the normal."""
    return [
        dicom_bytes(plane, ImagePositionPatient=[-10, -20, 5 + step * at], **attributes)
        for at, plane in enumerate(voxels)
    ]
