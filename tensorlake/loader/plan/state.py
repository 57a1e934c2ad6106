"""The state of a loader: its order and position, under 1 KB of JSON, the same on all ranks.

A state names the version and the selection, the order's parameters with seed and epoch, and the
place in the epoch that follows the last global batch handed out. Batch size, world, workers,
cache and decode are not in it: any number of ranks continues the same order. The state of a mix
names the version, order and weight of each source (about 60 bytes each).

    {"format": "tensorlake-loader", "plan": 2, "version": "main@12", "selection": "…",
     "num_rows": 25000, "order": {"kind": "full"}, "seed": 7, "epoch": 3, "position": 10240,
     "skipped": 0, "source": {"url": "s3://bucket/pets", "framework": "torch", "view": "sharp"}}

``batches`` is present if they have a budget of tokens, or ranks are balanced: it records how, so
that the batches of a run can be found again; a loader that resumes does not need it.
``plan`` is the version of the order's arithmetic: the order of a state of an older release goes on
by its own, and so do the states that follow. ``source`` is present if the rows can be found again
from it alone; its format belongs to its creator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from tensorlake.errors import (
    InvalidInputError,
    NewerVersionWarning,
    StateMismatchError,
    UnsupportedFeatureError,
    shown,
)
from tensorlake.loader.plan.mix_order import AnyOrder, MixOrder, SplicedMixOrder, parse_order
from tensorlake.loader.plan.order import Shuffle
from tensorlake.loader.plan.plan import SEED_STOP
from tensorlake.loader.plan.shuffle import PLAN_VERSIONS
from tensorlake.quantities import checked_integer, is_whole_number

if TYPE_CHECKING:
    from tensorlake.loader.plan.sharding import Batches, Share

__all__ = ["LoaderState", "NewerVersionWarning", "Place", "check_state", "checked_epoch"]

FORMAT = "tensorlake-loader"


@dataclass(frozen=True, slots=True)
class LoaderState:
    """The parsed form of the dict that ``state_dict()`` returns and ``load_state_dict()`` takes."""

    version: str
    selection: str
    num_rows: int | None  # places of an epoch; None if it never ends
    order: AnyOrder
    seed: int
    epoch: int
    position: int
    skipped: int = 0  # rows of this epoch passed over by skip()
    source: Mapping[str, Any] | None = None  # how to find the rows again, if known
    batches: Mapping[str, Any] | None = None  # how rows were divided, if not by their number

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON values."""
        written: dict[str, Any] = {
            "format": FORMAT,
            "plan": self.order.version,
            "version": self.version,
            "selection": self.selection,
            "num_rows": self.num_rows,
            "order": self.order.to_json(),
            "seed": self.seed,
            "epoch": self.epoch,
            "position": self.position,
            "skipped": self.skipped,
        }
        for name, value in (("source", self.source), ("batches", self.batches)):
            if value is not None:
                written[name] = dict(value)
        return written

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> LoaderState:
        """Parse a state dict.

        Raises:
            InvalidInputError: It is not a loader's state, or damaged.
            UnsupportedFeatureError: It was written for another plan version.
        """
        found = value.get("format") if isinstance(value, Mapping) else value
        if not isinstance(found, str) or found != FORMAT:
            raise InvalidInputError(
                (
                    f"not a loader's state: 'format' is {shown(found)}, expected {shown(FORMAT)}"
                    if isinstance(value, Mapping)
                    else f"a loader's state is a dict, got {type(value).__name__} {shown(value)}"
                )
                + "\ngive the dict that loader.state_dict() returned",
                expected=FORMAT,
                actual=found,
            )
        version = value.get("plan")
        if not is_whole_number(version) or version not in PLAN_VERSIONS:
            raise UnsupportedFeatureError(
                f"the state was written for plan version {shown(version)};"
                f" this tensorlake orders by plan versions {', '.join(map(str, PLAN_VERSIONS))}"
                "\ncontinue with the tensorlake that wrote it, or start a new epoch",
                expected=PLAN_VERSIONS,
                actual=version,
            )
        state = cls(
            version=_text(value, "version"),
            selection=_text(value, "selection"),
            num_rows=None if value.get("num_rows") is None else _count(value, "num_rows"),
            order=parse_order(_members(value, "order"), int(version)),
            seed=_count(value, "seed", below=SEED_STOP),
            epoch=_count(value, "epoch", below=SEED_STOP),
            position=_count(value, "position"),
            skipped=_count(value, "skipped"),
            source=_members(value, "source") if "source" in value else None,
            batches=_members(value, "batches") if "batches" in value else None,
        )
        if state.num_rows is not None and state.position > state.num_rows:
            raise InvalidInputError(
                f"the state's position {state.position} is past its {state.num_rows} rows"
                "\ngive the dict that loader.state_dict() returned",
                expected=state.num_rows,
                actual=state.position,
            )
        return state


