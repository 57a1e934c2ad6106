"""The OpenAPI document: what FastAPI cannot see of bodies, access, and stable names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from fastapi.routing import APIRoute
    from pydantic import BaseModel

__all__ = ["add_components", "component", "operation_id"]

PREFIX = "#/components/schemas/"
SCHEMES = {
    "token": {"type": "http", "scheme": "bearer", "description": "docs/reference/rest.md: Access"}
}
"""How a client authenticates; a browser's cookie is made from the same token."""


def component(model: type[BaseModel]) -> dict[str, str]:
    """Refer to a model that `add_components` describes."""
    return {"$ref": f"{PREFIX}{model.__name__}"}


def operation_id(route: APIRoute) -> str:
    """Name an operation after its function: generated clients keep their names."""
    return route.name


def add_components(app: FastAPI, models: Sequence[type[BaseModel]]) -> None:
    """Describe models that no route declares."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        document = build()
        both = [(model, "validation") for model in models]
        _, described = models_json_schema(both, ref_template=PREFIX + "{model}")  # pyright: ignore[reportArgumentType] - the literal is widened in the list
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, schema in described["$defs"].items():
            schemas.setdefault(name, schema)
        document["components"]["securitySchemes"] = SCHEMES
        document["security"] = [{name: []} for name in SCHEMES]
        return document

    app.openapi = openapi
