"""``null=`` with ``decode_on="server"``: the values that a local loader takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tests.integration.loaders.streamed_rows import Served, digest_of, picture, served_pets


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_pets(tmp_path_factory.mktemp("streamed-nulls")) as found:
        yield found


NULLABLE: dict[str, Any] = {
    "us": tl.Timestamp("us", nullable=True),
    "ns": tl.Timestamp("ns", nullable=True),
    "zone": tl.Timestamp("ns", tz="Europe/Berlin", nullable=True),
    "day": tl.Timestamp("s", is_date=True, nullable=True),
    "wave": tl.Array("complex64", (), nullable=True),
    "waves": tl.Array("complex128", (2,), nullable=True),
    "bytes": tl.Bytes(nullable=True),
    "image": tl.Image("jpeg", nullable=True),
    "files": tl.Sequence(tl.Bytes(), nullable=True),
}
NAN = complex(-0.0, float("nan"))
NULLS: list[tuple[str, Any]] = [
    ("us", np.datetime64("2000-01-01")),
    ("us", np.datetime64("2000-01-01T01:02:03.123456")),
    ("ns", np.datetime64("2000-01-01T01:02:03.123456789")),
    ("ns", np.datetime64("2000-01", "M")),
    ("zone", np.datetime64("2000-07-01T01:02:03.123456789")),
    ("day", np.datetime64("2000-01-01")),
    ("wave", 1 + 2j),
    ("wave", np.complex64(0.1 - 1j)),
    ("wave", NAN),
    ("waves", 0.1j),
    ("waves", np.array([0.1 + 1e-300j, NAN])),
    ("waves", [1.5, 2j]),
    ("bytes", b""),
    ("bytes", bytearray(b"\0\xff")),
    ("image", picture(3)),
]


@pytest.fixture(scope="module")
def holey(served: Served) -> tuple[tl.Dataset, tl.Dataset]:
    """A dataset of NULLs, and the same behind a server."""
    ds = tl.create(str(served.lake / "holey"), NULLABLE)
    ds.extend({name: [None] * 3 for name in NULLABLE})
    ds.commit("nothing but NULLs")
    return ds, tl.open(f"{served.address}/holey", token=served.token_for("read:holey"))


@pytest.mark.parametrize(("column", "value"), NULLS)
@pytest.mark.parametrize("mixes", [[], ["all"]])
def test_what_replaces_null_is_what_it_is_in_a_local_loader(
    holey: tuple[tl.Dataset, tl.Dataset], column: str, value: Any, mixes: list[str]
) -> None:
    found = []
    for ds, decode_on in zip(holey, ("client", "server"), strict=True):
        rows = tl.mix(dict.fromkeys(mixes, (ds, 1.0)), stop="all") if mixes else ds
        decode = {"image": tl.decode.Resize(8, 8)} if column == "image" else None
        given = {"columns": [column], "null": {column: value}, "decode": decode}
        found.append(list(rows.loader(batch_size=2, **given, decode_on=decode_on)))

    local, remote = found
    assert [digest_of(batch) for batch in remote] == [digest_of(batch) for batch in local]


@pytest.mark.parametrize(
    ("column", "value"), [("image", np.zeros((4, 4, 3), np.uint8)), ("files", [b"a"])]
)
def test_a_replacement_of_null_that_json_cannot_hold_is_named(
    holey: tuple[tl.Dataset, tl.Dataset], column: str, value: Any
) -> None:
    decode = {"image": tl.decode.Resize(8, 8)} if column == "image" else None
    given = {"columns": [column], "null": {column: value}, "decode": decode}

    with pytest.raises(InvalidInputError, match=f"null={{'{column}': .*decode_on='server'"):
        list(holey[1].loader(batch_size=2, **given, decode_on="server"))


def test_a_replacement_of_null_is_no_path_of_a_file_of_the_server(
    served: Served, tmp_path: Path, holey: tuple[tl.Dataset, tl.Dataset]
) -> None:
    file = tmp_path / "secret.jpg"
    file.write_bytes(picture(1))

    answer = httpx.post(
        f"{served.address}/v1/datasets/holey/stream",
        json={
            "columns": ["image"],
            "batch_size": 2,
            "decode": {"image": [{"step": "Resize", "height": 8, "width": 8}]},
            "null": {"image": str(file)},
        },
        headers={"Authorization": f"Bearer {served.token_for('read:holey')}"},
    )

    assert (answer.status_code, answer.json()["code"]) == (400, "dtype-mismatch")
    assert "reads no files" in answer.json()["detail"]