@dataclass(slots=True)
class Place:
    """The position of a loader in its epochs, by the batches it has handed out.

    Attributes:
        epoch: The current epoch, or the one that the next pass begins.
        position: The place in it that follows the last global batch handed out.
        skipped: Number of its rows that were skipped.
        is_fresh: Whether the next pass continues here; otherwise it begins the next epoch.
        finished: The epoch that ended last, if none has begun since.
        returned: The epoch and position of the state that was loaded last.
    """

    epoch: int = 0
    position: int = 0
    skipped: int = 0
    is_fresh: bool = True
    finished: int | None = None
    returned: tuple[int, int] | None = None

    def start(self, epoch: int) -> None:
        """Move to the beginning of an epoch."""
        self.epoch, self.position, self.skipped = epoch, 0, 0
        self.is_fresh, self.finished = True, None

    def end(self) -> None:
        """Move to the end of the epoch, which is the beginning of the next."""
        finished = self.epoch
        self.start(finished + 1)
        self.finished = finished

    def return_to(self, state: LoaderState) -> None:
        """Move to a state's position."""
        self.start(state.epoch)
        self.position, self.skipped = state.position, state.skipped
        self.returned = state.epoch, state.position

    def skip_to(self, position: int) -> None:
        """Skip the rows before a position."""
        self.skipped += position - self.position
        self.position, self.is_fresh, self.finished = position, True, None

    def hand_out(self, position: int) -> None:
        """Count the rows before a position as handed out."""
        self.position, self.is_fresh = position, False

    def counted(
        self, batches: Batches, numbers: range, agree: Callable[[], None]
    ) -> Callable[[Share], None]:
        """Return the function that moves on with each batch that is handed out.

        With several workers each counts whole rounds, so that its own state resumes at its next
        turn.

        Args:
            batches: The batches of the pass.
            numbers: Those that this process makes.
            agree: Called before each.
        """
        others = numbers.step - 1 - numbers.start

        def handed_out(share: Share) -> None:
            agree()
            self.hand_out(batches.stop(share.number + others))

        return handed_out


def checked_epoch(epoch: object) -> int:
    """Return the number of an epoch as a Python integer.

    Raises:
        InvalidInputError: It is not a valid epoch.
    """
    return checked_integer(epoch, name="epoch", most=SEED_STOP - 1)


def check_state(
    recorded: LoaderState,
    *,
    version: str,
    selection: str,
    num_rows: int | None,
    seed: int | None,
    shuffle: Shuffle,
    others: Mapping[str, tuple[Any, Any]] | None = None,
) -> None:
    """Refuse a state of another selection, seed or shuffle, listing recorded and given values.

    ``shuffle=True`` accepts any recorded shuffled order: the state's is used.
    ``seed=None`` accepts any seed. ``others`` are differences that the caller found.
    """
    given: dict[str, tuple[Any, Any]] = dict(others or {})
    if recorded.selection != selection:
        if (was := _versions_of(recorded)) != version:
            given["version"] = (was, version)
        given["selection"] = (recorded.selection, selection)
    if recorded.num_rows != num_rows:
        given["num_rows"] = (recorded.num_rows, num_rows)
    if seed is not None and recorded.seed != seed:
        given["seed"] = (recorded.seed, seed)
    if isinstance(recorded.order, MixOrder | SplicedMixOrder):
        own = [source.order.kind for source in recorded.order.sources]
    else:
        own = [recorded.order.kind]
    if not all(_order_fits(kind, shuffle) for kind in own):
        given["shuffle"] = (", ".join(dict.fromkeys(own)), shuffle)
    if not given:
        return
    width = max(len(name) for name in given)
    advice = "make the loader with the recorded arguments"
    if "version" in given and "mix" not in (version, recorded.version):
        advice = f"make the same view of that version, tl.open(url, version={recorded.version!r})"
    elif "selection" in given:
        advice = "make the loader of the same view or query, with the recorded arguments"
    rows = "\n".join(
        f"   {name:<{width}}  recorded {was!r}, given {now!r}" for name, (was, now) in given.items()
    )
    raise StateMismatchError(
        f"the state belongs to an order that differs in {', '.join(given)}\n{rows}\n"
        f"{advice}, or start over without load_state_dict()",
        expected={name: was for name, (was, _) in given.items()},
        actual={name: now for name, (_, now) in given.items()},
    )


def _versions_of(recorded: LoaderState) -> str:
    """Return the version that a state recorded; of a mix, those of its sources."""
    if isinstance(recorded.order, MixOrder) and all(one.name for one in recorded.order.sources):
        return ", ".join(f"{one.name} {one.version}" for one in recorded.order.sources)
    return recorded.version  # of many sources, a state has no names


def _order_fits(kind: str, shuffle: Shuffle) -> bool:
    if isinstance(shuffle, bool):
        return shuffle is (kind != "none")
    return kind == shuffle


def _count(value: Mapping[str, Any], name: str, *, below: int | None = None) -> int:
    member = value.get(name, 0 if name == "skipped" else None)
    if not is_whole_number(member) or member < 0:
        raise _damaged(name, "an integer >= 0", member)
    if below is not None and member >= below:
        raise _damaged(name, "an integer < 2**64", member)
    return int(member)


def _text(value: Mapping[str, Any], name: str) -> str:
    member = value.get(name)
    if not isinstance(member, str):
        raise _damaged(name, "a string", member)
    return member


def _members(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    member = value.get(name)
    if not isinstance(member, dict):
        raise _damaged(name, "an object", member)
    return cast("dict[str, Any]", member)


def _damaged(name: str, expected: str, actual: object) -> InvalidInputError:
    return InvalidInputError(
        f"the loader's state has {name} = {shown(actual)}, expected {expected}"
        "\ngive the dict that loader.state_dict() returned",
        expected=expected,
        actual=actual,
    )
