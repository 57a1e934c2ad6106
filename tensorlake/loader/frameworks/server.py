"""The server side of ``decode_on="server"``: batches for a client, from its request.

A server makes the loader that the client would have made, over the same rows and from the state in
the request; the client does the work that needs no decoding: collation, and text and JSON as
stored. No state remains of a stream that has ended.

    the order is that of the rows, or a shuffle of them    the state in the request
    any other order, of rows, sequences or windows         ``ListedRows``: the request lists rows
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tensorlake.errors import TensorlakeError
from tensorlake.loader.config.arguments import LoaderArguments, parse_arguments
from tensorlake.loader.config.column_plan import SKIPPED, VALID
from tensorlake.loader.engine.loader import Loader
from tensorlake.loader.frameworks.numpy import NumpyConverter
from tensorlake.loader.sources.remote.wire import (
    WireColumn,
    wire_columns,
    write_batch,
    write_error,
    write_reference,
    write_schema,
)

if TYPE_CHECKING:
    from tensorlake.loader.sources.damaged_rows import LeftOut
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["WrittenBatches", "served_loader"]


def served_loader(
    rows: OrderedRows,
    arguments: Mapping[str, Any],
    *,
    turns: int = 1,
    keeps_places: bool = False,
) -> Loader:
    """Make a loader whose batches are sent, as stored.

    Ranks are the client's: the rank of this process itself does not matter.

    Args:
        rows: The rows.
        arguments: Those of ``ds.loader()``.
        turns: N, to make every N-th batch from the state's place on.
        keeps_places: Whether batches keep their size when samples are skipped.

    Raises:
        InvalidInputError: An argument is impossible.
        TensorNotFoundError: A column does not exist.
    """
    alone = {"rank": 0, "world_size": 1}
    parsed: LoaderArguments = parse_arguments("numpy", alone | dict(arguments))
    converter = NumpyConverter(turns, keeps_places, presents=False)
    return Loader(rows, parsed, converter)


class WrittenBatches:
    """Writes the batches of a loader's next pass, each with the state after it.

    They are an Arrow stream if ``schema`` is before the first one; it has no end marker, so that
    readers count batches.

    Attributes:
        schema: The beginning of a stream, known with the first batch.
        reference: Stands for a batch that is sent in another way; likewise.
        has_failed: Whether the last one reports an error.
    """

    def __init__(
        self, loader: Loader, describe: Callable[[TensorlakeError], Mapping[str, Any]]
    ) -> None:
        """Write what a loader makes.

        Args:
            loader: Made by `served_loader`.
            describe: Describes as JSON an error after the first batch.
        """
        self._written = self._batches(loader, describe)
        self.schema = self.reference = b""
        self.has_failed = False

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        """Write the next batch, or the error that takes its place.

        Raises:
            TensorlakeError: The first batch fails.
        """
        return next(self._written)

    def _batches(
        self, loader: Loader, describe: Callable[[TensorlakeError], Mapping[str, Any]]
    ) -> Iterator[bytes]:
        wire: tuple[WireColumn, ...] = ()
        try:
            for batch in loader:
                skipped = _described(batch.pop(SKIPPED, None), describe)
                state = loader.state_dict()
                state.pop("source", None)  # the location of the lake is internal to the server
                if not wire:
                    wire = wire_columns(loader.columns, with_valid=VALID in batch)
                    self.schema, self.reference = write_schema(wire), write_reference(wire)
                yield write_batch(wire, batch, state, skipped)
        except TensorlakeError as error:
            if not wire:
                raise
            self.has_failed = True
            yield write_error(wire, describe(error))


def _described(
    left_out: LeftOut | None, describe: Callable[[TensorlakeError], Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Describe as JSON the rows that a batch lacks; None if it lacks none."""
    if left_out is None or not left_out.rows:
        return None
    reasons = [describe(error)["detail"] for error in left_out.errors]
    return {"rows": left_out.rows, "reasons": reasons}
