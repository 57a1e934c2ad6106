"""``tl.mix``: several datasets or views streamed as one, each with a weight.

    web  ─ 0.6 ─┐
    code ─ 0.3 ─┼─► one order, whatever the number of ranks ─► ds.torch(), .jax(), .loader()
    wiki ─ 0.1 ─┘

The order holds the weights to within a few rows in each stretch of at least four rows for each
source (docs/reference/plan.md). Batches have ``_source``, the number of each row's source, and
``_row``, its row there. Each source gives all its rows before one of them again, in epochs of its
own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NoReturn, cast, get_args

import numpy as np

from tensorlake.dataset.core.rowset import committed_rows, rowset_of
from tensorlake.dataset.core.structs import expand_names
from tensorlake.dataset.display.hints import no_such
from tensorlake.dataset.display.signatures import shows_methods
from tensorlake.dataset.handles import batches
from tensorlake.dataset.handles.dataset import View
from tensorlake.dataset.handles.rows import Rows, repin_of
from tensorlake.dataset.query.row_reference import served_rows
from tensorlake.errors import InvalidInputError, shown
from tensorlake.loader import (
    ComposedMix,
    Form,
    Framework,
    Loader,
    MixNode,
    MixRows,
    MixSource,
    MixStop,
    Packing,
    Weight,
    check_columns,
    check_weights,
    make_loader,
    token_column,
)
from tensorlake.quantities import is_whole_number

__all__ = ["Mix", "mix"]

PAIR = 2
SHOWN_ITEMS = 3
BRIEF_DEPTH = 3


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """The rows of all sources by name, and how they are mixed."""

    given: dict[str, Rows]
    root: MixNode

    def numbered(self, numbers: Sequence[int]) -> MixNode:
        """Return the same mix with other numbers for its sources, which another mix has too."""
        return _renumbered(self.root, numbers)


@shows_methods
class Mix:
    """Several sources as one stream; made by ``tl.mix``.

    Attributes:
        sources: The views mixed, by name, as they were when the mix was made; those of a mix inside
            this one, and those that only stages have, too.
        weights: The weights, as they were given.
        stop: When an epoch ends.
        by: The unit of the weights: rows or tokens.
        stages: From which place on which mix replaces this one.
    """

    def __init__(
        self,
        mixture: Mixture,
        weights: Mapping[str, Weight],
        stages: Sequence[tuple[int, Mix]] = (),
    ) -> None:
        self.sources = {
            name: View(committed_rows(rowset_of(one))) for name, one in mixture.given.items()
        }
        self.weights = dict(weights)
        self.stages = tuple(stages)
        self.__mixture__ = mixture

    torch, jax = batches.torch, batches.jax
    tensorflow, loader = batches.tensorflow, batches.loader

    @property
    def stop(self) -> MixStop:
        """When an epoch ends."""
        return self.__mixture__.root.stop

    @property
    def by(self) -> Literal["rows", "tokens"]:
        """The unit of the weights."""
        return "tokens" if self.__mixture__.root.by_tokens else "rows"

    @property
    def names(self) -> tuple[str, ...]:
        """The sources' names; ``_source`` of a batch is an index into them."""
        return tuple(self.sources)

    def __len__(self) -> int:
        if self.stop == "never":
            raise TypeError("a mix with stop='never' has no length\ngive stop='first' or 'all'")
        return self.__mixed_rows__().num_places

    def __repr__(self) -> str:
        lines = [f"Mix of {len(self.sources)} sources, by {self.by}, stop={shown(self.stop)}"]
        for name, weight in self.weights.items():
            described = "a function" if callable(weight) else f"{weight:g}"
            view = self.sources.get(name)
            rows = "a mix" if view is None else _described(view)
            lines.append(f"  {name}  {described}  {rows}")
        for place, stage in self.stages:
            weights = ", ".join(
                f"{name} {'a function' if callable(weight) else format(weight, 'g')}"
                for name, weight in stage.weights.items()
            )
            lines.append(f"  from place {place:,}: {weights}")
        return "\n".join(lines)

    def __getattr__(self, name: str) -> NoReturn:
        raise no_such(self, name)

    def pack(
        self,
        tokens: str,
        length: int,
        *,
        eos: int | None = None,
        split: bool = True,
        mask: str | None = None,
    ) -> batches.Packed:
        """Pack the documents of each source into sequences of one length, and mix the sequences.

        A sequence has documents of one source, whose number is in ``_source`` of a batch. Weights
        are shares of tokens, so the mix, and each mix inside it, is ``by="tokens"``. Sequences of
        cut documents are full, but for the last of each epoch of a source; with ``split=False``
        each weight is divided by the mean tokens of a sequence of its source.

        Args:
            tokens: The column of tokens, one array per row.
            length: Tokens of a sequence.
            eos: The token to put after each document.
            split: Cut documents where a sequence ends; False cuts only longer ones than a sequence.
            mask: A column of one number per token, such as which turns to learn from, packed alike.

        Raises:
            InvalidInputError: A mix, or one inside it, is by rows; or an argument is impossible.

        Example:
            >>> import tensorlake as tl
            >>> schema = {"tokens": tl.Array("uint16", (None,))}
            >>> web, code = (tl.create(f"memory://doc-pack-{n}", schema) for n in ("web", "code"))
            >>> web.extend({"tokens": [[1, 1, 1]] * 4}); code.extend({"tokens": [[2, 2]] * 4})
            >>> mixed = tl.mix({"web": (web, 0.5), "code": (code, 0.5)}, by="tokens")
            >>> (batch,) = mixed.pack("tokens", 4).loader(batch_size=4)
            >>> batch["tokens"].tolist()
            [[1, 1, 1, 1], [1, 1, 1, 1], [2, 2, 2, 2], [2, 2, 2, 2]]
            >>> batch["_source"].tolist()
            [0, 0, 1, 1]
            >>> web.discard(); code.discard()
        """
        from tensorlake.dataset.transform.pack import checked_packing

        root = self.__mixture__.root
        for node in root.all():
            if not node.by_tokens and len(node.parts) > 1:
                kind, there = "by rows", ""
                if node is not root:
                    kind, there = f"that has {self._listed(node)} in it by rows", " there too"
                raise InvalidInputError(
                    f"pack() of a mix {kind}: sequences have equal numbers of tokens, so they are"
                    f" mixed by shares of tokens\ngive tl.mix(…, by='tokens'){there}",
                    argument="by",
                    actual="rows",
                )
        views = [rowset_of(view) for view in self.sources.values()]
        made = [
            checked_packing(one, tokens, length, eos=eos, split=split, mask=mask) for one in views
        ]
        return batches.Packed(self, replace(made[0], has_sources=True))

    def __loader__(
        self, framework: Framework, arguments: dict[str, Any], form: Form | None = None
    ) -> Loader:
        """Make a loader of a framework."""
        rows = self.__mixed_rows__()
        known, chosen = (*rows.selection.columns, *rows.virtual), arguments.get("columns")
        names = known if chosen is None else expand_names(chosen, known)
        check_columns(rows.sources, [name for name in names if not name.startswith("_")])
        remake = partial(_made_again, self, framework, arguments, form)
        if isinstance(form, Packing):
            composed = ComposedMix(rows, form)
            return make_loader(composed, framework, remake, **arguments)
        return make_loader(rows, framework, remake, **arguments)

    def _listed(self, node: MixNode) -> str:
        numbers = {part for one in node.all() for part in one.parts if isinstance(part, int)}
        names = ", ".join(repr(self.names[number]) for number in sorted(numbers))
        return f"the mix of {names}"

    def __mixed_rows__(self) -> MixRows:
        from tensorlake.dataset.transform.loaders import computed_columns, edits_of

        given, root = self.__mixture__.given, self.__mixture__.root
        sources = [
            MixSource(
                name,
                rows.selection,
                rows.reader(),
                repin,
                edits_of(rows, repin),
                server=served_rows(rows),
                virtual=computed_columns(rows, repin),
            )
            for name, rows, repin in (
                (name, rowset_of(view), repin_of(given[name]))
                for name, view in self.sources.items()
            )
        ]
        rows = MixRows(tuple(sources), root)
        if not any(node.by_tokens for node in root.all()):
            return rows
        return replace(rows, tokens=token_column(rows.selection, "mix(by='tokens')"))


