from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorlake.errors import InvalidInputError
from tensorlake_server.auth.scopes import EVERY, Action, Scope

NAMES = st.sampled_from(["pets", "pets-old", "vision/pets", "p", "main", "fix-a", "fix-", "x*"])


@pytest.mark.parametrize(
    "text", ["", "reed", "READ", "read:", "read:pets@main", "admin:pets@main", "write:pets@",
             ":pets", "write:pe\nts", "read pets", "write:@main"],
)  # fmt: skip
def test_what_is_no_scope_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="scope"):
        Scope.parse(text)


@pytest.mark.parametrize(
    "text",
    ["view:sharp", "read:pets#", "read:#sharp", "write:pets#sharp", "admin:pets#sharp",
     "read:pets@main#sharp", "labeller:pets#sharp", "viewer:pets@main"],
)  # fmt: skip
def test_a_scope_for_a_view_only_reads(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a scope"):
        Scope.parse(text)


@pytest.mark.parametrize(
    ("role", "scope"),
    [
        ("viewer:pets", "read:pets"),
        ("viewer:pets#sharp", "read:pets#sharp"),
        ("viewer", "read:*"),
        ("labeller:vision/*", "write:vision/*@labels-*"),
        ("maintainer:pets", "write:pets"),
        ("admin:pets", "admin:pets"),
    ],
)
def test_a_role_is_a_name_of_a_scope(role: str, scope: str) -> None:
    assert str(Scope.parse(role)) == scope


@pytest.mark.parametrize(
    ("text", "action", "dataset", "view", "is_allowed"),
    [
        ("read:pets#sharp", Action.READ, "pets", "sharp", True),
        ("read:pets#sharp", Action.READ, "pets", "sharper", False),
        ("read:pets#sharp", Action.READ, "pets", None, False),
        ("read:pets#sharp", Action.WRITE, "pets", "sharp", False),
        ("read:pets#s*", Action.READ, "pets", "sharp", True),
        ("read:*#sharp", Action.READ, "vision/pets", "sharp", True),
        ("read:pets", Action.READ, "pets", "sharp", True),
        ("admin:pets", Action.WRITE, "pets", "sharp", False),
        ("read:pets", Action.READ, "cars", "sharp", False),
    ],
)
def test_a_scope_for_a_view_allows_that_view(
    text: str, action: Action, dataset: str, view: str | None, *, is_allowed: bool
) -> None:
    assert Scope.parse(text).allows(action, dataset, view=view) is is_allowed


@pytest.mark.parametrize(
    "text", ["read:*", "write:pets", "write:pets@fix-*", "admin:vision/*", "read:a#b#c"]
)
def test_a_scope_reads_back_as_written(text: str) -> None:
    assert str(Scope.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "action", "dataset", "branch", "is_allowed"),
    [
        ("read", Action.READ, "vision/pets", None, True),
        ("read", Action.WRITE, "pets", "main", False),
        ("read:pets", Action.READ, "pets-old", None, False),
        ("read:pets*", Action.READ, "pets-old", None, True),
        ("read:vision/*", Action.READ, "vision/a/b", None, True),
        ("read:vision/*", Action.READ, "vision", None, False),
        ("write:pets", Action.WRITE, "pets", EVERY, True),
        ("write:pets", Action.ADMIN, "pets", EVERY, False),
        ("write:pets@fix-*", Action.WRITE, "pets", "fix-1", True),
        ("write:pets@fix-*", Action.WRITE, "pets", "hotfix-1", False),
        ("write:pets@fix-*", Action.WRITE, "pets", EVERY, False),
        ("write:pets@fix-*", Action.WRITE, "pets", None, True),
        ("write:pets@fix-*", Action.READ, "pets", None, True),
        ("admin:pets", Action.WRITE, "pets", EVERY, True),
        ("read:p.ts", Action.READ, "pets", None, False),
        ("read:pets", Action.READ, "pets\n", None, False),
    ],
)
def test_a_scope_allows_what_it_names(
    text: str, action: Action, dataset: str, branch: str | None, *, is_allowed: bool
) -> None:
    assert Scope.parse(text).allows(action, dataset, branch) is is_allowed


@given(name=NAMES, other=NAMES, branch=NAMES, action=st.sampled_from(Action))
def test_a_scope_without_stars_reaches_one_name_only(
    name: str, other: str, branch: str, action: Action
) -> None:
    scope = Scope(Action.WRITE, name.replace("*", ""), branch.replace("*", ""))

    if scope.allows(action, other, branch):
        assert other == scope.dataset
        assert action < Action.ADMIN
