"""What chunks of an older encoding are read as: cast, made ragged, class codes mapped."""

import numpy as np
import pytest

from tensorlake.errors import CorruptionError, SchemaError
from tensorlake.format import (
    ChunkKind,
    ChunkLayout,
    Extents,
    Features,
    PackId,
    PlacedChunk,
    PlacedChunks,
    Schema,
    Statistics,
    StatisticsTable,
    TensorSpec,
    encode_chunk,
)
from tensorlake.types import Array, ClassLabel, RaggedColumn, Scalar, UniformColumn

LABELS = ClassLabel(["cat", "dog", "cow"])
PACK = PackId("0" * 31 + "1", 0)


def spec_of(sample_type) -> TensorSpec:
    return TensorSpec.new("x", sample_type, tensor_id="0123456789")


def codes(*values: int, valid=None) -> UniformColumn:
    return UniformColumn(np.array(values, np.int64), None if valid is None else np.array(valid))


def extents_of(column, spec: TensorSpec, *, read_as: int = 0) -> Extents:
    blob = encode_chunk(column, spec.encodings[read_as])
    return PlacedChunks((PlacedChunk.of(blob, PACK, 64, read_as=read_as),)).to_table()


def test_samples_of_an_older_dtype_are_cast():
    spec = spec_of(Scalar("int8")).with_type(Scalar("int32"))

    column = spec.adapt(UniformColumn(np.array([-1, 127], np.int8)), 0)

    assert column.values.dtype == np.int32
    assert column.values.tolist() == [-1, 127]


def test_samples_of_one_shape_become_ragged_and_nulls_lose_their_zeros():
    spec = spec_of(Array("uint8", (2,), nullable=True)).with_type(
        Array("int16", (None,), nullable=True)
    )

    column = spec.adapt(
        UniformColumn(np.array([[1, 2], [0, 0]], np.uint8), np.array([True, False])), 0
    )

    assert isinstance(column, RaggedColumn)
    assert column.values.tolist() == [1, 2]
    assert column.shapes.tolist() == [[2], [0]]


def test_class_codes_are_mapped_and_nulls_stay_zero():
    spec, read_as = spec_of(LABELS).with_code_map([2, 0, 1])

    column = spec.adapt(codes(0, 1, 2, 0, valid=[True, True, True, False]), read_as)

    assert column.values.tolist() == [2, 0, 1, 0]
    assert spec.adapt(codes(0, 1, 2), 0).values.tolist() == [0, 1, 2]


def test_class_codes_of_many_a_row_are_mapped():
    spec, read_as = spec_of(ClassLabel(["a", "b"], multi=True)).with_code_map([1, 0])

    column = spec.adapt(RaggedColumn(np.array([0, 1, 1]), np.array([[1], [2]])), read_as)

    assert column.values.tolist() == [1, 0, 0]


@pytest.mark.parametrize("bad", [3, -1])
def test_a_code_beyond_the_table_is_damage(bad):
    spec, read_as = spec_of(LABELS).with_code_map([2, 0, 1])

    with pytest.raises(CorruptionError, match=f"pack 7.*class code {bad}"):
        spec.adapt(codes(0, bad), read_as, where="pack 7")


def test_new_chunks_never_get_an_encoding_with_codes():
    spec, read_as = spec_of(LABELS).with_code_map([2, 0, 1])

    assert read_as == 1
    assert (spec.read_as, spec.layout.codes) == (0, None)


def test_a_map_over_a_map_is_one_map():
    spec, first = spec_of(LABELS).with_code_map([2, 0, 1])
    spec, second = spec.with_code_map([1, 2, 0], read_as=first)

    assert spec.encodings[second].codes is None
    assert spec.adapt(codes(0, 1, 2), second).values.tolist() == [0, 1, 2]
    spec, third = spec.with_code_map([0, 2, 1], read_as=first)
    assert spec.encodings[third].codes == (1, 0, 2)


