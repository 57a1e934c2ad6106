"""A stream ends once its token is revoked: nothing that happens later is sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import AccessError
from tensorlake_server import Settings, create_app
from tensorlake_server.auth.tokens import create_token, revoke_token
from tests.support.serving import listening

ROWS, ROW_NBYTES = 64, 1 << 20  # more than the buffers of a connection
TIMEOUT_S = 60


@pytest.fixture
def lake(tmp_path: Path) -> tl.Dataset:
    ds = tl.create(str(tmp_path / "lake/big"), {"x": tl.Array("uint8", (ROW_NBYTES,))})
    ds.extend({"x": np.zeros((ROWS, ROW_NBYTES), np.uint8)})
    ds.commit("rows")
    return ds


@pytest.fixture
def address(lake: tl.Dataset, tmp_path: Path) -> Iterator[str]:
    auth = tmp_path / "tokens.json"
    with listening(create_app(Settings(url=str(tmp_path / "lake"), auth=auth))) as found:
        yield found


@pytest.fixture
def token(tmp_path: Path) -> tuple[str, Callable[[], None]]:
    """A token that may read, and what revokes it."""
    auth, now = tmp_path / "tokens.json", datetime.now(UTC)
    secret, stored = create_token(auth, name="ana", scopes=["read"], expires=None, now=now)
    return secret, lambda: (revoke_token(auth, stored.id, now=datetime.now(UTC)), None)[1]


def test_events_after_a_revocation_are_not_sent(
    lake: tl.Dataset, token: tuple[str, Callable[[], None]], address: str
) -> None:
    secret, revoke = token
    url, headers = f"{address}/v1/datasets/big/events", {"Authorization": f"Bearer {secret}"}
    with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT_S) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("retry")
        revoke()
        lake["x"][0] = np.ones(ROW_NBYTES, np.uint8)
        lake.commit("made after the revocation")

        for line in lines:  # until the server ends the stream
            assert "revocation" not in line


def test_batches_after_a_revocation_are_not_sent(
    token: tuple[str, Callable[[], None]], address: str
) -> None:
    secret, revoke = token
    loader = tl.open(f"{address}/big", token=secret).loader(
        batch_size=1, decode_on="server", prefetch="1MiB"
    )
    taken: list[int] = []

    def take(_batch: object) -> None:
        taken.append(1)
        if len(taken) == 1:
            revoke()

    with pytest.raises(AccessError, match="revoked"):
        deque(map(take, loader), maxlen=0)
    assert len(taken) < ROWS