def mix(
    sources: Mapping[str, tuple[Rows | Mix, Weight]],
    *,
    by: Literal["rows", "tokens"] = "rows",
    stages: Sequence[tuple[int, Mix]] | None = None,
    stop: MixStop = "first",
) -> Mix:
    """Mix datasets or views into one stream, each with a weight.

    Args:
        sources: By name, a dataset, a view or another mix, and its weight: a number above 0, or a
            function of the position in the order (called at every 65,536th), which needs
            ``stop="never"``. The sources of another mix keep their proportions and are named
            "name/source"; it counts as used up by its own ``stop``.
        by: Unit of the weights. Shares of tokens are those of the column "tokens", or of the only
            lists of integers: each weight is divided by the source's mean length, which is read
            from the headers of its chunks.
        stages: Mixes that replace this one, each from a position in the order on, ascending; they
            need ``stop="never"``. Sources of the same name are the same, and continue with the rows
            that they have not given; other ones are added.
        stop: An epoch ends when the first source has given all its rows, when each has given
            them at least once, or never.

    Raises:
        InvalidInputError: A weight, a source, a stage or a keyword is invalid.

    Example:
        >>> import tensorlake as tl
        >>> web, code = (tl.create(f"memory://doc-{n}", {"x": "int64"}) for n in ("web", "code"))
        >>> web.extend({"x": range(300)}); code.extend({"x": range(100)})
        >>> mixed = tl.mix({"web": (web, 0.75), "code": (code, 0.25)})
        >>> len(mixed)
        399
        >>> next(iter(mixed.loader(batch_size=8)))["_source"]
        array([0, 0, 0, 0, 1, 0, 1, 0])
    """
    if not isinstance(by, str) or by not in ("rows", "tokens"):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(
            f"by is 'rows' or 'tokens', got {shown(by)}", argument="by", actual=by
        )
    if not isinstance(stop, str) or stop not in get_args(MixStop):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise InvalidInputError(
            f"stop is one of 'first', 'all', 'never', got {shown(stop)}", actual=stop
        )
    if not isinstance(sources, Mapping) or not sources:
        raise InvalidInputError(
            f"mix() takes {{'name': (dataset, weight), …}}, got {_brief(sources)}"
            "\nwrite tl.mix({'web': (web, 0.7), 'code': (code, 0.3)})",
            actual=sources,
        )
    given: dict[str, Rows] = {}
    weights: dict[str, Weight] = {}
    parts: list[int | MixNode] = []
    for name, pair in sources.items():
        if not isinstance(name, str):
            raise InvalidInputError(
                f"a source of the mix is named by a string, got {shown(name)}"
                "\nwrite tl.mix({'web': (ds, 0.5), …})",
                actual=name,
            )
        one, weight = _pair(name, pair)
        weights[name] = weight.item() if isinstance(weight, np.generic) else weight
        if isinstance(one, Mix):
            inside = {f"{name}/{own}": rows for own, rows in one.__mixture__.given.items()}
        else:
            inside = {name: one}
        if twice := [own for own in inside if own in given]:
            raise InvalidInputError(
                f"two sources of the mix are named {twice[0]!r}\nrename one", actual=twice[0]
            )
        numbers = {own: len(given) + at for at, own in enumerate(inside)}
        given |= inside
        if isinstance(one, Mix):
            parts.append(one.__mixture__.numbered([*numbers.values()]))
        else:
            parts.append(numbers[name])
    check_weights(weights, {name: len(one) for name, one in given.items()}, stop)
    node = MixNode(tuple(parts), tuple(weights.values()), stop, by == "tokens")
    begun = _staged(stages, given)
    numbered = {name: number for number, name in enumerate(given)}
    staged = [
        (place, one.__mixture__.numbered([numbered[name] for name in one.names]))
        for place, one in begun
    ]
    node = replace(node, stages=tuple(staged))
    _check_end(node)
    return Mix(Mixture(given, node), weights, begun)


