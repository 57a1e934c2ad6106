"""``tensorlake branch URL [NAME]``: list the branches, start one, or end one."""

import warnings
from typing import Annotated

from tensorlake.cli.commands.log import commit_document, commit_line
from tensorlake.cli.confirm import confirm
from tensorlake.cli.options import (
    AsJson,
    At,
    Url,
    Yes,
    check_one_name,
    delete_option,
    name_argument,
)
from tensorlake.cli.output import print_json, print_table
from tensorlake.cli.terms import Terms
from tensorlake.dataset import Commit, DamagedBranchWarning, Dataset
from tensorlake.errors import (
    CorruptionError,
    SchemaError,
    SnapshotExpiredError,
    UnsupportedError,
)

__all__ = ["branch"]


def branch(
    url: Url,
    name: Annotated[str | None, name_argument("The branch to start; none: list them.")] = None,
    *,
    at: At = None,
    delete: Annotated[str | None, delete_option("End this branch.")] = None,
    yes: Yes = False,
    as_json: AsJson = False,
    terms: Terms,
) -> None:
    """List branches with their newest commits, start one, or end one."""
    damaged: dict[str, str] = {}
    check_one_name(name, delete, verb="start")
    with terms.open(url, read_only=False) as ds:
        if delete is not None:
            confirm(f"End branch {delete!r} of {url}?", yes=yes)
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
    """The newest commit of each branch; and of those that cannot be read, why."""
    with warnings.catch_warnings():  # it is a line of the table
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
