"""The order of a mix as a state records it: its sources, their weights and their positions.

    {"kind": "mix", "stop": "first",
     "sources": [["web", "main@12", {"kind": "full"}, 0.6], ["code", "main@3", …, 0.4]]}

More than 32 sources are packed, so that a state of 300 has less than 4 kB: a digest of the names,
and versions, orders and weights compressed. The names are the program's, in its order.

    {"kind": "mix", "stop": "first", "count": 300, "names": "…", "packed": "…"}

If weights are functions of the place, the recorded weights are those of the span that contains the
position, with its start and the rows of each source taken before it:
``"span": [65536, [39322, 26214]]``. So rows handed out never depend on a function again.
"""

from __future__ import annotations

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader.plan.arrangement import ArrangedOrder
from tensorlake.loader.plan.order import Order
from tensorlake.loader.plan.shuffle import PLAN_VERSION
from tensorlake.loader.plan.splice import SplicedOrder
from tensorlake.quantities import is_whole_number

__all__ = [
    "MIX_STOPS",
    "AnyOrder",
    "MixOrder",
    "MixStop",
    "SourceOrder",
    "Span",
    "SplicedMixOrder",
    "SplicedSource",
    "Weight",
    "names_digest",
    "parse_order",
]

MixStop = Literal["first", "all", "never"]
MIX_STOPS: tuple[MixStop, ...] = ("first", "all", "never")
# A number, or a function of the place in the order.
Weight: TypeAlias = float | Callable[[int], float]
SOURCE_FIELDS = 4
PASS_FIELDS = 5
SPAN_FIELDS = 2
LISTED_SOURCES = 32  # in about 60 bytes each; more are packed
NUMBER_NBYTES = 8
SPLICE_NUMBERS = ("epoch", "place", "num_rows", "number")


@dataclass(frozen=True, slots=True)
class Span:
    """Places from ``start`` on, with the same weights; ``taken`` rows of each source before it."""

    start: int
    taken: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class SourceOrder:
    """One source: its name, its version, and the order of each of its epochs."""

    name: str
    version: str
    order: Order


