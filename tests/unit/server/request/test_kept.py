from __future__ import annotations

from tensorlake_server.lru_cache import Kept


def test_what_was_used_longest_ago_is_forgotten_first() -> None:
    kept = Kept[str, bytes](10, size=len)
    kept.put("a", b"12345")
    kept.put("b", b"12345")
    kept.get("a")

    kept.put("c", b"12345")

    assert [kept.get(key) for key in "abc"] == [b"12345", None, b"12345"]


def test_a_value_larger_than_the_budget_is_not_kept() -> None:
    kept = Kept[str, bytes](10, size=len)

    kept.put("a", b"x" * 11)

    assert kept.get("a") is None
    kept.put("b", b"x" * 10)
    assert kept.get("b") is not None


def test_a_value_put_again_is_counted_once() -> None:
    kept = Kept[str, bytes](10, size=len)
    for _ in range(5):
        kept.put("a", b"12345")
    kept.put("b", b"12345")

    assert kept.get("a") is not None


def test_a_dropped_key_gives_its_room_back() -> None:
    kept = Kept[tuple[str, int], bytes](10, size=len)
    kept.put(("pets", 1), b"12345")
    kept.put(("dogs", 1), b"12345")

    kept.drop(lambda key: key[0] == "pets")
    kept.put(("cats", 1), b"12345")

    assert kept.get(("dogs", 1)) is not None


def test_a_value_that_grew_takes_the_place_of_others() -> None:
    kept = Kept[str, bytearray](10, size=len)
    grows = bytearray(b"12345")
    kept.put("a", bytearray(b"1234"))
    kept.put("b", grows)

    grows.extend(b"678")
    found = kept.get("b")

    assert (found, kept.used, kept.get("a")) == (grows, 8, None)
    grows.extend(b"9012")
    assert kept.get("b") is grows  # once more; it is too large to be kept
    assert (kept.get("b"), kept.used) == (None, 0)
