"""Whatever is asked, the answer is data or a problem with a code, never a traceback."""

from __future__ import annotations

import struct
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ODD = [
    "", "0", "11", "-1", "1e9", "1.5", "@", "..", "../..", "a" * 3000, "\x00", "%00", "é", "'", '"',
    "null", "[]", "{}", "main@1", "main@-1", f"main@{10**20}", "v1",
    str(2**63 - 1), str(2**63), str(2**70),
]  # fmt: skip
odd = st.sampled_from(ODD) | st.text(max_size=20)
names = st.sampled_from(["pets"] * 6 + ["vision~digits"] * 2) | odd
tensors = st.sampled_from(["image", "labels", "meta", "blob", "caption", "boxes"] * 2) | odd
options = st.dictionaries(
    st.sampled_from(
        ["version", "view", "digest", "offset", "limit", "columns", "size", "raw", "a", "b"]
    ),
    odd,
    max_size=2,
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | odd,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
fewer = settings(
    max_examples=20,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def path(*parts: str) -> str:
    """Percent-encode everything: dots too, or clients would resolve them themselves."""
    return "/v1/datasets" + "".join(
        "/" + "".join(f"%{byte:02X}" for byte in part.encode("utf-8", "replace")) for part in parts
    )


def check(answer: httpx.Response) -> None:
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert answer.json()["code"]


def count_frames(body: bytes) -> int:
    count = 0
    while body:
        (nbytes,) = struct.unpack("<16xI", body[:20])
        body = body[20 + nbytes :]
        count += 1
    return count


@pytest.mark.slow
@fewer
@given(name=names, tensor=tensors, row=odd, params=options)
def test_no_address_breaks_a_route(
    client: httpx.Client, name: str, tensor: str, row: str, params: dict[str, str]
) -> None:
    for parts in [
        (name,), (name, "rows"), (name, "versions"), (name, "branches"), (name, "tags"),
        (name, "diff"), (name, "statistics", tensor), (name, "tensors", tensor, row),
    ]:  # fmt: skip
        check(client.get(path(*parts), params=params))


@fewer
@given(
    name=names,
    body=st.one_of(
        json_values,
        st.fixed_dictionaries(
            {
                "tensor": tensors,
                "rows": st.lists(st.sampled_from([0, 10, 11, 2**31, 2**63, 2**70]), max_size=4),
            },
            optional={"size": json_values, "version": json_values, "view": json_values},
        ),
        st.fixed_dictionaries(
            {"tql": st.text(max_size=60)},
            optional={"params": json_values, "version": json_values, "limit": json_values},
        ),
    ),
)
def test_no_body_breaks_a_route(client: httpx.Client, name: str, body: Any) -> None:
    check(client.post(path(name, "query"), json=body))
    thumbnails = client.post(path(name, "thumbnails"), json=body)
    check(thumbnails)
    if thumbnails.status_code == 200:
        assert count_frames(thumbnails.content) == len(body["rows"])
