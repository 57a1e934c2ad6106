"""Each item of the language gives what plain Python says, row by row."""

import math

import numpy as np
import pytest

from tests.unit.query.pets import PETS, rows_where, values_of

COUNT = PETS["count"][1]
SCORE = [float(value) for value in PETS["score"][1]]
TINY = np.array(PETS["tiny"][1], np.uint8)


def per_row(function, *columns):
    """Apply a Python function to rows of columns; NULL where any is NULL."""
    data = [PETS[name][1] for name in columns]
    return [None if None in row else function(*row) for row in zip(*data, strict=True)]


def arrays(name):
    kind, data = PETS[name]
    return [None if each is None else np.asarray(each, kind.dtype) for each in data]


def same(given, expected):
    """Compare row by row; NaN equals NaN, floats to float32."""
    assert len(given) == len(expected)
    for row, (a, b) in enumerate(zip(given, expected, strict=True)):
        if a is None or b is None or isinstance(a, str | dict):
            assert a == b, f"row {row}"
        else:
            assert np.shape(a) == np.shape(b), f"row {row}"
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=f"row {row}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-2.5", -2.5),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("'it''s'", "it's"),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("ARRAY[1, 2]", [1, 2]),
        ("[[1, 2], [3, 4]]", [[1, 2], [3, 4]]),
        ("ARRAY[ARRAY[0.5], ARRAY[1]]", [[0.5], [1.0]]),
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("1 / 2", 0.5),
        ("1 - -1", 2),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("'a' || 'b'", "ab"),
        ("1 -- a comment", 1),
        ("1 /* another\n one */ + 1", 2),
        ("true AND null", None),
        ("false AND null", False),
        ("true OR null", True),
        ("false OR null", None),
        ("NOT null", None),
        ("NOT true", False),
        ("1 IN (1, null)", True),
        ("2 IN (1, null)", None),
        ("2 NOT IN (1, null)", None),
        ("null IS NULL", True),
        ("1 IS NOT NULL", True),
        ("1 BETWEEN 1 AND 2", True),
        ("3 NOT BETWEEN 1 AND 2", True),
        ("CASE WHEN false THEN 1 END", None),
        ("CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END", "b"),
        ("COALESCE(null, 3)", 3),
    ],
)
def test_a_constant_expression_has_its_value(text, value):
    # the newline ends a comment before the alias
    assert values_of(f"{text}\n") == [value] * 8


@pytest.mark.parametrize(
    ("text", "function", "columns"),
    [
        ("count + 1", lambda a: a + 1, ["count"]),
        ("-count", lambda a: -a, ["count"]),
        ("+count", lambda a: a, ["count"]),
        ("count * tiny", lambda a, b: a * b, ["count", "tiny"]),
        ("count - 1.5", lambda a: a - 1.5, ["count"]),
        ("count / 2", lambda a: a / 2, ["count"]),
        ("count // 2", lambda a: a // 2, ["count"]),
        ("count % 5", lambda a: a % 5, ["count"]),
        ("count ^ 2", lambda a: float(a**2), ["count"]),
        ("ABS(count)", abs, ["count"]),
        ("EXP(count)", math.exp, ["count"]),
        ("FLOOR(count / 2)", lambda a: math.floor(a / 2), ["count"]),
        ("CEIL(count / 2)", lambda a: math.ceil(a / 2), ["count"]),
        ("ROUND(count / 3, 2)", lambda a: round(a / 3, 2), ["count"]),
        ("ROUND(tiny / 2)", lambda a: round(a / 2), ["tiny"]),
        ("SQRT(tiny)", math.sqrt, ["tiny"]),
        ("LOG(tiny + 1.0)", lambda a: math.log(a + 1), ["tiny"]),
        ("LOWER(caption)", str.lower, ["caption"]),
        ("UPPER(caption)", str.upper, ["caption"]),
        ("LENGTH(caption)", len, ["caption"]),
        ("caption || '!'", lambda a: a + "!", ["caption"]),
        ("LENGTH(blob)", len, ["blob"]),
        ("CAST(count AS TEXT)", str, ["count"]),
        ("CAST(count AS FLOAT)", float, ["count"]),
        ("CAST(ok AS INT)", int, ["ok"]),
        ("CAST(label AS TEXT)", lambda a: ["cat", "dog", "bird"][a], ["label"]),
        ("CAST('12' AS INT) + count", lambda a: 12 + a, ["count"]),
        ("ok + ok", lambda a: 2 * a, ["ok"]),
        ("UPPER(label)", lambda a: ["CAT", "DOG", "BIRD"][a], ["label"]),
    ],
)
def test_a_scalar_expression_is_pythons_row_by_row(text, function, columns):
    same(values_of(text), per_row(function, *columns))


def test_integers_wrap_as_numpys_do():
    assert values_of("tiny + 10") == (TINY + np.uint8(10)).tolist()


def test_a_constant_that_an_integer_cannot_hold_widens_it():
    assert values_of("tiny + 1000") == [int(value) + 1000 for value in TINY]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CAST('x' AS INT)", None),
        ("CAST('1.5' AS FLOAT)", 1.5),
        ("CAST('1.5' AS INT)", 1),
        ("CAST(1e300 AS INT)", None),
        ("CAST(2.9 AS INT8)", 2),
        ("CAST(-2.9 AS INT)", -2),
        ("CAST(300.0 AS UINT8)", None),
        ("CAST(true AS TEXT)", "true"),
        ("CAST(null AS FLOAT)", None),
    ],
)
def test_a_cast_that_does_not_fit_is_null(text, expected):
    assert values_of(text) == [expected] * 8


