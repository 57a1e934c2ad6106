import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import CorruptionError, InvalidInputError
from tensorlake.format import (
    PackId,
    check_tag_name,
    decode_name,
    encode_name,
    entry_path,
    head_path,
    new_txid,
    parse_entry_path,
    parse_tag_path,
    tag_path,
)

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=15)
DEVICES = ["con", "prn", "aux", "nul", "com1", "lpt9", "com0"]


@given(names)
def test_names_survive_their_encoding(name):
    """format.md's test 22."""
    assert decode_name(encode_name(name)) == unicodedata.normalize("NFC", name)


@given(names)
def test_an_encoded_name_is_plain_on_every_file_system(name):
    """format.md's test 22."""
    encoded = encode_name(name)

    assert re.fullmatch(r"[a-z0-9._-]+", encoded)
    assert encoded.split(".")[0] not in DEVICES
    assert not encoded.startswith(".")
    assert not encoded.endswith(".")


@given(names, names)
def test_names_that_differ_stay_different_without_case(one, other):
    """format.md's test 22."""
    same = encode_name(one).lower() == encode_name(other).lower()

    assert same == (decode_name(encode_name(one)) == decode_name(encode_name(other)))


def test_composed_and_decomposed_letters_name_the_same_branch():
    assert encode_name("e\u0301") == encode_name("\u00e9")


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("main", "main"),
        ("a", "a"),
        ("a/b", "a_2fb"),
        ("A", "_41"),
        ("_", "_5f"),
        ("con", "_63on"),
        ("con.v1", "_63on.v1"),
        ("connect", "connect"),
        ("COM1", "_43_4f_4d1"),
        ("..", "_2e_2e"),
        ("v1.2-rc", "v1.2-rc"),
        ("ends.", "ends_2e"),
        ("🙂", "_f0_9f_99_82"),
    ],
)
def test_names_are_encoded_as_specified(name, encoded):
    """format.md's test 22."""
    assert encode_name(name) == encoded


@pytest.mark.parametrize("name", ["a" * 200, "é" * 33, "/" * 66])
def test_a_name_of_200_bytes_encoded_is_taken(name):
    assert len(encode_name(name)) <= 200


@pytest.mark.parametrize("name", ["a" * 201, "é" * 34, "/" * 67])
def test_a_longer_name_is_refused_with_its_size(name):
    """format.md's test 22."""
    with pytest.raises(InvalidInputError, match=r"takes 20\d bytes encoded, more than 200"):
        encode_name(name)


@pytest.mark.parametrize("name", ["", "\ud800"])
def test_a_name_that_is_no_text_is_refused(name):
    with pytest.raises(InvalidInputError, match="name"):
        encode_name(name)


@pytest.mark.parametrize("encoded", ["A", "_4", "_zz", "a/b", "_61", "con", "e_cc_81", ".", ""])
def test_what_no_name_is_encoded_as_is_reported(encoded):
    with pytest.raises(CorruptionError, match="not an encoded name"):
        decode_name(encoded)


def test_users_cannot_name_a_tag_like_a_pin():
    with pytest.raises(InvalidInputError, match="'pin-', which is reserved"):
        check_tag_name("pin-" + "0" * 32)


def test_paths_are_those_of_the_specification():
    pack = PackId("0123456789abcdef0123456789abcdef", 7)

    assert pack.path == "packs/ef/0123456789abcdef0123456789abcdef-7.tlp"
    assert entry_path("a/b", 12) == "branches/a_2fb/0000000012.json"
    assert head_path("main") == "branches/main/HEAD"
    assert tag_path("v1") == "tags/v1.json"


def test_paths_are_read_back():
    pack = PackId(new_txid(random_bits=1), 3)

    assert PackId.from_path(pack.path) == pack
    assert parse_entry_path(entry_path("Größe", 5)) == ("Größe", 5)
    assert parse_tag_path(tag_path("v 1")) == "v 1"
    assert parse_entry_path("branches/main/HEAD") is None
    assert PackId.from_path("packs/00/" + str(pack) + ".tlp") is None


def test_entry_paths_list_in_order():
    paths = [entry_path("main", seq) for seq in (0, 9, 10, 99, 100, 10**9)]

    assert paths == sorted(paths)


def test_a_txid_is_its_time_and_its_random_bits():
    assert new_txid(now_ms=1, random_bits=2) == "000000000001" + "0" * 19 + "2"
    assert len({new_txid() for _ in range(100)}) == 100


def test_transactions_of_a_process_share_a_folder_for_an_hour():
    """Making a folder durable costs a commit as much again as making a file so."""
    start = 7 << 22

    folders = [new_txid(now_ms=start + minute * 60_000)[-2:] for minute in range(120)]

    assert len(set(folders[:69])) == 1
    assert folders[69] != folders[71]


def test_a_pack_id_survives_text_and_bytes():
    pack = PackId(new_txid(), 2**32 - 1)

    assert PackId.parse(str(pack)) == pack
    assert PackId.from_bytes(pack.to_bytes()) == pack


@pytest.mark.parametrize("text", ["", "x-1", "0" * 32, "0" * 32 + "-01", "0" * 32 + "-4294967296"])
def test_what_is_no_pack_id_is_reported(text):
    with pytest.raises(CorruptionError, match="not the name of a pack"):
        PackId.parse(text)
