"""Areas of polygons and of what two share: those of clipping in exact fractions."""

import math
from fractions import Fraction

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tensorlake_query import ColumnType, ObjectBatch, compile_query
from tests.unit.query.array_source import ArraySource, samples

POLYGON = ColumnType("number", "float64", (None, 2))
points = st.tuples(st.integers(-20, 20), st.integers(-20, 20))


@st.composite
def stars(draw):
    """Polygons that do not cross themselves: corners in the order of their angles."""
    angles = {}
    for x, y in draw(st.lists(points, max_size=8)):
        if (x, y) != (0, 0):
            divisor = math.gcd(x, y)
            angles[x // divisor, y // divisor] = (x, y)
    x0, y0 = draw(points)
    corners = sorted(angles.values(), key=lambda point: math.atan2(point[1], point[0]))
    if any(
        a[0] * b[1] - a[1] * b[0] <= 0
        for a, b in zip(corners, corners[1:] + corners[:1], strict=True)
    ):
        corners = corners[:2]  # the centre lies outside: such a one may cross itself
    return [(x + x0, y + y0) for x, y in corners][:: draw(st.sampled_from([1, -1]))]


triangles = st.lists(points, min_size=3, max_size=3)


def area(corners):
    following = corners[1:] + corners[:1]
    return (
        sum(
            (a[0] * b[1] - b[0] * a[1] for a, b in zip(corners, following, strict=True)),
            Fraction(0),
        )
        / 2
    )


def clipped(subject, triangle):
    """Sutherland and Hodgman: a polygon within a convex one, counter-clockwise."""
    if area(triangle) < 0:
        triangle = triangle[::-1]
    for start, stop in zip(triangle, triangle[1:] + triangle[:1], strict=True):

        def side(point, start=start, stop=stop):
            return (stop[0] - start[0]) * (point[1] - start[1]) - (stop[1] - start[1]) * (
                point[0] - start[0]
            )

        kept = []
        for a, b in zip(subject, subject[1:] + subject[:1], strict=True):
            if side(a) >= 0:
                kept.append(a)
            if side(a) * side(b) < 0:
                t = Fraction(side(a)) / (side(a) - side(b))
                kept.append((a[0] + t * (b[0] - a[0]), a[1] + t * (b[1] - a[1])))
        subject = kept
    return subject


def answered(text, source):
    return samples(compile_query(f"SELECT {text} AS x", source.schema).run(source).columns["x"])


def is_near(found, exact):
    return math.isclose(found, float(exact), rel_tol=1e-9, abs_tol=1e-9)


@given(st.lists(st.tuples(stars(), triangles), min_size=1, max_size=4), st.sampled_from([0, 10**6]))
@example([([(0, 0), (4, 0), (4, 4), (0, 4)], [(4, 0), (8, 0), (8, 8)])], 0)  # they touch
@example([([], [(0, 0), (1, 0), (0, 1)])], 0)
@example([([(0, 0), (4, 0)], [(0, 0), (4, 0), (2, 0)])], 0)
def test_shared_areas_are_those_of_clipping(pairs, far):
    def array(corners):
        return np.array(corners, float).reshape(-1, 2) + far

    source = ArraySource(
        {
            "a": (POLYGON, [array(star) for star, _ in pairs]),
            "b": (POLYGON, [array(triangle) for _, triangle in pairs]),
        }
    )

    for found, (star, _) in zip(answered("AREA(a)", source), pairs, strict=True):
        assert is_near(found, abs(area(star)))
    for text in ("INTERSECTION(a, b)", "INTERSECTION(b, a)"):
        for found, (star, triangle) in zip(answered(text, source), pairs, strict=True):
            exact = 0 if area(triangle) == 0 else abs(area(clipped(star, triangle)))
            assert is_near(found, exact)
            assert (found == 0) == (exact == 0)


class Outlines:
    """A column of several polygons a row, NULL in the last."""

    schema = {  # noqa: RUF012 of one test
        "p": ColumnType("bytes", None, (), nullable=True, has_polygons=True)
    }

    def __init__(self, rows):
        self.rows = [[np.array(one, np.float32).reshape(-1, 2) for one in row] for row in rows]
        self.num_rows = len(rows) + 1

    def read(self, column, rows):
        return ObjectBatch([self.rows[row] if row < len(self.rows) else None for row in rows])

    def shapes(self, column, rows):
        raise AssertionError("it has none")

    def statistics(self, column):
        return None


@given(st.lists(st.lists(triangles, max_size=3), min_size=1, max_size=3))
def test_each_polygon_of_a_column_meets_each_other(rows):
    source = Outlines(rows)

    *areas, null = answered("AREA(p)", source)
    *shared, null_pair = answered("INTERSECTION(p, p)", source)

    assert (null, null_pair) == (None, None)
    for row, own, pairs in zip(rows, areas, shared, strict=True):
        assert np.shape(own) == (len(row),)
        assert all(is_near(one, abs(area(each))) for one, each in zip(own, row, strict=True))
        for i, a in enumerate(row):
            for j, b in enumerate(row):
                exact = 0 if area(b) == 0 else abs(area(clipped(a, b)))
                assert is_near(np.asarray(pairs)[i, j], exact)


@given(
    st.lists(st.lists(stars(), max_size=3), min_size=1, max_size=3),
    st.lists(points, min_size=1, max_size=3),
)
def test_a_column_of_polygons_contains_points_as_each_of_them_does(rows, places):
    source = Outlines(rows)
    one = ArraySource(
        {"a": (POLYGON, [np.array(each, float).reshape(-1, 2) for row in rows for each in row])}
    )
    where = str([list(place) for place in places])

    *found, null = answered(f"POLYGON_CONTAINS(p, {where})", source)

    expected = answered(f"POLYGON_CONTAINS(a, {where})", one) if one.num_rows else []
    assert null is None
    assert [len(each) for each in found] == [len(row) for row in rows]
    flat = [each.tolist() for row in found for each in np.asarray(row)]
    assert flat == [np.asarray(each).tolist() for each in expected]