@pytest.mark.parametrize(
    ("condition", "keep"),
    [
        ("count = 7", lambda r: r["count"] == 7),
        ("count == 7", lambda r: r["count"] == 7),
        ("count != 7", lambda r: r["count"] is not None and r["count"] != 7),
        ("count <> 7", lambda r: r["count"] is not None and r["count"] != 7),
        ("7 < count", lambda r: r["count"] is not None and r["count"] > 7),
        ("count <= 0", lambda r: r["count"] is not None and r["count"] <= 0),
        ("count > 0 AND tiny > 1", lambda r: (r["count"] or 0) > 0 and r["tiny"] > 1),
        ("count > 5 OR tiny > 200", lambda r: (r["count"] or 0) > 5 or r["tiny"] > 200),
        ("NOT count > 5", lambda r: r["count"] is not None and r["count"] <= 5),
        ("count IS NULL", lambda r: r["count"] is None),
        ("count IS NOT NULL", lambda r: r["count"] is not None),
        ("count BETWEEN 0 AND 7", lambda r: r["count"] is not None and 0 <= r["count"] <= 7),
        (
            "count NOT BETWEEN 0 AND 7",
            lambda r: r["count"] is not None and not 0 <= r["count"] <= 7,
        ),
        ("count IN (3, 12, 99)", lambda r: r["count"] in {3, 12, 99}),
        ("count IN ARRAY[3, 12]", lambda r: r["count"] in {3, 12}),
        ("count NOT IN (3, 12)", lambda r: r["count"] is not None and r["count"] not in {3, 12}),
        ("count IN (tiny, 3)", lambda r: r["count"] in {r["tiny"], 3}),
        ("count IN (3, null)", lambda r: r["count"] == 3),
        ("count NOT IN (3, null)", lambda _: False),
        ("tiny = 300", lambda _: False),
        ("tiny < 300", lambda _: True),
        ("tiny > -1", lambda _: True),
        ("score = 0.05", lambda r: r["score"] == np.float32(0.05)),
        ("score IN (0.05, 0.5)", lambda r: r["score"] in {np.float32(0.05), 0.5}),
        ("score != 0.5", lambda r: r["score"] != 0.5),
        ("NOT score < 0.5", lambda r: not r["score"] < 0.5),
        ("score > 0.5", lambda r: r["score"] > 0.5),
        ("ok", lambda r: bool(r["ok"])),
        ("NOT ok", lambda r: r["ok"] == 0),
        ("ok = true", lambda r: bool(r["ok"])),
        ("tiny", lambda r: r["tiny"] != 0),
        ("label % 2", lambda r: r["label"] == 1),
        ("true", lambda _: True),
        ("false", lambda _: False),
        ("1 = 2 OR count = 3", lambda r: r["count"] == 3),
        ("caption = 'a cat'", lambda r: r["caption"] == "a cat"),
        ("caption > 'b'", lambda r: r["caption"] is not None and r["caption"] > "b"),
        ("caption IN ('', 'a cat')", lambda r: r["caption"] in {"", "a cat"}),
        ("blob = blob", lambda r: r["blob"] is not None),
        ("ROW_NUMBER() < 3 OR ROW_NUMBER() = 7", lambda r: r["row"] in {0, 1, 2, 7}),
        ("CASE WHEN ok THEN tiny > 200 ELSE count = 12 END",
         lambda r: r["tiny"] > 200 if r["ok"] else r["count"] == 12),
        ("COALESCE(count, 0) = 0", lambda r: not r["count"]),
    ],
)  # fmt: skip
def test_a_condition_keeps_the_rows_where_it_is_true(condition, keep):
    names = list(PETS)
    rows = [
        {"row": row, **dict(zip(names, values, strict=True))}
        for row, values in enumerate(zip(*(PETS[name][1] for name in names), strict=True))
    ]

    assert rows_where(condition) == [row["row"] for row in rows if keep(row)]


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("label = 'cat'", [0, 3, 5]),
        ("'cat' = label", [0, 3, 5]),
        ("label != 'cat'", [1, 2, 4, 6, 7]),
        ("label IN ('cat', 'bird')", [0, 2, 3, 5, 6]),
        ("label NOT IN ('cat', 'bird')", [1, 4, 7]),
        ("label = 1", [1, 4, 7]),
        ("label < 1", [0, 3, 5]),
        ("label = guess", [0, 1, 4, 5, 7]),
        ("label != guess", [2, 3, 6]),
        ("label LIKE '%d%'", [1, 2, 4, 6, 7]),
        ("label = LOWER('CAT')", [0, 3, 5]),
        ("label = caption", []),
        ("CONTAINS(labels, 'car')", [1, 3, 4]),
        ("CONTAINS(label, 'dog')", [1, 4, 7]),
        ("CASE WHEN ok THEN label ELSE guess END = 'cat'", [0, 3, 5, 6]),
        ("ANY(labels = 'cat')", [0, 3, 6]),
        ("ALL(labels = 'cat')", [0, 2, 7]),
        ("labels[0] = 'cat'", [0, 3, 6]),
        ("labels[-1] != 'car'", [0, 5, 6]),
        ("NOT CONTAINS(labels, 0)", [1, 2, 4, 5, 7]),
        ("CASE WHEN tiny > 100 THEN label = 'cat' ELSE label = 'dog' END", [3, 4, 7]),
    ],
)
def test_labels_are_compared_by_name_and_by_code(condition, rows):
    assert rows_where(condition) == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("caption LIKE 'a%'", [0, 6]),
        ("caption LIKE '%cat%'", [0, 3]),
        ("caption LIKE '%cat'", [0]),
        ("caption LIKE 'a_cat'", [0]),
        ("caption LIKE 'cat_nap'", [3]),
        ("caption LIKE 'cat\\_nap'", [3]),
        ("caption LIKE '%50\\%'", [1]),
        ("caption LIKE '%'", [0, 1, 3, 4, 5, 6, 7]),
        ("caption LIKE ''", [4]),
        ("caption LIKE 'a_b'", [6]),
        ("caption NOT LIKE '%a%'", [1, 4, 5, 7]),
        ("caption ILIKE 'DOG%'", [1]),
        ("caption ILIKE '%ünÏ%'", [7]),
        ("caption LIKE 'a%t%t'", []),
        ("caption LIKE $p", [0, 6]),
        ("CONTAINS(caption, 'cat')", [0, 3]),
        ("CONTAINS(caption, caption)", [0, 1, 3, 4, 5, 6, 7]),
    ],
)
def test_text_is_searched(condition, rows):
    params = {"p": "a%"} if "$p" in condition else {}

    assert rows_where(condition, **params) == rows


