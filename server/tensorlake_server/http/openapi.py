"""Schemas, for OpenAPI, of bodies that routes read themselves and FastAPI cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from pydantic import BaseModel

__all__ = ["add_components", "component"]

PREFIX = "#/components/schemas/"


def component(model: type[BaseModel]) -> dict[str, str]:
    """Refer to a model that `add_components` describes."""
    return {"$ref": f"{PREFIX}{model.__name__}"}


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
        return document

    app.openapi = openapi