def test_the_same_map_is_kept_once():
    spec, first = spec_of(LABELS).with_code_map([2, 0, 1])
    again, second = spec.with_code_map([2, 0, 1])

    assert (again, second) == (spec, first)
    assert spec.with_code_map([0, 1, 2]) == (spec, 0)


def test_encodings_of_another_branch_are_numbered_here():
    base = spec_of(Scalar("int8"))
    ours, theirs = base.with_type(Scalar("int16")), base.with_type(Scalar("int64"))

    spec, numbers = ours.with_encodings_of(theirs)

    assert [spec.encodings[number].dtype for number in numbers] == ["int8", "int64"]
    assert spec.layout.dtype == "int16"


def test_codes_and_features_survive_json():
    spec, read_as = spec_of(LABELS).with_code_map([2, 0, 1])
    schema = Schema((spec,))

    assert Schema.from_json(schema.to_json()) == schema
    assert schema.to_json()["tensors"][0]["encodings"][read_as]["codes"] == [2, 0, 1]
    assert Features().with_schema(schema.to_json()).read == ("code-maps",)
    assert Features().with_schema(Schema((spec_of(LABELS),)).to_json()).read == ()
    assert Features(("code-maps",)).with_schema(None).read == ("code-maps",)


@pytest.mark.parametrize("bad", ["x", [0.5], [True], [-1], [2**63], {}])
def test_codes_that_are_none_are_refused(bad):
    written = ChunkLayout.of(LABELS).to_json() | {"codes": bad}

    with pytest.raises(SchemaError):
        ChunkLayout.from_json(written)


def test_codes_of_what_is_no_integer_are_refused():
    with pytest.raises(SchemaError):
        ChunkLayout.from_json(ChunkLayout.of(Scalar("float32")).to_json() | {"codes": [0]})


def test_extents_are_renumbered_by_a_table_or_all_alike():
    spec = spec_of(LABELS)
    both = Extents.concat([extents_of(codes(0), spec), extents_of(codes(1), spec)])

    assert both.with_read_as([7]).read_as.tolist() == [7, 7]
    assert both.with_read_as(3).read_as.tolist() == [3, 3]
    assert both.with_read_as(3).read_as.dtype == np.uint16


def test_statistics_of_labels_follow_a_code_map():
    extents = extents_of(codes(0, 1, 1), spec_of(LABELS))

    row = extents.with_read_as(1, codes=[2, 0, 1]).statistics.table.row(0)

    assert (row.minimum, row.maximum, row.labels) == (0, 2, (0, 2))


def test_bounds_without_labels_cover_every_code_they_could_mean():
    table = StatisticsTable.of([Statistics(1, domain="int64", minimum=1, maximum=2)])

    row = table.with_codes(np.array([9, 4, 7]), where=np.array([True])).row(0)

    assert (row.null_count, row.minimum, row.maximum, row.labels) == (1, 4, 7, None)


def test_bounds_beyond_the_table_are_dropped():
    table = StatisticsTable.of([Statistics(0, domain="int64", minimum=0, maximum=5)])

    row = table.with_codes(np.array([1, 0]), where=np.array([True])).row(0)

    assert (row.minimum, row.maximum, row.domain) == (None, None, None)


def test_statistics_of_a_fill_stay_for_no_code_is_stored():
    one = StatisticsTable.of([Statistics(0, 0, "int64", 2, 2, (2,))])
    fill = Extents.without_bytes(ChunkKind.FILL, 5, statistics=one)

    row = fill.with_read_as(1, codes=[5, 6, 7]).statistics.table.row(0)

    assert row.labels == (2,)


def test_more_encodings_than_an_extent_can_name_are_refused():
    spec = spec_of(Scalar("int8"))

    with pytest.raises(SchemaError, match="encodings"):
        TensorSpec("0123456789", "x", spec.type, spec.encodings * 65_537)