@pytest.mark.parametrize(
    ("condition", "rows"),
    [
        ("meta['iso'] = 100", [0]),
        ("meta['iso'] > 100", [1]),
        ("meta['iso'] = 'high'", [3]),
        ("meta['iso'] IS NULL", [2, 4, 5, 6, 7]),
        ("meta['cam']['name'] = 'x2'", [1]),
        ("meta['cam']['name'] IN ('x1', 'x2')", [0, 1]),
        ("meta['cam']['tags'][0] = 'a'", [0]),
        ("meta['cam', 'name'] = 'x1'", [0]),
        ("meta[-1] = 3", [5]),
        ("meta['day']", [3]),
        ("meta['day'] = true", [3]),
        ("CONTAINS(meta['cam']['tags'], 'b')", [0]),
        ("CONTAINS(meta, 'ex')", [7]),
        ("CONTAINS(meta, 2)", [5]),
        ("meta['iso'] = meta['iso']", [0, 1, 3]),
        ("LENGTH(meta) = 3", [5]),
        ("CAST(meta['iso'] AS TEXT) = '200.5'", [1]),
        ("CAST(meta['iso'] AS INT) = 200", [1]),
        ("meta['iso'] + 1 = 101", [0]),
        ("UPPER(meta['iso']) = 'HIGH'", [3]),
        ("COALESCE(meta['iso'], 0) = 0", [2, 3, 4, 5, 6, 7]),
        ("COALESCE(meta['iso'], 'none') = 'high'", [3]),
        ("CASE WHEN tiny = 0 THEN meta['iso'] ELSE tiny END = 100", [0, 7]),
    ],
)
def test_json_members_are_read_and_a_missing_one_is_null(condition, rows):
    assert rows_where(condition) == rows


