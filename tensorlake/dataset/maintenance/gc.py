"""Expiring old versions, and removing data that no version needs, for users."""

from __future__ import annotations

import datetime as dt
from numbers import Real

from tensorlake.dataset.core.session import Session
from tensorlake.errors import InvalidInputError, ReadOnlyError, shown
from tensorlake.quantities import duration_of, is_whole_number
from tensorlake.storage import runtime
from tensorlake.versions import (
    CollectionReport,
    ExpiryReport,
    collect_garbage,
    expire_versions,
)

__all__ = ["CollectionReport", "ExpiryReport", "OlderThan", "expire", "gc"]

OlderThan = str | dt.timedelta | dt.datetime


def gc(session: Session, *, dry_run: bool) -> CollectionReport:
    """Remove what no version needs."""
    _check_may_write(session, "gc", dry_run=dry_run)
    return runtime.run(collect_garbage(session.store, dry_run=dry_run))


def expire(
    session: Session, *, older_than: OlderThan | None, keep_last: int | None, dry_run: bool
) -> ExpiryReport:
    """Give up old versions of every branch."""
    _check_may_write(session, "expire", dry_run=dry_run)
    if older_than is None and keep_last is None:
        raise InvalidInputError(
            "expire() requires older_than= or keep_last=\n"
            "pass older_than='90d', or keep_last=10, or both: versions that either keeps are kept"
        )
    if keep_last is not None and not is_whole_number(keep_last):
        raise InvalidInputError(
            f"expire(keep_last={keep_last!r}) is {type(keep_last).__name__}, not a number of"
            " versions\ngive an int: keep_last=10",
            keep_last=keep_last,
        )
    if keep_last is not None and keep_last < 1:
        raise InvalidInputError(
            f"keep_last must be >= 1, got {keep_last}\n"
            "to expire a whole branch: ds.delete_branch(name)",
            keep_last=keep_last,
        )
    age = None if older_than is None else _age(older_than)
    made = expire_versions(session.store, older_than=age, keep_last=keep_last, dry_run=dry_run)
    return runtime.run(made)


def _age(older_than: OlderThan) -> dt.datetime | dt.timedelta:
    if isinstance(older_than, dt.datetime):
        if older_than.tzinfo is None:
            raise InvalidInputError(
                f"older_than={older_than.isoformat()!r} has no time zone\ngive an aware datetime,"
                " or a duration such as '90d'"
            )
        return older_than
    if isinstance(older_than, Real):  # 90 is as likely meant in days, and this ends in deletion
        raise InvalidInputError(
            f"older_than={shown(older_than)} has no unit\ngive one: '90d', '24h', '30min', '60s'",
            argument="older_than",
            actual=older_than,
        )
    return duration_of(older_than, what="older_than")


def _check_may_write(session: Session, what: str, *, dry_run: bool) -> None:
    session.check_open()
    if session.why_read_only is not None and not dry_run:
        raise ReadOnlyError(
            f"{what}() writes to {session.store.url!r}, and this handle cannot:"
            f" {session.why_read_only}\nopen the dataset without read_only, or give dry_run=True",
            dataset=session.store.url,
        )
