"""Files of samples are sent in pieces: players that leave many open do not use up the server."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse

import pytest

import tensorlake as tl
from tensorlake_server import Settings, create_app
from tests.support.serving import listening

TOKEN = "a-token-of-tests"
NBYTES = 16 << 20
HELD_NBYTES = 8 << 20
PLAYERS = 3


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that holds half of what the file of a sound has."""
    lake = tmp_path_factory.mktemp("sounds")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(NBYTES))
    with tl.create(str(lake / "sounds"), {"sound": tl.Audio()}, durability="none") as ds:
        ds.append({"sound": file.getvalue()})
        ds.commit("a long one")
    settings = Settings(url=str(lake), token=TOKEN, max_held_nbytes=HELD_NBYTES)
    with listening(create_app(settings)) as url:
        yield url.removeprefix("http://")


def test_players_that_read_no_further_leave_room_for_others(address: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Range": "bytes=0-"}
    players = [HTTPConnection(address, timeout=60) for _ in range(PLAYERS)]

    with ExitStack() as stack:
        answers: list[HTTPResponse] = []
        for one in players:  # each waits for its reader when the next asks
            stack.enter_context(closing(one))
            one.request("GET", "/v1/datasets/sounds/tensors/sound/0", headers=headers)
            answers.append(stack.enter_context(closing(one.getresponse())))

        assert [one.status for one in answers] == [206] * PLAYERS
        assert len(answers[0].read()) > NBYTES
