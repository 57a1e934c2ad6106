"""Folders of DICOM files: the files of a series are a row, wherever they are in the folder.

study/1.dcm  study/2.dcm  …     one series: one row, named study/1.dcm
study/cine.dcm                  a file of several frames: a row of its own
study/plan.dcm  README          without pixels, or not DICOM: passed over
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np

from tensorlake.dataset import Dataset, SkippedItem
from tensorlake.errors import InvalidInputError
from tensorlake.ingest.engine.found_files import full_place, source_path
from tensorlake.ingest.engine.options import IngestOptions, shows_options
from tensorlake.ingest.engine.run import run_ingest
from tensorlake.ingest.engine.source import Source, given_settings, no_rows
from tensorlake.ingest.engine.source_files import SourceFiles
from tensorlake.ingest.vision.folder_facts import FoundFile, facts_of_names, name_of
from tensorlake.ingest.vision.folder_scan import FileKind, NamePattern, ending_of
from tensorlake.ingest.vision.folders import found_files
from tensorlake.storage import public_url
from tensorlake.types import Dicom, DicomFacts, dicom_facts

__all__ = ["dicom"]

_ENDINGS = frozenset((".dcm", ".dicom", ".ima"))
_KIND = FileKind("volume", None, lambda _: Dicom())


class _Series(NamedTuple):
    """The files of one volume, in the order of their paths."""

    files: tuple[FoundFile, ...]

    @property
    def name(self) -> str:
        """The path of its first file."""
        return name_of(self.files[0])


@shows_options
def dicom(
    src: str | PathLike[str],
    dst: str | PathLike[str],
    *,
    headers: Sequence[str] = (),
    schema: Mapping[str, Any] | None = None,
    pattern: str | None = None,
    tensor: str = "volume",
    **options: Unpack[IngestOptions],
) -> Dataset:
    """Ingest a folder, a zip or a tar file of DICOM files: a row for each series.

    Makes ``volume``, of a dtype that holds the integers of all series, and the fields of
    ``pattern``. A file of several frames is a row of its own. Files that are not DICOM are passed
    over, unless their names end in ``.dcm``, ``.dicom`` or ``.ima``; so are files without pixels,
    which the report lists. Attributes of patients are not stored.

    Args:
        src: The folder or the archive, or the URL of one in a store.
        dst: Path or URL of the dataset.
        headers: Keywords of attributes that are stored, such as "Modality": see `tl.Dicom`.
        schema: Types by tensor name; they override the inferred ones, such as
            ``{"volume": tl.Dicom(rescale=True)}``.
        pattern: A pattern of the path of the first file of each series, whose fields become
            tensors: ``"{patient}/*/*"``.
        tensor: The name of the tensor of volumes.
        **options: See `IngestOptions`.

    Returns:
        The dataset; its rows are committed, and ``ds.ingest_report`` names the versions.

    Raises:
        InvalidInputError: There is no series, a file is damaged, or slices are missing; the message
            names the first file of the series.

    Example:
        >>> from pathlib import Path
        >>> import numpy as np
        >>> import pydicom
        >>> import tensorlake as tl
        >>> Path("scans").mkdir()
        >>> for place in range(3):
        ...     image = pydicom.Dataset()
        ...     image.SOPClassUID = "1.2.840.10008.5.1.4.1.1.2"
        ...     image.SOPInstanceUID, image.SeriesInstanceUID = f"1.2.3.{place}", "1.2.3"
        ...     image.ImagePositionPatient = [0, 0, place]
        ...     image.ImageOrientationPatient, image.PixelSpacing = [1, 0, 0, 0, 1, 0], [1, 1]
        ...     image.file_meta = pydicom.dataset.FileMetaDataset()
        ...     image.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        ...     image.set_pixel_data(np.full((8, 9), place, "uint16"), "MONOCHROME2", 16)
        ...     image.save_as(f"scans/{place}.dcm", enforce_file_format=True)
        >>> ds = tl.ingest.dicom("scans", "memory://doc-ingest-dicom")
        >>> ds["volume"].type, ds[0]["volume"].shape
        (Dicom(dtype='uint16'), (3, 8, 9))
    """
    folder, files = source_path(src), SourceFiles(options.get("storage_options"))
    shown = public_url(folder)
    is_strict = options.get("on_error", "raise") == "raise"
    left_out: list[SkippedItem] = []
    found, archive = found_files(_KIND, folder, files, None if is_strict else left_out)
    listed = sorted(found, key=itemgetter(0))
    read_files = files.reader(folder)

    def read(batch: Sequence[FoundFile]) -> Sequence[Any]:
        paths, sizes = [one.path for one in batch], [one.nbytes for one in batch]
        return read_files(paths, sizes) if archive is None else archive.read(paths)

    groups: dict[str, list[FoundFile]] = {}
    known: dict[str, list[DicomFacts]] = {}
    for one in listed:
        try:
            facts = dicom_facts(read([one])[0])
        except ValueError as error:
            if ending_of(one.path) not in _ENDINGS:
                continue
            if is_strict:
                reason = f"{name_of(one)!r} of {shown!r}: {error}"
                raise InvalidInputError(reason, src=shown, item=name_of(one)) from error
            left_out.append(SkippedItem(name_of(one), str(error).splitlines()[0]))
            continue
        if facts is None:
            left_out.append(SkippedItem(name_of(one), "has no pixels"))
            continue
        is_alone = facts.frames > 1 or not facts.series
        group = name_of(one) if is_alone else f"series {facts.series}"
        groups.setdefault(group, []).append(one)
        known.setdefault(group, []).append(facts)
    if not groups and left_out:
        raise no_rows("dicom", left_out)
    if not groups:
        message = f"no DICOM series in {shown!r}\nits files have no pixels, or are not DICOM"
        raise InvalidInputError(message, src=shown)
    series = sorted((_Series(tuple(one)) for one in groups.values()), key=lambda one: one.name)

    def is_whole(group: str) -> bool:
        facts, contents = known[group], [[*map(bytes, read(groups[group]))]]
        try:
            _type_of(facts, ()).convert(contents, tensor=tensor)
        except InvalidInputError:
            return False
        return True

    facts = [one for each in known.values() for one in each]
    if not is_strict and len(set(map(_kind_of, facts))) > 1:
        # of each kind that a series has, a whole one: damaged series decide no type
        facts = _of_whole(known, is_whole) or facts
    types: dict[str, Any] = {tensor: _type_of(facts, tuple(headers))}
    values: dict[str, Mapping[str, Any]] = {}
    if pattern is not None:
        firsts = [one.files[0] for one in series]
        fields = facts_of_names(
            firsts, shown, NamePattern(pattern), schema or {}, is_strict=is_strict
        )
        left_out.extend(SkippedItem(name_of(one), fields.why) for one in fields.outside)
        types |= fields.types
        values = {
            name_of(one): {name: fields.value(one, name) for name in fields.types}
            for one in fields.images
        }
        series = [one for one in series if one.name in values]
    unknown = [name for name in schema or {} if name not in types]
    if unknown:
        message = f"schema names unknown tensors {unknown}; these series make {', '.join(types)}"
        raise InvalidInputError(message, src=shown, expected=[*types])

    def load(batch: Sequence[_Series]) -> dict[str, Any]:
        columns: dict[str, Any] = {tensor: [[*map(bytes, read(one.files))] for one in batch]}
        for name in types.keys() - {tensor}:
            columns[name] = [values[one.name][name] for one in batch]
        return columns

    named = None if tensor == _KIND.tensor else tensor
    source = Source(
        kind="dicom",
        schema={**types, **(schema or {})},
        items=series,
        sizes=[sum(file.nbytes for file in one.files) for one in series],
        name=lambda one: one.name,
        load=load,
        place=Path(shown).name,
        where=full_place(folder),
        names_classes=True,
        left_out=left_out,
        takes_schema=True,
        stamp=lambda one: "|".join(
            f"{name_of(file)}:{file.nbytes}:{file.stamp}" for file in one.files
        ),
        unit="series",
        settings=given_settings(schema, headers=list(headers), pattern=pattern, tensor=named),
    )
    return run_ingest(source, dst, **options)


def _kind_of(facts: DicomFacts) -> tuple[np.dtype, bool]:
    return facts.dtype, facts.is_coloured


def _of_whole(
    known: Mapping[str, Sequence[DicomFacts]], is_whole: Callable[[str], bool]
) -> list[DicomFacts]:
    """Return the facts of series of the kinds that a whole series has."""
    kinds: set[frozenset[tuple[np.dtype, bool]]] = set()
    for group, facts in known.items():
        own = frozenset(map(_kind_of, facts))
        if own not in kinds and is_whole(group):
            kinds.add(own)
    of_whole = set().union(*kinds)
    return [one for facts in known.values() for one in facts if _kind_of(one) in of_whole]


def _type_of(known: Sequence[DicomFacts], headers: tuple[str, ...]) -> Dicom:
    """Return a type whose integers hold those of all series."""
    dtype = np.result_type(*{one.dtype for one in known})
    ndim = 4 if all(one.is_coloured for one in known) else 3
    return Dicom(headers, dtype, ndim=ndim)
