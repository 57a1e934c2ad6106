"""Verify the bases of a fork: that each is there, and has the version that the fork began at.

Only where the fork needs packs that it does not have itself. The bytes of a base are verified by a
check of the base.
"""

from __future__ import annotations

from tensorlake.errors import TensorlakeError
from tensorlake.format import Base
from tensorlake.versions.log.log import BranchLog
from tensorlake.versions.refs.create import read_descriptor
from tensorlake.versions.verify.run import CheckRun

__all__ = ["check_bases"]

ADVICE = "restore the base where it was, or restore the fork from a copy that has absorbed it"


async def check_bases(check: CheckRun) -> None:
    """Report bases that are gone, or are other datasets than they were."""
    for base in check.packs.places.bases:
        what = await _fault(check, base)
        if what is not None:
            check.findings.add(base.url, what, advice=ADVICE)


async def _fault(check: CheckRun, base: Base) -> str | None:
    """Return the fault of a base; None where it is as it was."""
    try:
        store = check.packs.places.base_store(base)
        descriptor = await read_descriptor(store)
        entry = await BranchLog(store, base.branch).entry(base.seq)
    except TensorlakeError as error:
        return f"this base of the fork cannot be read: {str(error).splitlines()[0]}"
    if descriptor is None:
        return "this base of the fork is gone"
    if descriptor.id != base.id:
        return f"this base of the fork is another dataset now, {descriptor.id}"
    if entry is None or entry.digest != base.digest:
        return f"this base of the fork has no {base.version} any more, or another one"
    return None