def test_json_members_come_back_as_they_are():
    assert values_of("meta['cam']") == [
        {"name": "x1", "tags": ["a", "b"]}, {"name": "x2", "tags": []}, None, None,
        "none", None, None, None,
    ]  # fmt: skip


INDEXES = [
    ("matrix[0]", np.s_[0]),
    ("matrix[-1]", np.s_[-1]),
    ("matrix[1, 2]", np.s_[1, 2]),
    ("matrix[1][2]", np.s_[1, 2]),
    ("matrix[:, 1]", np.s_[:, 1]),
    ("matrix[..., 0]", np.s_[..., 0]),
    ("matrix[0, ...]", np.s_[0, ...]),
    ("matrix[::2]", np.s_[::2]),
    ("matrix[::-1, ::-1]", np.s_[::-1, ::-1]),
    ("matrix[1:, :-1]", np.s_[1:, :-1]),
    ("matrix[5:]", np.s_[5:]),
    ("matrix[:, 5:1:-1]", np.s_[:, 5:1:-1]),
    ("matrix[:, -2:]", np.s_[:, -2:]),
    ("matrix[...]", np.s_[...]),
    ("boxes[:, 2]", np.s_[:, 2]),
    ("boxes[..., 1:3]", np.s_[..., 1:3]),
    ("boxes[::-1]", np.s_[::-1]),
    ("boxes[:2, ::2]", np.s_[:2, ::2]),
    ("boxes[-2:, -1]", np.s_[-2:, -1]),
    ("boxes[1:-1]", np.s_[1:-1]),
    ("boxes[9:0:-2]", np.s_[9:0:-2]),
    ("image[1:3, ..., 0]", np.s_[1:3, ..., 0]),
    ("image[::-1, ::2, -1]", np.s_[::-1, ::2, -1]),
    ("image[-3:-1, :2]", np.s_[-3:-1, :2]),
    ("ragged[:, :1]", np.s_[:, :1]),
    ("ragged[::-1, ::-1]", np.s_[::-1, ::-1]),
    ("ragged[:, -1:0:-1]", np.s_[:, -1:0:-1]),
]


@pytest.mark.parametrize(("text", "index"), INDEXES)
def test_an_index_is_numpys(text, index):
    name = text.split("[", maxsplit=1)[0]

    expected = [None if each is None else each[index].tolist() for each in arrays(name)]

    assert values_of(text) == expected


def element(array, *at):
    """Return an element, or None where a row has none."""
    try:
        return array[at].tolist()
    except IndexError:
        return None


