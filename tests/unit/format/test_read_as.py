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
    SpecConflict,
    Statistics,
    StatisticsTable,
    TensorSpec,
    UnitedSpec,
    encode_chunk,
    unite_specs,
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


def united(base, ours, theirs) -> UnitedSpec:
    result = unite_specs(base, ours, theirs)
    assert isinstance(result, UnitedSpec)
    return result


def with_names(spec: TensorSpec, *names: str) -> TensorSpec:
    return spec.with_type(spec.type.with_names(names))


def test_class_names_of_both_sides_are_united_and_theirs_codes_mapped():
    """format.md 44: each adds class names; dog stays dog."""
    base = spec_of(ClassLabel(["cat", "dog"]))
    ours = with_names(base, "cat", "dog", "cow")
    theirs = with_names(base, "cat", "dog", "hen", "cow")

    result = united(base, ours, theirs)

    assert result.spec.type.names == ("cat", "dog", "cow", "hen")
    assert result.codes == (0, 1, 3, 2)
    assert result.changes_theirs
    read = result.spec.adapt(codes(1, 2, 3), result.read_as[0])
    assert [result.spec.type.names[code] for code in read.values] == ["dog", "hen", "cow"]
    assert result.spec.layout.codes is None


def test_names_added_by_one_side_change_no_code():
    base = spec_of(ClassLabel(["cat"]))

    result = united(base, base, with_names(base, "cat", "dog"))

    assert (result.spec.type.names, result.codes) == (("cat", "dog"), None)
    assert not result.changes_theirs


def test_a_rename_against_an_unchanged_name_is_taken():
    """format.md 44: rename against unchanged."""
    base = spec_of(ClassLabel(["cat", "dog"]))
    renamed = with_names(base, "cat", "hound")

    assert united(base, renamed, base).spec.type.names == ("cat", "hound")
    assert united(base, base, renamed).spec.type.names == ("cat", "hound")
    assert united(base, renamed, renamed).spec.type.names == ("cat", "hound")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("cat", "hound"), ("cat", "mutt")),  # renamed differently
        (("cat", "hound"), ("cat", "")),  # renamed, and dropped
        (("puss", "dog"), ("cat", "puss")),  # one name for two classes
        (("cat", "puppy"), ("cat", "dog", "puppy")),  # renamed to what the other added
    ],
)
def test_names_that_contradict_each_other_conflict(ours, theirs):
    base = spec_of(ClassLabel(["cat", "dog"]))

    result = unite_specs(base, with_names(base, *ours), with_names(base, *theirs))

    assert isinstance(result, SpecConflict)
    assert result.what == "names"


def test_a_class_dropped_by_one_side_leaves_its_code_unused():
    base = spec_of(ClassLabel(["cat", "dog"]))
    ours = with_names(base, "cat", "")
    theirs = with_names(base, "cat", "dog", "cow")

    result = united(base, ours, theirs)

    assert result.spec.type.names == ("cat", "", "cow")
    assert result.spec.type.dropped == (1,)
    assert result.codes is None


def test_a_widening_is_taken_whichever_side_made_it():
    base = spec_of(Scalar("int8"))
    wide = base.with_type(Scalar("int64"))

    for result in (united(base, wide, base), united(base, base, wide)):
        assert result.spec.type == Scalar("int64")
        assert result.spec.layout.dtype == "int64"
        assert result.spec.encodings[result.read_as[0]].dtype == "int8"


def test_two_changes_of_one_tensors_schema_conflict_but_equal_ones_do_not():
    base = spec_of(Scalar("int8"))
    wide, wider = base.with_type(Scalar("int16")), base.with_type(Scalar("int64"))

    assert unite_specs(base, wide, wider) == SpecConflict("schema")
    assert united(base, wide, wide).spec == wide


def test_more_encodings_than_an_extent_can_name_are_refused():
    spec = spec_of(Scalar("int8"))

    with pytest.raises(SchemaError, match="encodings"):
        TensorSpec("0123456789", "x", spec.type, spec.encodings * 65_537)
