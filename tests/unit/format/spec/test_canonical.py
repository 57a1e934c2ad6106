import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.format import (
    canonical_bytes,
    parse_json,
    seal,
    sealed_digest,
    trusted_bytes,
    unseal,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc"), inner, max_size=4),
    max_leaves=10,
)
objects = st.dictionaries(st.text("abé"), values, max_size=5)


@pytest.mark.slow
@given(objects)
def test_sealed_objects_survive(value):
    sealed = unseal(seal(value), where="x")

    assert sealed.pop("digest") == sealed_digest(seal(value))
    assert sealed == value


@given(objects)
def test_canonical_bytes_do_not_depend_on_the_order_of_keys(value):
    turned = dict(reversed(value.items()))

    assert canonical_bytes(turned) == canonical_bytes(value)


@given(values)
def test_what_is_trusted_is_written_as_the_same_value(value):
    assert json.loads(trusted_bytes(value)) == value


@given(st.recursive(st.none() | st.integers() | st.text("aé€"), st.lists, max_leaves=10))
def test_what_is_trusted_is_written_canonically_but_for_floats(value):
    assert trusted_bytes({"b": value, "a": value}) == canonical_bytes({"a": value, "b": value})


def test_the_digest_is_that_of_the_object_without_it():
    data = seal({"b": [1, 2], "a": "ü"})

    body = '{"a":"ü","b":[1,2]}'.encode()
    digest = hashlib.blake2b(body, digest_size=20).hexdigest()
    assert data == body[:-1] + f',"digest":"{digest}"}}'.encode()
    assert json.loads(data)["digest"] == digest


def test_the_example_of_the_reference_is_sealed_as_it_says():
    page = Path(__file__).resolve().parents[4] / "docs" / "reference" / "format.md"

    assert f"\n{seal({'a': 1}).decode()}\n" in page.read_text(encoding="utf-8")


def test_an_empty_object_is_sealed_too():
    assert list(unseal(seal({}), where="x")) == ["digest"]


def test_every_flipped_or_missing_byte_is_noticed():
    data = seal({"a": [1, 2, 3], "b": {"c": "text"}})

    for at in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[at] ^= 1 << bit
            with pytest.raises(CorruptionError) as caught:
                unseal(bytes(flipped), where="entry 3")
            assert caught.value.object == "entry 3"
        with pytest.raises(CorruptionError):
            unseal(data[:at], where="x")
        with pytest.raises(CorruptionError):
            unseal(data[:at] + data[at + 1 :], where="x")


@given(st.binary(max_size=200))
def test_other_bytes_are_noticed(data):
    with pytest.raises(CorruptionError):
        unseal(data, where="x")


def test_a_member_after_the_digest_is_noticed():
    with pytest.raises(CorruptionError):
        unseal(seal({"a": 1})[:-1] + b',"z":2}', where="x")


def test_an_object_above_its_limit_is_not_read():
    with pytest.raises(CorruptionError, match="20 are allowed"):
        unseal(seal({"a": 1}), where="x", max_nbytes=20)


@pytest.mark.parametrize("data", [b"NaN", b"[1", b"\xff", b"1 2", b"'a'", b"", b"[" * 100_000])
def test_json_that_is_not_strict_is_refused(data):
    with pytest.raises(CorruptionError):
        parse_json(data, where="x")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), b"bytes", {1, 2}, "\ud800"])
def test_what_json_cannot_say_is_refused_before_it_is_written(value):
    with pytest.raises(InvalidInputError, match="cannot be written as JSON"):
        canonical_bytes({"a": value})
