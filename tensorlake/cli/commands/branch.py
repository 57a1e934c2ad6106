"""``tensorlake branch URL [NAME]``: list, create or delete branches."""

import warnings
from typing import Annotated

from tensorlake.cli.commands.log import commit_document, commit_line
from tensorlake.cli.options import (
    AsJson,
    At,
    Url,
    Yes,
    check_one_name,
    confirm,
    delete_option,
    name_argument,
)
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms
from tensorlake.dataset import Commit, Dataset
from tensorlake.errors import (
    CorruptionError,
    DamagedBranchWarning,
    SchemaError,
    SnapshotExpiredError,
    UnsupportedError,
)

__all__ = ["branch"]


def branch(
    url: Url,
    name: Annotated[str | None, name_argument("Branch to create; omit to list branches.")] = None,
    *,
    at: At = None,
    delete: Annotated[
        str | None, delete_option("Delete this branch; its name stays reserved.")
    ] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """List branches with their newest commits, create one, or delete one.

    Example: tensorlake branch pets.tl fix-labels --at main@1
    """
    damaged: dict[str, str] = {}
    check_one_name(name, delete, verb="create")
    with terms.open(url, read_only=False) as ds:
        if delete is not None:
            confirm(f"Delete branch {delete!r} of {url}?", yes=yes)
            ds.delete_branch(delete)
            if as_json:
                print_json({"deleted": delete})
            return
        if name is not None:
            with ds.branch(name, at=at) as made:
                newest = [made.log(1)[0]]
        else:
            newest, damaged = _listed(ds)
    unread = [{"branch": known, "damaged": why} for known, why in damaged.items()]
    if as_json:
        print_json([*(commit_document(commit) for commit in newest), *unread])
        return
    lines = [commit_line(commit) for commit in newest]
    lines += [(known, "", "", f"cannot be read: {why}", "") for known, why in damaged.items()]
    print_table(lines)


def _listed(ds: Dataset) -> tuple[list[Commit], dict[str, str]]:
    """Return the newest commit of each branch, and the errors of branches that cannot be read."""
    with warnings.catch_warnings():  # the table lists them
        warnings.simplefilter("ignore", DamagedBranchWarning)
        names = ds.branches
    newest: list[Commit] = []
    damaged: dict[str, str] = {}
    for known in names:
        try:
            newest.append(ds.at(known).log(1)[0])
        except (CorruptionError, SchemaError, SnapshotExpiredError, UnsupportedError) as error:
            damaged[known] = str(error).splitlines()[0]
    return newest, damaged
