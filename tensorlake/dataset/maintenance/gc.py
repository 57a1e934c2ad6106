"""Expiring old versions, and removing data that no version needs, for users."""

from __future__ import annotations

import datetime as dt
from numbers import Real

from tensorlake.dataset.core.session import Session
from tensorlake.errors import InvalidInputError, ReadOnlyError, shown
from tensorlake.quantities import checked_integer, duration_of
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
    """Remove data that no version needs."""
    _check_may_write(session, "gc", dry_run=dry_run)
    return runtime.run(collect_garbage(session.store, dry_run=dry_run))


def expire(
    session: Session, *, older_than: OlderThan | None, keep_last: int | None, dry_run: bool
) -> ExpiryReport:
    """Expire old versions of every branch."""
    _check_may_write(session, "expire", dry_run=dry_run)
    if older_than is None and keep_last is None:
        raise InvalidInputError(
            "expire() requires older_than= or keep_last=\n"
            "pass older_than='90d', or keep_last=10, or both: versions that either keeps are kept"
        )
    if keep_last is not None:
        whole = "to expire a whole branch: ds.delete_branch(name)"
        keep_last = checked_integer(keep_last, name="keep_last", least=1, advice=whole)
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
    digits = isinstance(older_than, str) and older_than.strip().isdecimal()
    if (
        isinstance(older_than, Real) or digits
    ):  # 90 is as likely meant in days, and this ends in deletion
        raise InvalidInputError(
            f"older_than={shown(older_than)} has no unit\ngive one: '90d', '24h', '30min', '60s'",
            argument="older_than",
            actual=older_than,
        )
    try:
        return duration_of(older_than, what="older_than")
    except InvalidInputError as error:
        raise InvalidInputError(
            f"older_than={shown(older_than)} is neither a duration nor an aware datetime"
            "\ngive a timedelta or a number with its unit: '90d', '24h', '30min', '60s'",
            argument="older_than",
            actual=older_than,
        ) from error


def _check_may_write(session: Session, what: str, *, dry_run: bool) -> None:
    session.check_present()
    if session.why_read_only is not None and not dry_run:
        raise ReadOnlyError(
            f"{what}() writes to {session.store.url!r}, and this handle cannot:"
            f" {session.why_read_only}\nopen the dataset without read_only, or give dry_run=True",
            dataset=session.store.url,
        )
