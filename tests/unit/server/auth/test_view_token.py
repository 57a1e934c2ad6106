from __future__ import annotations

import base64
import zlib

import msgspec
import pytest

from tensorlake.errors import QueryLimitError, ViewNotFoundError
from tensorlake_server.auth.view_token import (
    MAX_QUERY_NBYTES,
    ViewQuery,
    read_token,
    write_token,
)

KEY = b"a key of the servers"
QUERY = ViewQuery(
    dataset="vision/pets",
    version="main@12",
    digest="ab" * 20,
    tql="WHERE label = $name",
    params={"name": "cat", "limits": [1, 2.5, None]},
)


def test_a_token_is_the_query_and_any_replica_reads_it() -> None:
    assert read_token(write_token(QUERY, key=KEY), key=KEY) == QUERY


def test_equal_queries_have_equal_tokens() -> None:
    turned = ViewQuery(
        dataset=QUERY.dataset,
        version=QUERY.version,
        digest=QUERY.digest,
        tql=QUERY.tql,
        params=dict(reversed(QUERY.params.items())),
    )

    assert write_token(turned, key=KEY) == write_token(QUERY, key=KEY)


def test_a_token_of_another_key_is_unknown() -> None:
    with pytest.raises(ViewNotFoundError):
        read_token(write_token(QUERY, key=b"another"), key=KEY)


@pytest.mark.parametrize(
    "token",
    ["", ".", "abc", "abc.def", "ümlaut.x", "A" * 100_000, "==.==", "a.b.c", "\x00.\x00"],
)
def test_garbage_is_unknown_and_never_a_traceback(token: str) -> None:
    with pytest.raises(ViewNotFoundError):
        read_token(token, key=KEY)


def test_every_changed_letter_is_noticed() -> None:
    token = write_token(QUERY, key=KEY)

    for position in range(0, len(token), 7):
        other = "A" if token[position] != "A" else "B"
        changed = token[:position] + other + token[position + 1 :]
        with pytest.raises(ViewNotFoundError):
            read_token(changed, key=KEY)


def test_an_unsigned_bomb_is_never_unpacked() -> None:
    bomb = base64.urlsafe_b64encode(zlib.compress(bytes(50_000_000), 9)).decode().rstrip("=")

    with pytest.raises(ViewNotFoundError):
        read_token(f"{bomb}.{'A' * 22}", key=KEY)


def test_a_query_that_no_server_would_read_back_is_refused_by_its_size() -> None:
    large = msgspec.structs.replace(QUERY, params={"y": "z" * MAX_QUERY_NBYTES})
    with pytest.raises(QueryLimitError, match=r"the query and its parameters have 262,\d{3} bytes"):
        write_token(large, key=KEY)

    overhead = len(msgspec.json.encode(msgspec.structs.replace(QUERY, params={"y": ""})))
    fits = msgspec.structs.replace(QUERY, params={"y": "z" * (MAX_QUERY_NBYTES - overhead)})
    assert read_token(write_token(fits, key=KEY), key=KEY) == fits