@pytest.mark.parametrize(
    ("text", "at"), [("boxes[0]", (0,)), ("boxes[-2, 1]", (-2, 1)), ("ragged[0, 1]", (0, 1))]
)
def test_an_element_that_a_ragged_row_lacks_is_null(text, at):
    name = text.split("[", maxsplit=1)[0]

    assert values_of(text) == [None if a is None else element(a, *at) for a in arrays(name)]


def test_an_index_may_be_computed():
    rows = list(zip(arrays("matrix"), arrays("boxes"), PETS["label"][1], strict=True))

    assert values_of("matrix[0, label]") == [m[0, i].tolist() for m, _, i in rows]
    assert values_of("boxes[label:, 0]") == [b[i:, 0].tolist() for _, b, i in rows]
    assert values_of("matrix[:, -label - 1]") == [m[:, -i - 1].tolist() for m, _, i in rows]


@pytest.mark.parametrize(
    ("text", "function", "name"),
    [
        ("boxes[:, 2] - boxes[:, 0]", lambda b: b[:, 2] - b[:, 0], "boxes"),
        ("boxes + ARRAY[1, 2, 3, 4]", lambda b: b + np.array([1, 2, 3, 4]), "boxes"),
        ("boxes * 2", lambda b: b * 2, "boxes"),
        ("boxes + boxes[:, :1]", lambda b: b + b[:, :1], "boxes"),
        ("matrix + matrix[0]", lambda m: m + m[0], "matrix"),
        ("boxes > 5", lambda b: b > 5, "boxes"),
        ("boxes > 5 AND boxes < 20", lambda b: (b > 5) & (b < 20), "boxes"),
        ("NOT boxes > 5", lambda b: b <= 5, "boxes"),
        ("SHAPE(boxes)", lambda b: b.shape, "boxes"),
        ("SHAPE(image)[0]", lambda i: i.shape[0], "image"),
        ("SHAPE(ragged)", lambda r: r.shape, "ragged"),
        ("SHAPE(matrix)", lambda m: m.shape, "matrix"),
        ("SHAPE(boxes[:, 0])[0]", lambda b: b.shape[0], "boxes"),
        ("NDIM(image)", lambda i: i.ndim, "image"),
        ("SIZE(image)", lambda i: i.size, "image"),
        ("SIZE(boxes * 2)", lambda b: b.size, "boxes"),
        ("LENGTH(boxes)", len, "boxes"),
        ("ANY(boxes > 20)", lambda b: bool((b > 20).any()), "boxes"),
        ("ALL(boxes >= 0)", lambda b: bool((b >= 0).all()), "boxes"),
        ("ANY(boxes > 5, axis => 1)", lambda b: (b > 5).any(axis=1), "boxes"),
        ("ALL(boxes > 0, axis => 0)", lambda b: (b > 0).all(axis=0), "boxes"),
        ("ARRAY_SUM(boxes)", lambda b: b.sum(), "boxes"),
        ("ARRAY_SUM(boxes, axis => 0)", lambda b: b.sum(axis=0), "boxes"),
        ("ARRAY_SUM(boxes, axis => -1)", lambda b: b.sum(axis=-1), "boxes"),
        ("ARRAY_SUM(boxes, axis=1)", lambda b: b.sum(axis=1), "boxes"),
        ("ARRAY_SUM(boxes > 5)", lambda b: (b > 5).sum(), "boxes"),
        ("ARRAY_SUM(image)", lambda i: i.sum(), "image"),
        ("ARRAY_SUM(ragged, axis => 0)", lambda r: r.sum(axis=0), "ragged"),
        ("ARRAY_MEAN(image)", lambda i: i.mean(), "image"),
        ("ARRAY_MEAN(matrix, axis => 1)", lambda m: m.mean(axis=1), "matrix"),
        ("ARRAY_MAX(matrix)", lambda m: m.max(), "matrix"),
        ("ARRAY_MAX(matrix[5:])", lambda _: None, "matrix"),
        ("ARRAY_SUM(matrix[5:], axis => 0)", lambda _: [0, 0, 0], "matrix"),
        ("ANY(matrix[5:] > 0)", lambda _: False, "matrix"),
        ("ARRAY_MIN(image, axis => 2)", lambda i: i.min(axis=2), "image"),
        ("ARRAY_MAX(boxes)", lambda b: b.max() if b.size else None, "boxes"),
        ("ARRAY_MEAN(ragged)", lambda r: r.mean() if r.size else None, "ragged"),
        ("ABS(matrix)", np.abs, "matrix"),
        ("CAST(boxes AS INT)", lambda b: b.astype(np.int64), "boxes"),
        ("L2_NORM(vector)", np.linalg.norm, "vector"),
        ("L2_NORM(boxes)", lambda b: np.linalg.norm(b, axis=1), "boxes"),
        ("DOT(vector, ARRAY[1, 2, 3])", lambda v: v @ [1, 2, 3], "vector"),
        ("DOT(boxes, ARRAY[1, 0, 0, 2])", lambda b: b @ [1, 0, 0, 2], "boxes"),
        ("DOT(ragged, ragged)", lambda r: (r * r).sum(axis=-1), "ragged"),
        ("AREA(boxes)", lambda b: np.prod(np.maximum(b[:, 2:] - b[:, :2], 0), axis=1), "boxes"),
    ],
)
def test_an_array_expression_is_numpys_row_by_row(text, function, name):
    expected = [None if each is None else function(each) for each in arrays(name)]
    if text.startswith("COALESCE"):
        expected = [[9, 9, 9] if each is None else each for each in expected]

    same(
        values_of(text), [None if each is None else np.asarray(each).tolist() for each in expected]
    )


