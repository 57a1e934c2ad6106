"""``tensorlake gc URL``: remove what no version needs."""

from dataclasses import asdict

from tensorlake.cli.confirm import DryRun, confirm
from tensorlake.cli.options import (
    AsJson,
    EndpointUrl,
    Quiet,
    StorageOptions,
    Url,
    Yes,
    open_dataset,
)
from tensorlake.cli.output import print_json, size

__all__ = ["gc"]


def gc(
    url: Url,
    *,
    dry_run: DryRun = False,
    yes: Yes = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
    storage_option: StorageOptions = None,
    endpoint_url: EndpointUrl = None,
) -> None:
    """Remove data that no version, tag or view needs; history stays unless it was given up."""
    with open_dataset(
        url, at=None, storage_option=storage_option, endpoint_url=endpoint_url, read_only=False
    ) as ds:
        if not (dry_run or yes):
            told = ds.gc(dry_run=True)
            what = f"{told.deleted_packs:,} packs ({size(told.deleted_nbytes)})"
            confirm(f"Delete {what} of {url} that no version needs?", yes=told.deleted_packs == 0)
        report = ds.gc(dry_run=dry_run)
    if as_json:
        print_json(asdict(report))
    elif not quiet:
        print(report)
