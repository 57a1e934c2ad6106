"""Scopes: the actions that a token allows, in their written form.

    read                     all datasets
    read:pets                one dataset
    read:vision/*            the datasets of a folder, at any depth
    write:pets               read it, and write every branch and tag of it
    write:pets@fix-*         read all of it, write these branches; no tags
    admin:pets               all that, and delete the dataset

``*`` is the only special character and stands for any text. A dataset that no scope lets one read
does not exist for that token.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

from tensorlake.errors import InvalidInputError, UnsupportedFeatureError

__all__ = ["EVERY", "Action", "Scope"]

EVERY = "*"
"""As a pattern: every name. As a branch that is asked for: all of them, the dataset as a whole."""


class Action(IntEnum):
    """An action; each includes those before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True)
class Scope:
    """One permission.

    >>> fixes = Scope.parse("write:pets@fix-*")
    >>> fixes.allows(Action.WRITE, "pets", "fix-labels"), fixes.allows(Action.WRITE, "pets", "main")
    (True, False)
    >>> fixes.allows(Action.READ, "pets"), fixes.allows(Action.READ, "pets-old")
    (True, False)
    """

    action: Action
    dataset: str = EVERY
    branch: str = EVERY

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a scope.

        Raises:
            InvalidInputError: It is not a scope.
            UnsupportedFeatureError: It is one of a view.
        """
        action, colon, rest = text.partition(":")
        dataset, at, branch = rest.partition("@")
        if action == "view" or "#" in dataset:
            raise UnsupportedFeatureError(
                f"scope {text!r}: scopes on views are not supported yet"
                "\ngive a dataset: read:pets; or copy the view: view.materialize(url)",
                scope=text,
            )
        known = action.upper() in Action.__members__ and action.islower()
        is_whole = (not colon or dataset) and (not at or branch) and text.isprintable()
        if not known or not is_whole or (at and action != "write"):
            raise InvalidInputError(
                f"{text!r} is not a scope"
                "\nwrite read:DATASET, write:DATASET, write:DATASET@BRANCH or admin:DATASET;"
                " * stands for any text",
                scope=text,
            )
        return cls(Action[action.upper()], dataset or EVERY, branch or EVERY)

    def allows(self, action: Action, dataset: str, branch: str | None = None) -> bool:
        """Whether it lets one do this.

        Args:
            action: The action.
            dataset: To which dataset.
            branch: To which branch; None where any will do, EVERY for the whole dataset.
        """
        if self.action < action or not _matches(self.dataset, dataset):
            return False
        return action is Action.READ or branch is None or _matches(self.branch, branch)

    def __str__(self) -> str:
        at = "" if self.branch == EVERY else f"@{self.branch}"
        return f"{self.action.name.lower()}:{self.dataset}{at}"


def _matches(pattern: str, name: str) -> bool:
    return (
        re.fullmatch(".*".join(map(re.escape, pattern.split(EVERY))), name, re.DOTALL) is not None
    )