@dataclass(frozen=True, slots=True)
class MixOrder:
    """The mapping from places to rows of several sources."""

    stop: MixStop
    sources: tuple[SourceOrder, ...]
    span: Span  # the one that contains the recorded position
    version: int = PLAN_VERSION  # of the plan
    digest: str = ""  # of the names, if a state has no others

    @property
    def names_digest(self) -> str:
        """Digest of the sources' names."""
        return self.digest or names_digest([source.name for source in self.sources])

    @property
    def is_shuffled(self) -> bool:
        """Whether rows of some source are not in its own order."""
        return any(source.order.is_shuffled for source in self.sources)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this order, as recorded in a state."""
        if len(self.sources) > LISTED_SOURCES and self.version > 1:
            return self._packed()
        sources = [
            [source.name, source.version, source.order.to_json(), weight]
            for source, weight in zip(self.sources, self.span.weights, strict=True)
        ]
        value: dict[str, Any] = {"kind": "mix", "stop": self.stop, "sources": sources}
        if self.span.start:
            value["span"] = [self.span.start, list(self.span.taken)]
        return value

    def _packed(self) -> dict[str, Any]:
        orders = [json.dumps(source.order.to_json()) for source in self.sources]
        known = [*dict.fromkeys(orders)]
        listed = {
            "versions": [source.version for source in self.sources],
            "orders": known,
            "order": [known.index(order) for order in orders],
        }
        numbers = np.array([self.span.weights, self.span.taken], dtype="<f8")
        numbers[1].view("<i8")[:] = self.span.taken
        planes = numbers.view(np.uint8).reshape(-1, NUMBER_NBYTES).T.tobytes()  # zeros together
        blob = json.dumps(listed).encode() + b"\0" + planes
        value: dict[str, Any] = {"kind": "mix", "stop": self.stop, "count": len(self.sources)}
        packed = b85encode(zlib.compress(blob, 9)).decode()
        return value | {"names": self.names_digest, "packed": packed, "start": self.span.start}

    @classmethod
    def _unpacked(cls, value: Mapping[str, Any], version: int) -> MixOrder:
        try:
            blob = zlib.decompress(b85decode(value["packed"]))
            text, _, planes = blob.partition(b"\0")
            listed: dict[str, Any] = json.loads(text)
            count, start = int(value["count"]), int(value["start"])
            flat = np.frombuffer(planes, np.uint8).reshape(NUMBER_NBYTES, 2 * count)
            numbers = np.ascontiguousarray(flat.T).view("<f8").reshape(2, count)
            orders = [Order.from_json(json.loads(one), version) for one in listed["orders"]]
            sources = tuple(
                SourceOrder("", pinned, orders[number])
                for pinned, number in zip(listed["versions"], listed["order"], strict=True)
            )
        except (KeyError, ValueError, TypeError, IndexError, zlib.error) as error:
            raise _damaged(value) from error
        if len(sources) != count or value["stop"] not in MIX_STOPS or start < 0:
            raise _damaged(value)
        taken = np.ascontiguousarray(numbers[1]).view("<i8").tolist()
        span = Span(start, tuple(taken), tuple(numbers[0].tolist()))
        return cls(value["stop"], sources, span, version, str(value["names"]))

    @classmethod
    def from_json(cls, value: Mapping[str, Any], version: int = PLAN_VERSION) -> MixOrder:
        """Parse the result of ``to_json``, of a state of a plan version."""
        if "packed" in value:
            return cls._unpacked(value, version)
        stop, listed = value.get("stop"), value.get("sources")
        if stop not in MIX_STOPS or not isinstance(listed, list) or not listed:
            raise _damaged(value)
        sources: list[SourceOrder] = []
        weights: list[float] = []
        for source in cast("list[Any]", listed):
            if not isinstance(source, list) or len(cast("list[Any]", source)) != SOURCE_FIELDS:
                raise _damaged(value)
            name, pinned, order, weight = cast("list[Any]", source)
            if not isinstance(name, str) or not isinstance(pinned, str):
                raise _damaged(value)
            if not isinstance(order, dict) or not isinstance(weight, int | float):
                raise _damaged(value)
            sources.append(SourceOrder(name, pinned, Order.from_json(cast("Any", order), version)))
            weights.append(weight)
        start, taken = _span_of(value, len(sources))
        span = Span(start, tuple(taken), tuple(weights))
        return cls(stop, tuple(sources), span, version)


@dataclass(frozen=True, slots=True)
class SplicedSource:
    """One source of a spliced mix.

    Attributes:
        number: The number of its pass under way.
        given: Rows that this pass gave before the splice.
        stream: Its number when its orders were seeded.
        left: Rows that an epoch of the mix has left of it.
        order: The order of its passes, with the cuts of that one.
    """

    number: int
    given: int
    stream: int
    left: int
    order: SplicedOrder


@dataclass(frozen=True, slots=True)
class SplicedMixOrder:
    """The order of a mix whose sources or weights were changed, as a state records it.

    Attributes:
        base: The order of epochs that begin with this mix.
        sources: Each source, where the epoch under way was spliced.
        epoch: The epoch that was spliced.
        place: The last place where it was; 0 once that epoch is over.
        num_rows: Places of the epoch from then on, those before the splice included.
        number: How often it was spliced before.
    """

    base: MixOrder
    sources: tuple[SplicedSource, ...]
    epoch: int = 0
    place: int = 0
    num_rows: int = 0
    number: int = 0

    @property
    def kind(self) -> str:
        """Its name in a state."""
        return "spliced mix"

    @property
    def version(self) -> int:
        """Version of the plan."""
        return self.base.version

    @property
    def is_shuffled(self) -> bool:
        """Whether rows of some source are not in its own order."""
        return self.base.is_shuffled

    def at(self, epoch: int) -> SplicedMixOrder:
        """Return the order as it is in an epoch: not spliced, if it is another."""
        if epoch == self.epoch and self.place:
            return self
        sources = tuple(
            replace(one, number=0, given=0, left=0, order=replace(one.order, epoch=0, cuts=()))
            for one in self.sources
        )
        return replace(self, sources=sources, epoch=0, place=0, num_rows=0, number=0)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this order, as recorded in a state."""
        sources = [
            [one.number, one.given, one.stream, one.left, one.order.to_json()]
            for one in self.sources
        ]
        value: dict[str, Any] = {"kind": self.kind, "base": self.base.to_json(), "sources": sources}
        numbers = {name: getattr(self, name) for name in SPLICE_NUMBERS}
        return value | numbers if self.place else value

    @classmethod
    def from_json(cls, value: Mapping[str, Any], version: int = PLAN_VERSION) -> SplicedMixOrder:
        """Parse the result of ``to_json``, of a state of a plan version."""
        base, listed = value.get("base"), value.get("sources")
        numbers = [value.get(name, 0) for name in SPLICE_NUMBERS]
        if not isinstance(base, dict) or not isinstance(listed, list):
            raise _damaged(value)
        sources: list[SplicedSource] = []
        for one in cast("list[Any]", listed):
            if not isinstance(one, list) or len(cast("list[Any]", one)) != PASS_FIELDS:
                raise _damaged(value)
            number, given, stream, left, order = cast("list[Any]", one)
            numbers += [number, given, stream, left]
            if not isinstance(order, dict):
                raise _damaged(value)
            parsed = SplicedOrder.from_json(cast("dict[str, Any]", order), version)
            sources.append(SplicedSource(number, given, stream, left, parsed))
        mixed = MixOrder.from_json(cast("dict[str, Any]", base), version)
        are_numbers = all(is_whole_number(one) and one >= 0 for one in numbers)
        if not are_numbers or len(mixed.sources) != len(sources):
            raise _damaged(value)
        return cls(mixed, tuple(sources), *numbers[: len(SPLICE_NUMBERS)])


