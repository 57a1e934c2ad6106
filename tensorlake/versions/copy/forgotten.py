"""Rows that a source has forgotten: copies refuse their versions, and mirrors drop their packs.

The records under ``forgotten/`` are carried once the log of the target has what they tell of. A
pack is deleted from a mirror alone, when the source has confirmed that its own is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from tensorlake.errors import CorruptionError
from tensorlake.format import FORGOTTEN, RUNS, PackId, encode_name, parse_tag_path
from tensorlake.storage import Store, runtime
from tensorlake.versions.copy.plan import ENTRIES_AT_ONCE, CopyPlan
from tensorlake.versions.log.put_once import put_surely
from tensorlake.versions.refs.forgotten import CLEANED, REPORT, clean_of
from tensorlake.versions.refs.registry import read_citation

__all__ = ["follow_forgotten"]


@dataclass(frozen=True, slots=True)
class _Record:
    """The objects that a source has of one call of ``forget``."""

    id: str
    cleaned: bytes
    begun: bytes | None  # None: of a server, which has no lists of rows
    report: bytes | None

    @property
    def clean(self) -> dict[str, int]:
        return clean_of(self.cleaned, f"{FORGOTTEN}{self.id}{CLEANED}")

    def strings(self, name: str, *, of: bytes | None, where: str) -> list[str]:
        """Return a list of strings of one of its objects; [] if there is none.

        Raises:
            CorruptionError: It is damaged.
        """
        path = f"{FORGOTTEN}{self.id}{where}"
        try:
            found: Any = json.loads(of or b"{}").get(name, [])
        except (ValueError, AttributeError) as error:
            raise CorruptionError(f"{path!r} is damaged: {error}", object=path) from error
        if not isinstance(found, list):
            raise CorruptionError(f"{path!r} is damaged: {name} is not a list", object=path)
        return [str(one) for one in cast("list[Any]", found)]


async def follow_forgotten(plan: CopyPlan, source: Store, target: Store, *, mirror: bool) -> None:
    """Carry the records of forgotten rows, and do in the target what they tell of.

    Names of forgotten versions that the source has deleted are deleted, and their versions do not
    open any more. A mirror also gets the source's records of runs, without texts of the rows, and
    loses the packs that the source has confirmed to be gone.

    Raises:
        CorruptionError: A record is damaged.
    """
    listed = {meta.path async for meta in source.list(FORGOTTEN)}
    if not listed:
        return
    here = {meta.path async for meta in target.list(FORGOTTEN)}
    for path in sorted(one for one in listed if one.endswith(CLEANED)):
        id_ = path.removeprefix(FORGOTTEN).removesuffix(CLEANED)
        if f"{FORGOTTEN}{id_}{REPORT}" in here:
            continue
        begun, cleaned, report = [
            await source.get(f"{FORGOTTEN}{id_}{ending}") for ending in (".json", CLEANED, REPORT)
        ]
        one = _Record(id_, cleaned or b"", begun, report)
        if _is_copied(plan, one.clean):
            await _follow(plan, one, source, target, mirror=mirror)


def _is_copied(plan: CopyPlan, clean: dict[str, int]) -> bool:
    """Whether each branch's versions are copied up to the first one without the rows."""
    heads = {branch: plan.heads[branch] for branch in clean if branch in plan.heads}
    ends = {branch: head.seq + (head.kind == "end") for branch, head in heads.items()}
    return all(clean[branch] <= end for branch, end in ends.items())


async def _follow(
    plan: CopyPlan, one: _Record, source: Store, target: Store, *, mirror: bool
) -> None:
    await put_surely(target, f"{FORGOTTEN}{one.id}{CLEANED}", one.cleaned)
    deleted = set(one.strings("deleted", of=one.cleaned, where=CLEANED))
    await _delete_names(plan, deleted, one.clean, source, target)
    if one.begun is None:
        return
    await put_surely(target, f"{FORGOTTEN}{one.id}.json", one.begun)
    packs = [PackId.parse(pack) for pack in one.strings("packs", of=one.begun, where=".json")]
    paths = [pack.path for pack in packs if pack not in plan.packs]
    if mirror:
        runs = one.strings("redacted", of=one.begun, where=".json")
        await _put_redacted(runs, source, target)
    if one.report is None:
        return
    if mirror:
        deletes = [partial(target.delete, path) for path in paths]
        await runtime.gather_bounded(deletes, limit=ENTRIES_AT_ONCE)
    if not [path for path in paths if await target.head(path) is not None]:
        await put_surely(target, f"{FORGOTTEN}{one.id}{REPORT}", one.report)


async def _delete_names(
    plan: CopyPlan, deleted: set[str], clean: dict[str, int], source: Store, target: Store
) -> None:
    """Put the source's tombstones in the places of tags and views of forgotten versions."""
    for path in plan.tags:
        if parse_tag_path(path) not in deleted:
            continue
        data, found = await source.get(path), await read_citation(target, path)
        is_forgotten = found is not None and found.seq < clean.get(found.branch, 0)
        if data is not None and is_forgotten and await read_citation(source, path) is None:
            await target.put(path, data)


async def _put_redacted(runs: Iterable[str], source: Store, target: Store) -> None:
    """Put records of runs again that had texts of the rows."""
    for run in runs:
        async for meta in source.list(f"{RUNS}{encode_name(run)}/"):
            if not meta.path.endswith(".json"):
                continue
            data = await source.get(meta.path)
            if data is not None and await target.get(meta.path) != data:
                await target.put(meta.path, data)