def _renumbered(node: MixNode, numbers: Sequence[int]) -> MixNode:
    """Return the same mix of sources with other numbers."""
    parts = tuple(
        numbers[part] if isinstance(part, int) else _renumbered(part, numbers)
        for part in node.parts
    )
    stages = tuple((place, _renumbered(stage, numbers)) for place, stage in node.stages)
    return replace(node, parts=parts, stages=stages)


def _staged(stages: object, given: dict[str, Rows]) -> list[tuple[int, Mix]]:
    """Check the stages of a mix, and add the sources that only they have.

    Raises:
        InvalidInputError: They are not ascending pairs of a place and a mix, or a source is another
            one than that of its name.
    """
    if stages is None:
        return []
    begun: list[tuple[int, Mix]] = []
    pairs: list[Any] = list(stages) if isinstance(stages, Sequence) else [stages]
    for pair in pairs:
        place, one = pair if isinstance(pair, tuple | list) and len(pair) == PAIR else (None, None)
        if not is_whole_number(place) or not isinstance(one, Mix) or one.stages:
            raise InvalidInputError(
                f"stages is [(place, mix), …], of mixes without stages, got {_brief(pair)}"
                "\nwrite stages=[(1_000_000, tl.mix({'web': (web, 0.5), …})), …]",
                argument="stages",
                actual=pair,
            )
        least = begun[-1][0] + 1 if begun else 1
        if place < least:
            raise InvalidInputError(
                f"stages begin at ascending places, the first at 1 or later, got {place}"
                f"\nbegin this stage at {least} or later",
                argument="stages",
                actual=place,
            )
        for name, rows in one.__mixture__.given.items():
            known = given.setdefault(name, rows)
            if known is not rows and not _are_same(known, rows):
                raise InvalidInputError(
                    f"source {name!r} of the stage at {place} is {_brief(rows)}, but that of the"
                    f" mix is {_brief(known)} with other rows\ngive it another name",
                    argument="stages",
                    actual=name,
                )
        begun.append((int(place), one))
    return begun