def test_coalesce_fills_null_arrays():
    expected = [[9, 9, 9] if each is None else each.tolist() for each in arrays("vector")]

    assert values_of("COALESCE(vector, ARRAY[9, 9, 9])") == expected


def test_cosine_with_a_zero_vector_is_null():
    def cosine(v):
        norm = np.linalg.norm(v) * np.sqrt(2)
        return float(v @ [1, 1, 0] / norm) if norm else None

    expected = [None if v is None else cosine(v) for v in arrays("vector")]

    same(values_of("COSINE_SIMILARITY(vector, [1, 1, 0])"), expected)


def iou(a, b):
    def area(box):
        return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)

    shared = area([max(a[0], b[0]), max(a[1], b[1]), min(a[2], b[2]), min(a[3], b[3])])
    union = area(a) + area(b) - shared
    return shared / union if union > 0 else 0.0


def test_iou_compares_every_box_with_every_other():
    pairs = [[[iou(a, b) for b in row[::-1]] for a in row] for row in arrays("boxes")]

    same(values_of("IOU(boxes, boxes[::-1])"), pairs)


def test_iou_of_one_box_with_many_and_with_one():
    boxes = arrays("boxes")
    one = [0, 0, 10, 10]

    same(values_of("IOU(boxes, [0, 0, 10, 10])"), [[iou(a, one) for a in row] for row in boxes])
    same(values_of("IOU([0, 0, 5, 10], [0, 0, 10, 10])"), [0.5] * 8)


def test_case_chooses_among_ragged_arrays():
    expected = [
        (a if ok else a[:1]).tolist() for a, ok in zip(arrays("boxes"), PETS["ok"][1], strict=True)
    ]

    assert values_of("CASE WHEN ok THEN boxes ELSE boxes[:1] END") == expected


def test_parameters_are_values_and_never_text():
    vector = np.array([1, 1, 0], np.float32)

    assert rows_where("label = $name", name="cat") == [0, 3, 5]
    assert rows_where("caption = $text", text="x' OR 'a' = 'a") == []
    assert rows_where("count IN $few", few=[3, 12]) == [0, 7]
    assert rows_where("count IN ($one, 12)", one=3) == [0, 7]
    assert rows_where("label IN $few", few=("cat", "bird")) == [0, 2, 3, 5, 6]
    assert rows_where("DOT(vector, $v) = 2", v=vector) == [3]
    assert rows_where("score = $x", x=0.05) == [0]
    assert rows_where("score = $x", x=np.float64(0.05)) == []
    assert rows_where("meta['cam'] = $d", d={"name": "x2", "tags": []}) == [1]
    assert rows_where("meta['cam'] IN ($d)", d={"name": "x2", "tags": []}) == [1]
    assert rows_where("count IN $few", few=[]) == []
    assert rows_where("blob = $b", b=b"abc") == [3, 7]