AnyOrder: TypeAlias = Order | MixOrder | ArrangedOrder | SplicedOrder | SplicedMixOrder


def parse_order(value: Mapping[str, Any], version: int = PLAN_VERSION) -> AnyOrder:
    """Parse an order of any kind, of a state of a plan version."""
    if value.get("kind") == "mix":
        return MixOrder.from_json(value, version)
    if value.get("kind") == "arranged":
        return ArrangedOrder.from_json(value, version)
    if value.get("kind") == "spliced":
        return SplicedOrder.from_json(value, version)
    if value.get("kind") == "spliced mix":
        return SplicedMixOrder.from_json(value, version)
    return Order.from_json(value, version)


def names_digest(names: Sequence[str]) -> str:
    """Return a digest of sources' names, in their order."""
    return blake2b(json.dumps(names).encode(), digest_size=16).hexdigest()


def _span_of(value: Mapping[str, Any], count: int) -> tuple[int, Sequence[int]]:
    recorded = value.get("span")
    if recorded is None:
        return 0, [0] * count
    numbers: list[Any] = []
    if isinstance(recorded, list) and len(cast("list[Any]", recorded)) == SPAN_FIELDS:
        start, taken = cast("list[Any]", recorded)
        numbers = [start, *taken] if isinstance(taken, list) else []
    if len(numbers) != 1 + count or not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise _damaged(value)
    return numbers[0], numbers[1:]


def _damaged(value: Mapping[str, Any]) -> InvalidInputError:
    return InvalidInputError(
        f"{shown(dict(value))} is not a mix order\ngive the dict that loader.state_dict() returned",
        actual=dict(value),
    )