def _are_same(one: Rows, other: Rows) -> bool:
    first, second = rowset_of(one), rowset_of(other)
    return first.url == second.url and first.selection.digest == second.selection.digest


def _check_end(node: MixNode) -> None:
    """Refuse an end that no arithmetic finds.

    Raises:
        InvalidInputError: An epoch would end at a place that depends on functions or stages, or
            never.
    """
    if node.stop == "never":
        return
    if node.varies:
        raise InvalidInputError(
            "stages, and weights that are functions of the place, have no end of an epoch that is"
            f" known in advance, but stop={node.stop!r}\ngive stop='never'",
            argument="stop",
            actual=node.stop,
        )
    endless = [isinstance(part, MixNode) and part.stop == "never" for part in node.parts]
    if all(endless) or (node.stop == "all" and any(endless)):
        raise InvalidInputError(
            f"stop={node.stop!r} waits for a mix with stop='never'\ngive stop='never', or give that"
            " mix another stop=",
            argument="stop",
            actual=node.stop,
        )


def _pair(name: str, pair: object) -> tuple[Rows | Mix, Any]:
    if isinstance(pair, Sequence) and len(pair) == PAIR and isinstance(pair[0], Rows | Mix):
        if isinstance(pair[0], Rows) and not rowset_of(pair[0]).has_rows:
            raise InvalidInputError(
                f"source {name!r} of the mix is an aggregate: it has no rows\nmix a view of rows"
            )
        return pair[0], pair[1]
    raise InvalidInputError(
        f"source {name!r} of the mix is a pair (dataset, view or mix, weight), got {_brief(pair)}"
        f"\nwrite tl.mix({{{name!r}: (ds, 0.5), …}})",
        actual=pair,
    )


def _described(view: View) -> str:
    return f"{len(view):,} rows of {view.url!r} {view.version}"


def _brief(given: object, *, depth: int = 0) -> str:
    """Format a value for a message: datasets and views by their URL, nested lists to a depth."""
    if isinstance(given, Mix):
        return f"a mix of {', '.join(map(repr, given.names))}"
    if isinstance(given, Rows):
        return f"a {type(given).__name__} of {given.url!r}"
    if isinstance(given, list | tuple) and depth < BRIEF_DEPTH:
        items = cast("list[object]", given)
        more = ", …" if len(items) > SHOWN_ITEMS else ""
        kind = "list" if isinstance(given, list) else "tuple"
        brief = ", ".join(_brief(one, depth=depth + 1) for one in items[:SHOWN_ITEMS])
        return f"a {kind} of {brief or 'nothing'}{more}"
    return shown(given)


def _made_again(
    mixed: Mix, framework: Framework, arguments: Any, form: Form | None, **replaced: Any
) -> Loader:
    return mixed.__loader__(framework, arguments | replaced, form)
