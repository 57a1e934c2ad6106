"""``tensorlake gc URL``: remove data that no version of a dataset, or of a lake, needs."""

import tensorlake as tl
from tensorlake.cli.lake import All, LakeRun
from tensorlake.cli.options import AsJson, DryRun, Url, Yes, confirm
from tensorlake.cli.output import print_report
from tensorlake.cli.terms import Terms
from tensorlake.quantities import human_nbytes

__all__ = ["gc"]


def gc(
    url: Url,
    *,
    all_: All = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """Remove data that no version, tag or view needs; does not expire versions.

    Example: tensorlake gc pets.tl --dry-run
    """

    def collect(place: str, *, dry_run: bool) -> tl.CollectionReport:
        with terms.open(place, read_only=dry_run) as ds:
            return ds.gc(dry_run=dry_run)

    def ask(packs: int, nbytes: int) -> None:
        what = f"{packs:,} packs ({human_nbytes(nbytes)})"
        question = f"Delete {what} of {url} that no version needs?"
        confirm(question, yes=packs == 0, has_dry_run=True)

    def run_all(*, dry_run: bool, is_shown: bool = True) -> LakeRun[tl.CollectionReport]:
        lake = LakeRun(
            url,
            lambda _name, place: collect(place, dry_run=dry_run),
            terms,
            as_json and is_shown,
            text=(lambda name, report: f"{name}: {report}") if is_shown else None,
        )
        lake.run()
        return lake

    if all_:
        if not (dry_run or yes):
            found = [one for _, one in run_all(dry_run=True, is_shown=False).done]
            ask(sum(one.deleted_packs for one in found), sum(one.deleted_nbytes for one in found))
        run_all(dry_run=dry_run).end()
        return
    if not (dry_run or yes):
        preview = collect(url, dry_run=True)
        ask(preview.deleted_packs, preview.deleted_nbytes)
    print_report(collect(url, dry_run=dry_run), as_json=as_json, quiet=terms.quiet)
