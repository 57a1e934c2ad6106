"""The bytes of samples that a run reads: counted where they are read, and limited."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock

from tensorlake_query.values.texts import texts_of
from tensorlake_query.values.vectors import POSITION_NBYTES, Vector


@dataclass(slots=True)
class Meter:
    """Counts the bytes of samples that a run reads, and ends it at a limit. Thread-safe."""

    limit_nbytes: int | None
    fail: Callable[[int], Exception]
    nbytes: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, vector: Vector, *, is_text: bool) -> None:
        """Count what was read; of JSON objects their references, and texts.

        Raises:
            QueryLimitError: it is more than the limit.
        """
        if texts_of(vector.values) is not None:
            nbytes = vector.values.nbytes
        elif vector.values.dtype == object:
            values = vector.values.tolist()
            nbytes = (
                sum(map(len, values))
                if is_text
                else sum(len(each) if isinstance(each, str) else POSITION_NBYTES for each in values)
            )
        else:
            nbytes = vector.values.nbytes
        self.count(nbytes)

    def count(self, nbytes: int) -> None:
        """Count bytes.

        Raises:
            QueryLimitError: they are more than the limit.
        """
        with self._lock:
            self.nbytes += nbytes
        if self.limit_nbytes is not None and self.nbytes > self.limit_nbytes:
            raise self.fail(self.nbytes)
