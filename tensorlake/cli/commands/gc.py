"""``tensorlake gc URL``: remove data that no version needs."""

from tensorlake.cli.options import AsJson, DryRun, Url, Yes, confirm
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
    """Remove data that no version, tag or view needs; does not expire versions.

    Example: tensorlake gc pets.tl --dry-run
    """
    with terms.open(url, read_only=False) as ds:
        if not (dry_run or yes):
            preview = ds.gc(dry_run=True)
            what = f"{preview.deleted_packs:,} packs ({human_nbytes(preview.deleted_nbytes)})"
            confirm(
                f"Delete {what} of {url} that no version needs?", yes=preview.deleted_packs == 0
            )
        report = ds.gc(dry_run=dry_run)
    print_report(report, as_json=as_json, quiet=terms.quiet)
