"""Documents drawn by weights, to be packed: other ones in every epoch.

    round 0                round 1             …     each has as many draws as there are documents
    d3 d0 d3 d7 d1 …       d2 d3 d0 …

An epoch has a round's tokens, as they are on average: sequences are counted without a draw, equally
in all epochs. A round that falls short is continued by the next, whose first documents are then in
both epochs; the rest of one that has more is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tensorlake.errors import InvalidInputError
from tensorlake.loader.engine.composed.parts import listed

if TYPE_CHECKING:
    from tensorlake.loader.plan.mix_order import AnyOrder
    from tensorlake.loader.plan.selection import Int64Array
    from tensorlake.loader.sources.arrangement import Arranger

__all__ = ["DrawnDocuments"]

ROUNDS_LIMIT = 1 << 10


@dataclass(frozen=True, slots=True, eq=False)
class DrawnDocuments:
    """The documents of a view, drawn by weights.

    Attributes:
        arranger: The weights.
        lengths: The tokens of each document, eos included.
        tokens: Tokens of a round, on average.
    """

    arranger: Arranger
    lengths: Int64Array
    tokens: int

    @classmethod
    def of(cls, arranger: Arranger, lengths: Int64Array) -> DrawnDocuments:
        """Weigh documents.

        Raises:
            InvalidInputError: Those that are drawn have less than a token together.
        """
        tokens = arranger.drawn_total(lengths)
        if not tokens:
            raise InvalidInputError(
                "weights= draws documents without tokens only\ngive documents with tokens a weight"
                " above 0",
                argument="weights",
            )
        return cls(arranger, lengths, tokens)

    def rounds(self, order: AnyOrder, *, seed: int, epoch: int) -> Iterator[Int64Array]:
        """Return the positions of the documents of an epoch, round by round.

        Raises:
            InvalidInputError: Too many rounds are requested.
        """
        for number in range(ROUNDS_LIMIT):
            yield listed(self.arranger.once(order, seed=seed, epoch=epoch + number))
        raise InvalidInputError(
            f"{ROUNDS_LIMIT:,} rounds of documents drawn by weights= have less than"
            f" {self.tokens:,} tokens, which they have on average in one: nearly all tokens are in"
            " documents that are hardly ever drawn\nleave these out, or give them more weight",
            argument="weights",
        )
