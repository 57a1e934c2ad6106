"""Files that are sent in pieces."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path

from fastapi import Request
from starlette.responses import StreamingResponse

from tensorlake_server.http.ranges import PIECE_NBYTES, OpenFile, ranged_response


def test_a_file_that_is_removed_while_it_is_sent_is_sent_whole(tmp_path: Path) -> None:
    file, content = tmp_path / "rows.csv", bytes(range(256)) * 12_000
    file.write_bytes(content)
    request = Request({"type": "http", "headers": [(b"range", b"bytes=9-")], "state": {}})

    response = ranged_response(request, OpenFile(file), {"ETag": '"a"'}, "text/csv")
    file.unlink()

    async def sent() -> bytes:
        assert isinstance(response, StreamingResponse)
        return b"".join([bytes(piece) async for piece in response.body_iterator])

    assert len(content) > 2 * PIECE_NBYTES
    assert asyncio.run(sent()) == content[9:]
    assert response.status_code == 206


def test_a_file_whose_answer_is_dropped_is_closed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "rows.csv"
    file.write_bytes(bytes(3 * PIECE_NBYTES))
    request = Request({"type": "http", "headers": [], "state": {}})
    opened: list[OpenFile] = [OpenFile(file)]
    inner = opened[0]._file

    response = ranged_response(request, opened.pop(), {"ETag": '"a"'}, "text/csv")
    assert not inner.closed
    del response
    gc.collect()

    assert inner.closed
