"""Stream the body of a server's answer as a file that is read once.

The reader waits in its own thread; the bytes arrive on the storage loop, and more are requested
from the server only on demand, so that a slow reader applies back-pressure. ``abandon`` ends a
waiting read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from typing import Any

from tensorlake.errors import StorageError
from tensorlake.storage.concurrency import runtime
from tensorlake.storage.http.types import AttemptError

__all__ = ["AnswerStream", "LostStreamError"]


class LostStreamError(StorageError):
    """A stream broke off before its end."""


class AnswerStream:
    """One answer.

    Args:
        url: The requested URL, for messages.
        pieces: The body, as it arrives.
        end: Releases the connection.
        headers: Those of the answer.
    """

    def __init__(
        self,
        url: str,
        pieces: AsyncIterator[bytes],
        end: Callable[[], Coroutine[Any, Any, None]],
        headers: Mapping[str, str],
    ) -> None:
        self.closed = False
        self.nbytes = 0
        self.headers = headers
        self._url = url
        self._pieces = pieces
        self._end = end
        self._left = memoryview(b"")
        self._has_ended = False
        self._reads = runtime.Scope()

    def read(self, nbytes: int = -1) -> bytes:
        """Wait for `nbytes` bytes; fewer only at the end of the body.

        Raises:
            LostStreamError: The connection broke, or the stream was closed meanwhile.
        """
        parts: list[memoryview] = []
        missing = nbytes
        while missing != 0:
            if not self._left:
                piece = self._next_piece()
                if piece is None:
                    break
                self._left = memoryview(piece)
            taken = self._left if missing < 0 else self._left[:missing]
            self._left = self._left[len(taken) :]
            parts.append(taken)
            missing = missing if missing < 0 else missing - len(taken)
        return b"".join(parts)

    def abandon(self) -> None:
        """End a waiting read at once, without waiting. Its reader then closes the stream."""
        self.closed = True
        self._reads.cancel()

    def close(self) -> None:
        """End the answer, which informs the server."""
        self.abandon()
        runtime.run(self._end())

    def _next_piece(self) -> bytes | None:
        if self._has_ended:
            return None
        try:
            with self._reads.entered():
                piece = runtime.run(self._advance())
        except CancelledError as error:
            raise self._lost("it was closed") from error
        except AttemptError as error:
            raise self._lost(str(error)) from error
        if piece is None:
            self._has_ended = True
            return None
        self.nbytes += len(piece)
        return piece

    async def _advance(self) -> bytes | None:
        return await anext(self._pieces, None)

    def _lost(self, why: str) -> LostStreamError:
        return LostStreamError(
            f"the answer of {self._url!r} broke off ({why})\ntry again", url=self._url
        )
