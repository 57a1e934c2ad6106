"""A query never computes with the stored bytes of media: it answers rightly or refuses.

Video, Audio, PointCloud, Mesh, Nifti and Dicom are read as handles, so their values are unknown to
a query. Image and tiled Array are decoded for it, and are an oracle of what stays right.
"""

from contextlib import suppress

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import QueryTypeError, TensorlakeError
from tests.support.clouds import scan
from tests.support.dicoms import series_bytes
from tests.support.meshes import mesh_file
from tests.support.sounds import sound_file
from tests.support.videos import video_file

TYPES = {
    "video": tl.Video(nullable=True),
    "audio": tl.Audio(nullable=True),
    "points": tl.PointCloud(nullable=True),
    "mesh": tl.Mesh(nullable=True),
    "nifti": tl.Nifti("int16", nullable=True),
    "dicom": tl.Dicom(nullable=True),
}
DECODED = {
    "tiled": tl.Array("uint16", (None, None), tiles=(64, 64), nullable=True),
    "image": tl.Image("png", nullable=True),
}
CLIPS = tl.Sequence(tl.Video(), nullable=True)

QUERIES = """
    SELECT ARRAY_MAX({x}) AS z
    SELECT ARRAY_SUM({x}) AS z
    SELECT {x} + 1 AS z
    SELECT ARRAY_MEAN({x}, axis => 0) AS z
    SELECT SUM({x}, axis => 0) AS z
    SELECT -{x} AS z
    SELECT {x}[0] AS z
    SELECT {x}[0, 0, 0] AS z
    SELECT {x}[0:3] AS z
    SELECT {x}[0] AS z WHERE {x} IS NOT NULL
    WHERE ANY({x} = 3)
    WHERE ALL({x} > 3)
    WHERE {x}
    WHERE {x} = 3
    WHERE {x} IN (1, 2)
    WHERE {x} BETWEEN 1 AND 2
    WHERE {x} LIKE 'a'
    WHERE NOT {x}
    WHERE k IN (SELECT {x})
    SELECT (SELECT {x} LIMIT 1) AS z
    ORDER BY {x}
    ORDER BY ARRAY_MAX({x})
    SELECT k GROUP BY {x}
    SELECT {x} GROUP BY k
    SELECT * GROUP BY k
    SELECT * UNGROUP BY {x}
    SELECT DISTINCT {x}
    SELECT DISTINCT ON ({x}) k
    SELECT COUNT(DISTINCT {x}) AS z
    SELECT MIN({x}) AS z
    SELECT FIRST({x}) AS z
    SELECT ARRAY_AGG({x}) AS z
    SELECT {x} ARRANGE BY {x}
    SELECT LAG({x}) OVER (ORDER BY k) AS z
    SELECT SUM(k) OVER (PARTITION BY {x}) AS z
    SELECT CASE WHEN k = 0 THEN {x} ELSE {x} END AS z
    SELECT CAST({x} AS TEXT) AS z
    SELECT COALESCE({x}, {x}) AS z
    SELECT DATA({x}, 0) AS z
    SELECT IOU({x}, {x}) AS z
    SELECT L2_NORM({x}) AS z
    SELECT {x} AS z
    SELECT z FROM (SELECT {x} AS z)
    WITH t AS (SELECT {x} FROM this) SELECT ARRAY_MAX({x}) AS z FROM t
    SELECT {x} UNION ALL SELECT {x}
    SELECT {x} INTERSECT SELECT {x}
    SELECT a.k FROM this AS a JOIN this AS b ON a.{x} = b.{x}
    SELECT k FROM this AS a JOIN this AS b USING ({x})
    SELECT b.{x} FROM this AS a JOIN this AS b ON a.k = b.k
    SELECT * FROM this AS a LEFT JOIN this AS b ON a.k = b.k
    SELECT k SAMPLE BY MAX_WEIGHT({x} = 1: 2, true: 1) LIMIT 3
""".strip().splitlines()


