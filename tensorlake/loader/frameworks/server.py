"""The other end of ``decode_on="server"``: batches for a client, from what it says it needs.

A server makes the loader that the client would have made, over the same rows and from the state in
the request; it leaves to the client what needs no decoding: collation, and text and JSON as they
are stored. It keeps nothing of a stream that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tensorlake.errors import TensorlakeError
from tensorlake.loader.config.arguments import LoaderArguments, parse_arguments
from tensorlake.loader.config.batch_schema import VALID
from tensorlake.loader.engine.loader import Loader
from tensorlake.loader.sources.wire import (
    WireColumn,
    wire_columns,
    write_batch,
    write_error,
    write_schema,
)

if TYPE_CHECKING:
    from tensorlake.loader.sources.rows import OrderedRows

__all__ = ["WireConverter", "served_loader", "written_batches"]


@dataclass(frozen=True, slots=True)
class WireConverter:
    """Batches as they are sent.

    Attributes:
        turns: Every how many-th batch is made, from the state's place on.
        keeps_places: Whether batches keep their size when samples are skipped.
    """

    turns: int = 1
    keeps_places: bool = False
    name: str = "numpy"
    presents: bool = False
    placed: tuple[int, int] | None = None
    equal_parts: int = 1

    def turn_and_turns(self) -> tuple[int, int]:
        """Return that every so many-th batch is made."""
        return 0, self.turns

    def convert(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return the batch."""
        return batch


def served_loader(
    rows: OrderedRows, converter: WireConverter, arguments: Mapping[str, Any]
) -> Loader:
    """Make a loader whose batches are sent; `arguments` are those of ``ds.loader()``.

    Ranks are the client's: what this process itself is one of has no part in it.

    Raises:
        InvalidInputError: An argument is impossible.
        TensorNotFoundError: A column is none.
    """
    alone = {"rank": 0, "world_size": 1}
    parsed: LoaderArguments = parse_arguments("numpy", alone | dict(arguments))
    return Loader(rows, parsed, converter)


def written_batches(
    loader: Loader, describe: Callable[[TensorlakeError], Mapping[str, Any]]
) -> Iterator[bytes]:
    """Write the batches of the pass that begins, each with the state after it: an Arrow stream.

    The stream ends without Arrow's own mark, wherever it does: who reads it counts batches.

    Args:
        loader: Made by `served_loader`.
        describe: Says as JSON what went wrong after the first batch, for the stream's end.

    Raises:
        TensorlakeError: There is no first batch.
    """
    wire: tuple[WireColumn, ...] = ()
    try:
        for batch in loader:
            state = loader.state_dict()
            state.pop("source", None)  # where the lake is, is the server's own business
            if wire:
                yield write_batch(wire, batch, state)
                continue
            wire = wire_columns(loader.columns, with_valid=VALID in batch)
            yield write_schema(wire) + write_batch(wire, batch, state)
    except TensorlakeError as error:
        if not wire:
            raise
        yield write_error(wire, describe(error))
