"""Scopes: the actions that a token allows, in their written form.

    read                     all datasets
    read:pets                one dataset
    read:vision/*            the datasets of a folder, at any depth
    read:pets#cats           the rows and columns of a saved view, as a dataset of their own
    write:pets               read it, and write every branch and tag of it
    write:pets@fix-*         read all of it, write these branches; no tags
    admin:pets               all that, and delete the dataset

Roles are names of scopes, and are written as what they stand for:

    viewer:pets              read:pets
    labeller:pets            write:pets@labels-*
    maintainer:pets          write:pets
    admin:pets               itself

``*`` is the only special character and stands for any text. A dataset that no scope lets one read
does not exist for that token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from tensorlake.errors import InvalidInputError

__all__ = ["EVERY", "Action", "Scope"]

EVERY = "*"
"""As a pattern: every name. As a branch that is asked for: all of them, the dataset as a whole."""


class Action(IntEnum):
    """An action; each includes those before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3


ROLES = {
    "viewer": (Action.READ, EVERY),
    "labeller": (Action.WRITE, "labels-*"),
    "maintainer": (Action.WRITE, EVERY),
    "admin": (Action.ADMIN, EVERY),
}
"""Roles: an action, and the branches that it is for."""


@dataclass(frozen=True, slots=True)
class Scope:
    """One permission.

    >>> fixes = Scope.parse("write:pets@fix-*")
    >>> fixes.allows(Action.WRITE, "pets", "fix-labels"), fixes.allows(Action.WRITE, "pets", "main")
    (True, False)
    >>> fixes.allows(Action.READ, "pets"), fixes.allows(Action.READ, "pets-old")
    (True, False)
    >>> str(Scope.parse("labeller:pets"))
    'write:pets@labels-*'
    """

    action: Action
    dataset: str = EVERY
    branch: str = EVERY
    view: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a scope.

        Raises:
            InvalidInputError: It is not a scope.
        """
        action, colon, rest = text.partition(":")
        before, hash_, view = rest.partition("#")
        dataset, at, branch = before.partition("@")
        role = ROLES.get(action)
        known = role is not None or (action.upper() in Action.__members__ and action.islower())
        is_whole = (not colon or dataset) and (not at or branch) and (not hash_ or view)
        may_have = {"@": action == "write", "#": action in ("read", "viewer")}
        is_fit = all(may_have[mark] for mark in (at, hash_) if mark)
        if not known or not is_whole or not is_fit or not text.isprintable():
            raise InvalidInputError(
                f"{text!r} is not a scope"
                "\nwrite read:DATASET, read:DATASET#VIEW, write:DATASET, write:DATASET@BRANCH or"
                f" admin:DATASET, or a role: {', '.join(ROLES)}; * stands for any text",
                scope=text,
            )
        does, of = role or (Action[action.upper()], EVERY)
        return cls(does, dataset or EVERY, branch or of, view if hash_ else None)

    def allows(
        self, action: Action, dataset: str, branch: str | None = None, *, view: str | None = None
    ) -> bool:
        """Whether it lets one do this.

        Args:
            action: The action.
            dataset: To which dataset.
            branch: To which branch; None where any will do, EVERY for the whole dataset.
            view: To the rows of which saved view, which can only be read.
        """
        if self.action < action or not _matches(self.dataset, dataset):
            return False
        if self.view is not None or view is not None:
            is_named = self.view is None or (view is not None and _matches(self.view, view))
            return is_named and action is Action.READ
        return action is Action.READ or branch is None or _matches(self.branch, branch)

    def names_views_of(self, dataset: str, view: str | None = None) -> bool:
        """Whether it is for this view of a dataset, and for no more; None: for any view of it."""
        return (
            self.view is not None
            and _matches(self.dataset, dataset)
            and (view is None or _matches(self.view, view))
        )

    def __str__(self) -> str:
        at = "" if self.branch == EVERY else f"@{self.branch}"
        view = "" if self.view is None else f"#{self.view}"
        return f"{self.action.name.lower()}:{self.dataset}{at}{view}"


def _matches(pattern: str, name: str) -> bool:
    return (
        re.fullmatch(".*".join(map(re.escape, pattern.split(EVERY))), name, re.DOTALL) is not None
    )