@pytest.fixture(scope="module")
def ds():
    """Three rows, and one of NULLs."""
    made = tl.create("memory://media-columns", {**TYPES, **DECODED, "clips": CLIPS, "k": "int64"})
    for n in range(3):
        made.append(
            {
                "video": video_file("h264", 6),
                "audio": sound_file("WAV", "PCM_16", seconds=0.1),
                "points": scan(50),
                "mesh": mesh_file("glb"),
                "nifti": {"voxels": np.full((4 + n, 5, 6), n, np.int16), "affine": np.eye(4)},
                "dicom": series_bytes(np.ones((3, 8, 8), np.uint16)),
                "tiled": np.full((100, 90 + n), n, np.uint16),
                "image": np.full((4, 5, 3), n, np.uint8),
                "clips": [video_file("h264", 6)] * n,
                "k": n % 2,
            }
        )
    made.append({**dict.fromkeys((*TYPES, *DECODED, "clips")), "k": 1})
    made.commit("media")
    return made


def answer(ds, query):
    return [row["z"] for row in ds.query(query)]


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", TYPES)
def test_no_value_is_computed_from_stored_bytes(ds, name, query):
    with pytest.raises(QueryTypeError) as refused:
        ds.query(query.strip().format(x=name))

    assert f"is {TYPES[name].describe()}" in str(refused.value) or "*" in query
    assert "SHAPE(" in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("name", [*DECODED, "clips"])
def test_what_is_decoded_is_answered_or_refused_by_an_error_of_its_own(ds, name, query):
    with suppress(TensorlakeError):
        list(ds.select(name, "k").query(query.strip().format(x=name)))


@pytest.mark.parametrize("name", TYPES)
def test_what_is_known_without_decoding_is_answered(ds, name):
    shapes = [row[name].shape for row in ds if row[name] is not None]

    assert [tuple(z) for z in answer(ds, f"SELECT SHAPE({name}) AS z")[:3]] == shapes
    assert answer(ds, f"SELECT NDIM({name}) AS z")[0] == len(shapes[0])
    assert answer(ds, f"SELECT SIZE({name}) AS z") == [*map(np.prod, shapes), None]
    assert answer(ds, f"SELECT LENGTH({name}) AS z") == [*(shape[0] for shape in shapes), None]
    assert answer(ds, f"SELECT INFO({name}) AS z")[0].keys() == {"shape", "dtype"}
    assert answer(ds, f"SELECT DTYPE({name}) AS z")[0]
    assert answer(ds, f"SELECT {name} IS NULL AS z") == [False, False, False, True]
    assert answer(ds, f"SELECT COUNT({name}) AS z") == [3]
    assert answer(ds, f"SELECT COUNT({name}) AS z GROUP BY k HAVING COUNT({name}) > 1") == [2]
    assert answer(ds, f"SELECT COUNT({name}) OVER () AS z") == [3] * 4
    assert answer(ds, f"SELECT EXISTS (SELECT {name}) AS z") == [True] * 4


@pytest.mark.parametrize(
    "query",
    [
        "SELECT {x}",
        "SELECT {x} AS {x}, k + 1 AS z ORDER BY SHAPE({x})[0] LIMIT 1",
        "SELECT * WHERE k = 0 UNION SELECT * WHERE k = 1",
        "SELECT a.{x} FROM this AS a JOIN this AS b ON a.k = b.k",
        "WITH t AS (SELECT {x}, k FROM this) SELECT {x} FROM t",
        "SELECT {x} EXPAND BY 1 1",
    ],
)
@pytest.mark.parametrize("name", TYPES)
def test_the_tensor_itself_is_selected_as_handles(ds, name, query):
    sample = ds.query(query.strip().format(x=name))[0][name]

    assert type(sample) is type(ds[0][name])


def test_decoded_media_are_computed_with(ds):
    for name in DECODED:
        assert answer(ds, f"SELECT ARRAY_MAX({name}) AS z") == [0, 1, 2, None]
        assert len(ds.query(f"WHERE ANY({name} = 2)")) == 1


@pytest.mark.parametrize("name", TYPES)
def test_no_condition_of_a_change_or_a_method_reads_stored_bytes(ds, name):
    calls = [
        lambda: ds.execute(f"DELETE FROM this WHERE ANY({name} = 3)"),
        lambda: ds.execute(f"UPDATE this SET k = 1 WHERE ANY({name} = 3)"),
        lambda: ds.execute(f"UPDATE this SET k = ARRAY_MAX({name})"),
        lambda: ds.where(f"ANY({name} > 3)"),
        lambda: ds.order_by(name),
        lambda: ds.unnest(name),
        lambda: ds.select(z=f"ARRAY_MAX({name})"),
        lambda: ds.select(z=name),
    ]
    for call in calls:
        with pytest.raises(QueryTypeError, match=r"does not decode its samples"):
            call()

    assert not ds.has_changes
