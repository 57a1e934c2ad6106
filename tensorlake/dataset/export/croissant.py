"""Croissant 1.1: a folder of ``croissant.json`` and the rows that it describes, ``rows.parquet``.

    numbers, bool           cr:Int8 … cr:UInt64, cr:Float16 … cr:Float64, sc:Boolean
    text, classes           sc:Text; the names of classes are an enumeration, ``label_classes``
    times, dates            sc:DateTime, sc:Date
    images, audio, video    sc:ImageObject, sc:AudioObject, sc:VideoObject: bytes, as stored
    arrays, lists of these  the type of an element with ``isArray``; a length that varies is -1

The formats: docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html and croissant-rai-spec.html.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from tensorlake.dataset.export.arrow.stream import arrow_schema
from tensorlake.dataset.export.destinations import Form, new_folder
from tensorlake.dataset.export.files import tensor_columns
from tensorlake.dataset.export.parquet import to_parquet
from tensorlake.errors import InvalidInputError, UnsupportedFeatureError
from tensorlake.types import Audio, ClassLabel, Image, SampleType, Video, untiled

if TYPE_CHECKING:
    from tensorlake.dataset.core.rowset import RowSet

__all__ = ["to_croissant"]

Arrow = Any  # pyarrow ships no types

REQUIRED = ("name", "description", "license", "url", "creator", "datePublished")
"""Properties of a dataset that Croissant 1.1 requires."""

OPTIONAL = (
    *("alternateName", "citeAs", "dateCreated", "dateModified", "inLanguage", "isLiveDataset"),
    *("keywords", "publisher", "sameAs", "sdLicense", "sdVersion", "usageInfo", "version"),
)

RAI = (
    *("annotationsPerItem", "annotatorDemographics", "dataAnnotationAnalysis"),
    *("dataAnnotationPlatform", "dataAnnotationProtocol", "dataBiases", "dataCollection"),
    *("dataCollectionMissingData", "dataCollectionRawData", "dataCollectionTimeframe"),
    *("dataCollectionType", "dataImputationProtocol", "dataLimitations"),
    *("dataManipulationProtocol", "dataPreprocessingProtocol", "dataReleaseMaintenancePlan"),
    *("dataSocialImpact", "dataUseCases", "hasSyntheticData", "machineAnnotationTools"),
    "personalSensitiveInformation",
)
PROV = ("wasDerivedFrom", "wasGeneratedBy")
KNOWN = (
    *(*REQUIRED, *OPTIONAL),
    *(f"rai:{name}" for name in RAI),
    *(f"prov:{name}" for name in PROV),
)

CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    **{
        term: f"cr:{term}"
        for term in (
            *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract"),
            *("field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray"),
            *("isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source"),
            *("subField", "transform"),
        )
    },
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    "prov": "http://www.w3.org/ns/prov#",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "sc": "https://schema.org/",
}
CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")
ROWS = "rows.parquet"
FORM = Form("croissant", re.compile(r"croissant\.json|rows\.parquet"))


def to_croissant(
    view: RowSet,
    dst: str | PathLike[str],
    *,
    about: Mapping[str, Any] | None,
    columns: Sequence[str] | None,
    overwrite: bool,
) -> tuple[str, ...]:
    """Write the folder; return the required properties that are missing."""
    types = tensor_columns(view, columns, call="to_croissant()")
    names = [*types]
    base, _, number = view.version.rpartition("@")
    stem = view.url.rstrip("/").rpartition("/")[2].removesuffix(".tl")
    properties = {
        "name": stem or "dataset",
        "version": f"{number}.0.0" if base and number.isdecimal() else "1.0.0",
        **_checked(about),
    }
    fields = [_field(one, types[one.name]) for one in arrow_schema(view, names)]
    classes = [_classes(name, types[name]) for name in names if _names(types[name])]
    with new_folder(dst, form=FORM, overwrite=overwrite) as folder:
        to_parquet(view, folder / ROWS, columns=names, overwrite=False)
        with (folder / ROWS).open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        rows = {
            "@type": "cr:FileObject",
            "@id": ROWS,
            "name": ROWS,
            "description": f"{len(view)} rows",
            "contentUrl": ROWS,
            "contentSize": f"{(folder / ROWS).stat().st_size} B",
            "encodingFormat": "application/x-parquet",
            "sha256": digest,
        }
        records = {"@type": "cr:RecordSet", "@id": "rows", "name": "rows", "field": fields}
        document = {
            "@context": CONTEXT,
            "@type": "sc:Dataset",
            "conformsTo": list(CONFORMS_TO),
            **properties,
            "distribution": [rows],
            "recordSet": [records, *classes],
        }
        text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
        (folder / "croissant.json").write_text(f"{text}\n", encoding="utf-8")
    return tuple(name for name in REQUIRED if name not in properties)


def _checked(about: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the properties that a user gave, known and well-formed."""
    if about is None:
        return {}
    if not isinstance(about, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - users'
        raise InvalidInputError(
            f"about={type(about).__name__}: give a dictionary of properties, such as"
            ' {"license": "https://creativecommons.org/licenses/by/4.0/"}'
        )
    for name, value in about.items():
        if name not in KNOWN:
            close = get_close_matches(str(name), KNOWN, n=3) or REQUIRED
            raise InvalidInputError(
                f"about= has no property {name!r}\nthere are {', '.join(close)} and others:"
                " docs/reference/sdk.md lists them",
                actual=str(name),
            )
        if value is None or value in ("", [], {}):
            raise InvalidInputError(f"about[{name!r}] is empty\nleave it out, or give a value")
        if name.startswith("date"):
            _check_date(name, value)
        if name in ("creator", "publisher"):
            _check_parties(name, value)
    try:
        return json.loads(json.dumps(dict(about), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"about= has a value that JSON has no form for: {error}") from error


def _check_date(name: str, value: Any) -> None:
    try:
        datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f'about[{name!r}] is {value!r}\ngive a date as ISO 8601: "2026-11-29"',
            actual=str(value),
        ) from error


def _check_parties(name: str, value: Any) -> None:
    for one in cast("list[Any]", value if isinstance(value, list) else [value]):
        party = cast("dict[str, Any]", one if isinstance(one, dict) else {})
        if party.get("@type") not in ("Person", "Organization") or "name" not in party:
            raise InvalidInputError(
                f"about[{name!r}] has {one!r}\ngive a person or an organization, or a list of them:"
                ' {"@type": "Person", "name": "Ada Lovelace"}',
                actual=str(one),
            )


def _field(column: Arrow, sample_type: SampleType) -> dict[str, Any]:
    """Return the description of a column."""
    kind, shape = _element(column.type)
    data_type = _data_type(kind, untiled(sample_type))
    if data_type is None:
        raise UnsupportedFeatureError(
            f"Croissant has no data type for {column.name!r} ({sample_type.describe()})"
            "\nleave it out: columns=[…]",
            tensor=column.name,
        )
    lengths = {"isArray": True, "arrayShape": ",".join(map(str, shape))} if shape else {}
    return {
        "@type": "cr:Field",
        "@id": f"rows/{column.name}",
        "name": column.name,
        "description": sample_type.describe(),
        "dataType": data_type,
        **lengths,
        "source": {"fileObject": {"@id": ROWS}, "extract": {"column": column.name}},
    }


def _element(kind: Arrow) -> tuple[Arrow, tuple[int, ...]]:
    """Return the type of the elements of nested lists, and the lengths of these; -1: it varies."""
    import pyarrow as pa

    if isinstance(kind, pa.FixedShapeTensorType):
        return kind.value_type, tuple(kind.shape)
    shape: list[int] = []
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
        shape.append(kind.list_size if pa.types.is_fixed_size_list(kind) else -1)
        kind = kind.value_type
    return kind, tuple(shape)


def _data_type(kind: Arrow, sample_type: SampleType) -> str | None:
    import pyarrow as pa

    types = pa.types
    if types.is_binary(kind):
        media = ((Image, "sc:ImageObject"), (Audio, "sc:AudioObject"), (Video, "sc:VideoObject"))
        return next((name for cls, name in media if isinstance(sample_type, cls)), None)
    if types.is_string(kind) or types.is_dictionary(kind):
        return "sc:Text"
    if types.is_integer(kind):
        return f"cr:{'U' if types.is_unsigned_integer(kind) else ''}Int{kind.bit_width}"
    if types.is_floating(kind):
        return f"cr:Float{kind.bit_width}"
    if types.is_boolean(kind):
        return "sc:Boolean"
    if types.is_date32(kind):
        return "sc:Date"
    return "sc:DateTime" if types.is_timestamp(kind) else None


def _names(sample_type: SampleType) -> tuple[str, ...]:
    return tuple(sample_type.names) if isinstance(sample_type, ClassLabel) else ()


def _classes(name: str, sample_type: SampleType) -> dict[str, Any]:
    """Return the classes of a tensor as an enumeration."""
    own = f"{name}_classes"
    field = {"@type": "cr:Field", "@id": f"{own}/name", "name": "name", "dataType": "sc:Text"}
    return {
        "@type": "cr:RecordSet",
        "@id": own,
        "name": own,
        "description": f"the classes of {name}",
        "dataType": "sc:Enumeration",
        "key": {"@id": f"{own}/name"},
        "field": [field],
        "data": [{f"{own}/name": one} for one in _names(sample_type)],
    }
