"""The caller of a request and its scopes: decided once for each request, by `Access`."""

from __future__ import annotations

from dataclasses import dataclass

from tensorlake_server.auth.scopes import Action, Scope

__all__ = ["NOBODY", "Principal"]


@dataclass(frozen=True, slots=True)
class Principal:
    """The caller of a request.

    Attributes:
        name: For the audit log: ``link``, ``anonymous``, ``token:<id>:<name>``.
        scopes: The actions that are allowed.
        author: In whose name their commits are; None for the server's own user.
    """

    name: str
    scopes: tuple[Scope, ...] = ()
    author: str | None = None

    def may(
        self, action: Action, dataset: str, branch: str | None = None, *, view: str | None = None
    ) -> bool:
        """Whether one of the scopes allows it; see `Scope.allows`."""
        return any(scope.allows(action, dataset, branch, view=view) for scope in self.scopes)

    def names_views_of(self, dataset: str, view: str | None = None) -> bool:
        """Whether one of the scopes is for this view of a dataset, and for no more; None: any."""
        return any(scope.names_views_of(dataset, view) for scope in self.scopes)


NOBODY = Principal("nobody")
