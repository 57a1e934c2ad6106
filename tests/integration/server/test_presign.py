"""``--presign``: the bytes of packs go past the server, by links of the object store."""

from __future__ import annotations

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import InvalidInputError
from tensorlake.testing import s3_server
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

ROWS = 64
WAIT_S = 60


@pytest.mark.slow
def test_packs_are_read_from_the_store_itself_without_the_token() -> None:
    values = np.random.default_rng(0).integers(0, 255, (ROWS, 4096), dtype=np.uint8)
    with s3_server() as s3:
        lake = s3.fresh_url()
        options = s3.storage_options
        ds = tl.create(f"{lake}/pets", {"x": tl.Array("uint8", (4096,))}, storage_options=options)
        ds.extend({"x": values})
        ds.commit("rows")
        settings = Settings(url=lake, token="secret", storage_options=options, presign=True)
        app = create_app(settings)
        with listening(app) as address:
            there = tl.open(f"{address}/pets", token="secret")

            assert np.array_equal(there["x"][:], values)
            assert np.array_equal(there["x"][[60, 3]], values[[60, 3]])

            headers = {"Authorization": "Bearer secret"}
            with httpx.Client(base_url=address, headers=headers, timeout=WAIT_S) as client:
                objects = f"{address}/v1/datasets/pets/objects"
                packs = client.get(objects, params={"prefix": "packs/"}).json()["objects"]
                redirect = client.get(f"{objects}/{packs[0]['path']}")
                entry = client.get(f"{objects}/branches/main/0000000001.json")
                metrics = client.get("/metrics").text
            outsider = httpx.get(f"{objects}/{packs[0]['path']}", timeout=WAIT_S)
            unsigned = httpx.get(redirect.headers["Location"], timeout=WAIT_S)

    assert redirect.status_code == 307
    assert "secret" not in redirect.headers["Location"]
    assert entry.status_code == 200, "what is small and changes is read through the server"
    assert outsider.status_code == 401
    assert len(unsigned.content) == packs[0]["nbytes"], "the link alone reads it"
    sent = [
        float(line.split()[-1])
        for line in metrics.splitlines()
        if line.startswith("tensorlake_sent_bytes_total") and "objects/{path" in line
    ]
    assert sum(sent) < values.nbytes / 4


def test_a_store_that_signs_nothing_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidInputError, match="presign"):
        Settings(url="/lake", presign=True)
