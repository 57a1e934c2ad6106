"""tensorlake: versioned, multi-modal datasets on object storage, streamed to PyTorch and JAX.

    import tensorlake as tl

    ds = tl.create("pets.tl", {"image": tl.Image("jpeg"), "label": tl.ClassLabel(["cat", "dog"])})
    ds.extend({"image": paths, "label": labels})
    ds.commit("first batch")
    for batch in ds.query("WHERE label = 'cat'").torch(batch_size=64, shuffle=True):
        ...

A handle (`Dataset`) is at a branch or a version; a `View` is rows × columns of one version.
docs/reference/sdk.md describes every name here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tensorlake.errors import *  # noqa: F403 - the error tree is part of the face; it has __all__
from tensorlake.errors import __all__ as _error_names
from tensorlake.errors import no_such_name

if TYPE_CHECKING:
    from tensorlake import datasets, errors, ingest
    from tensorlake.dataset import (
        Commit,
        Dataset,
        Diff,
        Group,
        IngestReport,
        MergeConflict,
        MergeReport,
        Predicate,
        Row,
        SkippedItem,
        Tensor,
        Updated,
        View,
        copy,
        create,
        delete,
        exists,
        fork,
        infer_schema,
        list_datasets,
        open_dataset,
        udf,
    )
    from tensorlake.dataset.handles.concat import concat
    from tensorlake.dataset.handles.mix import Mix, mix
    from tensorlake.dataset.handles.schema import ValidationReport
    from tensorlake.dataset.maintenance.check import CheckReport
    from tensorlake.dataset.maintenance.copy import CopyReport
    from tensorlake.dataset.maintenance.forgotten import ForgetReport
    from tensorlake.dataset.maintenance.lint.report import LintFinding, LintReport
    from tensorlake.dataset.maintenance.lint.rule import LintRule, Suspect
    from tensorlake.dataset.maintenance.optimize import OptimizeReport
    from tensorlake.dataset.quality.duplicates import find_duplicates
    from tensorlake.dataset.quality.label_issues import find_label_issues
    from tensorlake.dataset.runs.places import Runs, open_run, open_runs
    from tensorlake.dataset.runs.run import Run
    from tensorlake.dataset.transform.loaders import loader_from_state
    from tensorlake.dataset.transform.map.report import MapReport
    from tensorlake.dataset.transform.refresh import RefreshReport
    from tensorlake.dataset.write.upsert import Upserted
    from tensorlake.loader import (
        collate,
        decode,
    )
    from tensorlake.loader.engine.metrics import LoaderMetrics
    from tensorlake.storage import set_link_credentials
    from tensorlake.types import (
        Array,
        Audio,
        BBox,
        BBox3D,
        BinaryMask,
        Bool,
        Bytes,
        ClassLabel,
        Dicom,
        Embedding,
        File,
        Image,
        InstanceMask,
        Json,
        Keypoints,
        Link,
        Mesh,
        Nifti,
        PointCloud,
        Polygon,
        Ragged,
        Scalar,
        SegmentMask,
        Sequence,
        Struct,
        Tags,
        Text,
        Timestamp,
        Uuid,
        Video,
    )
    from tensorlake.versions import CollectionReport, ExpiryReport
    from tensorlake.workloads import embeddings, federated, flows, graphs, ray, trajectories
    from tensorlake.workloads.inference import infer

    list = list_datasets  # noqa: A001 - users look for tl.list
    open = open_dataset  # noqa: A001 - likewise tl.open
    run, runs = open_run, open_runs

__version__ = "0.2.0"

# Names are loaded when they are first used: a program that only wants errors, or a command line
# that only prints its help, does not wait for NumPy and a hundred modules.
_HOMES = {
    "tensorlake.dataset": (
        "Commit",
        "Dataset",
        "Diff",
        "Group",
        "IngestReport",
        "MergeConflict",
        "MergeReport",
        "Predicate",
        "Row",
        "SkippedItem",
        "Tensor",
        "Updated",
        "View",
        "copy",
        "create",
        "delete",
        "exists",
        "fork",
        "infer_schema",
        "udf",
    ),
    "tensorlake.dataset.handles.concat": ("concat",),
    "tensorlake.dataset.maintenance.check": ("CheckReport",),
    "tensorlake.dataset.maintenance.copy": ("CopyReport",),
    "tensorlake.dataset.maintenance.forgotten": ("ForgetReport",),
    "tensorlake.dataset.maintenance.lint.report": ("LintFinding", "LintReport"),
    "tensorlake.dataset.maintenance.lint.rule": ("LintRule", "Suspect"),
    "tensorlake.dataset.maintenance.optimize": ("OptimizeReport",),
    "tensorlake.dataset.quality.duplicates": ("find_duplicates",),
    "tensorlake.dataset.quality.label_issues": ("find_label_issues",),
    "tensorlake.dataset.runs.places": ("Runs",),
    "tensorlake.dataset.runs.run": ("Run",),
    "tensorlake.dataset.transform.map.report": ("MapReport",),
    "tensorlake.dataset.transform.refresh": ("RefreshReport",),
    "tensorlake.dataset.handles.schema": ("ValidationReport",),
    "tensorlake.dataset.write.upsert": ("Upserted",),
    "tensorlake.loader.engine.metrics": ("LoaderMetrics",),
    "tensorlake.storage": ("set_link_credentials",),
    "tensorlake.versions": ("CollectionReport", "ExpiryReport"),
    "tensorlake.workloads.inference": ("infer",),
    "tensorlake.dataset.transform.loaders": ("loader_from_state",),  # likewise
    "tensorlake.dataset.handles.mix": (
        "Mix",
        "mix",
    ),  # with all of the loader, which datasets do not need
    "tensorlake.types": (
        "Array",
        "Audio",
        "BBox",
        "BBox3D",
        "BinaryMask",
        "Bool",
        "Bytes",
        "ClassLabel",
        "Dicom",
        "Embedding",
        "File",
        "Image",
        "InstanceMask",
        "Json",
        "Keypoints",
        "Link",
        "Mesh",
        "Nifti",
        "PointCloud",
        "Polygon",
        "Ragged",
        "Scalar",
        "SegmentMask",
        "Sequence",
        "Struct",
        "Tags",
        "Text",
        "Timestamp",
        "Uuid",
        "Video",
    ),
}
_PLACES = {name: (home, name) for home, names in _HOMES.items() for name in names} | {
    "list": ("tensorlake.dataset", "list_datasets"),
    "open": ("tensorlake.dataset", "open_dataset"),
    "run": ("tensorlake.dataset.runs.places", "open_run"),
    "runs": ("tensorlake.dataset.runs.places", "open_runs"),
}
_MODULES = {
    "collate": "tensorlake.loader.config.collate",
    "datasets": "tensorlake.datasets",
    "decode": "tensorlake.loader.decode",
    "embeddings": "tensorlake.workloads.embeddings",
    "errors": "tensorlake.errors",
    "federated": "tensorlake.workloads.federated",
    "graphs": "tensorlake.workloads.graphs",
    "flows": "tensorlake.workloads.flows",
    "ingest": "tensorlake.ingest",
    "ray": "tensorlake.workloads.ray",
    "testing": "tensorlake.testing",
    "trajectories": "tensorlake.workloads.trajectories",
}

__all__ = [
    "Array",
    "Audio",
    "BBox",
    "BBox3D",
    "BinaryMask",
    "Bool",
    "Bytes",
    "CheckReport",
    "ClassLabel",
    "CollectionReport",
    "Commit",
    "CopyReport",
    "Dataset",
    "Dicom",
    "Diff",
    "Embedding",
    "ExpiryReport",
    "File",
    "ForgetReport",
    "Group",
    "Image",
    "IngestReport",
    "InstanceMask",
    "Json",
    "Keypoints",
    "Link",
    "LintFinding",
    "LintReport",
    "LintRule",
    "LoaderMetrics",
    "MapReport",
    "MergeConflict",
    "MergeReport",
    "Mesh",
    "Mix",
    "Nifti",
    "OptimizeReport",
    "PointCloud",
    "Polygon",
    "Predicate",
    "Ragged",
    "RefreshReport",
    "Row",
    "Run",
    "Runs",
    "Scalar",
    "SegmentMask",
    "Sequence",
    "SkippedItem",
    "Struct",
    "Suspect",
    "Tags",
    "Tensor",
    "Text",
    "Timestamp",
    "Updated",
    "Upserted",
    "Uuid",
    "ValidationReport",
    "Video",
    "View",
    "collate",
    "concat",
    "copy",
    "create",
    "datasets",
    "decode",
    "delete",
    "embeddings",
    "errors",
    "exists",
    "federated",
    "find_duplicates",
    "find_label_issues",
    "flows",
    "fork",
    "graphs",
    "infer",
    "infer_schema",
    "ingest",
    "loader_from_state",
    "mix",
    "ray",
    "run",
    "runs",
    "set_link_credentials",
    "trajectories",
    "udf",
]
# Not "list" and "open": a star import would replace the builtins.
__all__ += [name for name in _error_names if name.endswith(("Error", "Warning"))]

_NEIGHBOURS = {
    **dict.fromkeys(
        ("load", "load_dataset", "connect", "dataset"), "datasets open by tl.open(url)"
    ),
    **dict.fromkeys(
        ("empty", "new", "create_dataset"), "datasets are made by tl.create(url, schema)"
    ),
    **dict.fromkeys(("remove", "rm", "drop"), "datasets go by tl.delete(url, confirm=url)"),
    **dict.fromkeys(
        ("concatenate", "concatenate_datasets", "ConcatDataset", "cat"),
        "views of one version are joined by tl.concat([first, second]), others streamed by tl.mix",
    ),
}
"""Names from other libraries, and the equivalent here."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in _PLACES:
        home, attribute = _PLACES[name]
        value = getattr(import_module(home), attribute)
    elif name in _MODULES:
        value = import_module(_MODULES[name])
    else:
        raise no_such_name("module 'tensorlake'", name, __dir__(), _NEIGHBOURS)
    globals()[name] = value
    return value


def __dir__() -> Any:
    return sorted({*__all__, *_PLACES, *_MODULES, "__doc__", "__file__", "__name__", "__version__"})
