"""``tensorlake gc URL``: remove what no version needs."""

from tensorlake.cli.confirm import DryRun, confirm
from tensorlake.cli.options import AsJson, Url, Yes
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes

__all__ = ["gc"]


def gc(
    url: Url,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Remove data that no version, tag or view needs; history stays unless it was given up."""
    with terms.open(url, read_only=False) as ds:
        if not (dry_run or yes):
            told = ds.gc(dry_run=True)
            what = f"{told.deleted_packs:,} packs ({human_nbytes(told.deleted_nbytes)})"
            confirm(f"Delete {what} of {url} that no version needs?", yes=told.deleted_packs == 0)
        report = ds.gc(dry_run=dry_run)
    print_report(report, as_json=as_json, quiet=terms.quiet)
