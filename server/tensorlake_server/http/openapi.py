"""The OpenAPI document: what FastAPI cannot see of bodies, access, and stable names.

Generated clients are made of it, so that an operation keeps its id, and no schema contains itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import models_json_schema

from tensorlake_server.http.examples import BODIES, PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi import FastAPI
    from fastapi.routing import APIRoute
    from pydantic import BaseModel

__all__ = ["add_components", "component", "operation_id"]

PREFIX = "#/components/schemas/"
JSON = "application/json"
CELL_VALUE = {
    "description": "a sample, as JSON",
    "anyOf": [
        {"type": "string"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "array", "items": {}},
        {"type": "object", "additionalProperties": True},
        {"type": "null"},
    ],
}
"""Not recursive, which generators of clients do not read: lists and objects have any items."""


def component(model: type[BaseModel]) -> dict[str, str]:
    """Refer to a model that `add_components` describes."""
    return {"$ref": f"{PREFIX}{model.__name__}"}


def operation_id(route: APIRoute) -> str:
    """Name an operation after its function: generated clients keep their names."""
    return route.name


def add_components(
    app: FastAPI,
    models: Sequence[type[BaseModel]],
    *,
    cookie: str,
    issuer: str | None,
    is_open: bool,
) -> None:
    """Describe what no route declares.

    Args:
        app: The application.
        models: Its models of bodies that it reads by itself.
        cookie: The name of the cookie of a session.
        issuer: The OpenID provider whose tokens it takes.
        is_open: Whether a client without a token may read.
    """
    build = app.openapi
    schemes = _schemes(cookie, issuer)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        document = build()
        both = [(model, "validation") for model in models]
        _, described = models_json_schema(both, ref_template=PREFIX + "{model}")  # pyright: ignore[reportArgumentType] - the literal is widened in the list
        schemas = document.setdefault("components", {}).setdefault("schemas", {})
        for name, schema in described["$defs"].items():
            schemas.setdefault(name, schema)
        schemas["CellValue"] = CELL_VALUE
        document["components"]["securitySchemes"] = schemes
        document["security"] = [{name: []} for name in schemes] + ([{}] if is_open else [])
        for operation in _operations(document):
            _complete(operation)
        return document

    app.openapi = openapi


def _schemes(cookie: str, issuer: str | None) -> dict[str, Any]:
    """Return how a client authenticates."""
    schemes: dict[str, Any] = {
        "token": {
            "type": "http",
            "scheme": "bearer",
            "description": "docs/reference/rest.md: Access",
        },
        "session": {"type": "apiKey", "in": "cookie", "name": cookie},
    }
    if issuer is not None:
        url = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        schemes["openid"] = {"type": "openIdConnect", "openIdConnectUrl": url}
    return schemes


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _complete(operation: dict[str, Any]) -> None:
    """Add examples, the type of bodies that are not JSON, and what needs no token."""
    name = operation["operationId"]
    if name == "open_session":
        operation["security"] = []
    for parameter in operation.get("parameters", ()):
        if parameter["name"] in PARAMETERS:
            parameter["example"] = PARAMETERS[parameter["name"]]
    if name in BODIES:
        operation["requestBody"]["content"][JSON]["example"] = BODIES[name]
    for response in operation["responses"].values():
        for media_type, content in response.get("content", {}).items():
            if not content and media_type != JSON:
                content["schema"] = {"type": "string", "format": "binary"}
