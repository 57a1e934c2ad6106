"""Points of a map: principal components as NumPy's SVD finds them, in bounded parts."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorlake as tl
from tensorlake.dataset import QueryLimits
from tensorlake.errors import QueryLimitError
from tensorlake_server import Settings
from tensorlake_server.stats import projection
from tensorlake_server.stats.projection import morton_order, principal_axes, project

ROWS, DIM = 300, 40
MAP = "/v1/datasets/cloud/projection"


@pytest.fixture
def vectors() -> np.ndarray:
    """Three clusters, of which the first two axes hold most of the variance."""
    random = np.random.default_rng(3)
    centers = random.normal(0, 8, (3, DIM))
    return (centers[np.arange(ROWS) % 3] + random.normal(0, 1, (ROWS, DIM))).astype(np.float32)


@pytest.fixture
def served(tmp_path: Path, settings: Settings, vectors: np.ndarray) -> Settings:
    cloud = tl.create(
        str(tmp_path / "cloud"),
        {
            "vector": tl.Embedding(DIM, metric="l2", nullable=True),
            "cosine": tl.Embedding(DIM),
            "half": tl.Embedding(DIM, metric="l2", dtype="bfloat16"),
            "plane": tl.Array("float64", (2,)),
            "label": tl.ClassLabel(["a", "b", "c"], nullable=True),
            "score": tl.Scalar("float32", nullable=True),
            "ragged": tl.Array("float32", (None,)),
            "text": tl.Text(),
        },
        durability="none",
    )
    given: list[Any] = [*vectors]
    given[7] = None
    given[8] = np.full(DIM, np.nan, dtype=np.float32)
    cloud.extend(
        {
            "vector": given,
            "cosine": vectors * np.arange(1, ROWS + 1, dtype=np.float32)[:, None],
            "half": vectors,
            "plane": vectors[:, :2].astype(np.float64),
            "label": [None if row == 5 else row % 3 for row in range(ROWS)],
            "score": [None if row == 5 else row / ROWS for row in range(ROWS)],
            "ragged": [[1.0]] * ROWS,
            "text": ["x"] * ROWS,
        }
    )
    cloud.commit("a cloud")
    return replace(settings, url=str(tmp_path))


@pytest.fixture
def client(served: Settings, connect: Callable[..., httpx.Client]) -> httpx.Client:
    return connect(served, token=served.token)


def arrays_of(answer: httpx.Response) -> dict[str, np.ndarray]:
    assert answer.status_code == 200, answer.text
    with np.load(io.BytesIO(answer.content), allow_pickle=False) as arrays:
        return dict(arrays)


def expected_xy(vectors: np.ndarray) -> np.ndarray:
    """Return the first two components by a full SVD, in float64."""
    centered = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    return centered @ np.linalg.svd(centered, full_matrices=False)[2][:2].T


def assert_same_map(xy: np.ndarray, expected: np.ndarray) -> None:
    """Compare up to the sign of each axis."""
    for axis in range(2):
        sign = np.sign(xy[:, axis] @ expected[:, axis])
        np.testing.assert_allclose(
            xy[:, axis] * sign, expected[:, axis], atol=0.02 * np.abs(expected).max()
        )


def test_points_are_the_principal_components_of_rows_that_have_a_vector(
    client: httpx.Client, vectors: np.ndarray
) -> None:
    points = arrays_of(client.get(f"{MAP}/vector", params={"color": "label"}))

    kept = np.array([row for row in range(ROWS) if row not in (7, 8)])
    assert sorted(points["row"].tolist()) == kept.tolist()
    assert points["projected"].tolist() == [ROWS]
    order = np.argsort(points["row"])
    assert_same_map(points["xy"][order], expected_xy(vectors[kept]))
    assert points["color"].tolist() == [-1 if row == 5 else row % 3 for row in points["row"]]


def test_numbers_color_points_too_and_null_is_nan(client: httpx.Client) -> None:
    points = arrays_of(client.get(f"{MAP}/vector", params={"color": "score"}))

    scores = np.where(points["row"] == 5, np.nan, points["row"] / ROWS).astype(np.float32)
    np.testing.assert_array_equal(points["color"], scores)


def test_cosine_vectors_are_compared_by_direction_and_half_floats_are_read(
    client: httpx.Client, vectors: np.ndarray
) -> None:
    cosine = arrays_of(client.get(f"{MAP}/cosine"))
    half = arrays_of(client.get(f"{MAP}/half"))

    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert_same_map(cosine["xy"][np.argsort(cosine["row"])], expected_xy(units))
    assert_same_map(half["xy"][np.argsort(half["row"])], expected_xy(vectors))


def test_two_numbers_are_a_map_already(client: httpx.Client, vectors: np.ndarray) -> None:
    points = arrays_of(client.get(f"{MAP}/plane"))

    np.testing.assert_array_equal(points["xy"], vectors[points["row"], :2])


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("ragged", 400, "vectors of one length"),
        ("text", 400, "vectors of one length"),
        ("score", 400, "vectors of one length"),
        ("vectro", 404, "no tensor 'vectro'"),
        ("vector?color=text", 400, "cannot be coloured by 'text'"),
        ("vector?color=nothing", 404, "no tensor 'nothing'"),
    ],
)
def test_what_is_not_a_map_is_refused(
    client: httpx.Client, path: str, status: int, told: str
) -> None:
    answer = client.get(f"{MAP}/{path}")

    assert answer.status_code == status
    assert told in answer.json()["detail"]


def test_a_version_is_projected_once_and_cached_for_good(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.get(f"{MAP}/vector", params={"version": "main@1"})
    monkeypatch.setattr(projection, "principal_axes", None)  # it would fail
    again = client.get(f"{MAP}/vector", params={"version": "main@1", "color": "label"})
    known = {"If-None-Match": first.headers["ETag"]}

    assert again.status_code == 200
    assert "immutable" in first.headers["Cache-Control"]
    assert client.get(f"{MAP}/vector", headers=known).status_code == 304


def test_rows_beyond_the_bound_are_left_out_evenly(
    served: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "MAX_POINTS", 128)

    points = project(tl.open(f"{served.url}/cloud"), "half", QueryLimits())

    assert points.projected == 128
    assert len(points.rows) == 128
    assert points.rows.min() < 5
    assert points.rows.max() > ROWS - 10


def test_a_projection_ends_when_its_time_is_over_or_nobody_waits(served: Settings) -> None:
    cloud = tl.open(f"{served.url}/cloud")

    with pytest.raises(QueryLimitError, match="not read within"):
        project(cloud, "half", QueryLimits(timeout_s=1e-9))
    with pytest.raises(QueryLimitError, match="cancelled by client"):
        project(cloud, "half", QueryLimits(cancelled=lambda: True))


def test_an_empty_version_has_no_points(tmp_path: Path) -> None:
    empty = tl.create(str(tmp_path / "empty"), {"v": tl.Embedding(8)}, durability="none")

    assert project(empty, "v", QueryLimits()).xy.shape == (0, 2)


@given(st.integers(1, 60), st.integers(2, 30), st.integers(0, 2**32 - 1))
def test_axes_hold_the_variance_that_the_best_two_can(rows: int, dim: int, seed: int) -> None:
    sample = np.random.default_rng(seed).standard_normal((rows, dim)).astype(np.float32)

    axes, center = principal_axes(sample)

    centered = (sample - center).astype(np.float64)
    best = (np.linalg.svd(centered, compute_uv=False)[:2] ** 2).sum()
    assert ((centered @ axes) ** 2).sum() >= 0.98 * best
    np.testing.assert_allclose(axes.T @ axes, np.eye(2), atol=1e-4)


@given(st.lists(st.tuples(st.integers(0, 65535), st.integers(0, 65535)), min_size=1))
def test_points_are_sorted_by_interleaved_bits(cells: list[tuple[int, int]]) -> None:
    xy = np.array([(0, 0), (65535, 65535), *cells], dtype=np.float32)

    def code(cell: np.ndarray) -> int:
        x, y = cell.astype(int).tolist()
        return sum((x >> bit & 1) << 2 * bit | (y >> bit & 1) << 2 * bit + 1 for bit in range(16))

    codes = [code(one) for one in xy[morton_order(xy)]]
    assert codes == sorted(codes)
