"""``GET /v1/docs``: the OpenAPI document as a page of HTML, made here.

It has no script and loads nothing: its only style is inline, and allowed by its hash. So it works
without the internet, and its policy refuses everything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["REFERENCE_POLICY", "reference_page"]

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .6rem .8rem; border-radius: 6px; background: #8882; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem .8rem .2rem 0; }
summary { cursor: pointer; padding: .3rem 0; }
summary b { display: inline-block; min-width: 4.5rem; }
details { border-top: 1px solid #8884; }
"""
REFERENCE_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; style-src"
    f" 'sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}'"
)
JSON = "application/json"


def reference_page(document: Mapping[str, Any]) -> str:
    """Write the page of a document."""
    info = document["info"]
    groups: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            (tag,) = operation.get("tags", ["session"])[:1]
            groups.setdefault(tag, []).append(_operation(method, path, operation, document))
    links = " · ".join(f'<a href="#{escape(tag)}">{escape(tag)}</a>' for tag in groups)
    sections = "".join(
        f'<h2 id="{escape(tag)}">{escape(tag)}</h2>{"".join(parts)}'
        for tag, parts in groups.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(info['title'])} HTTP API</title><style>{STYLE}</style></head><body>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}: HTTP API</h1>"
        f'<p>{links}</p><p>The same as JSON, for generators of clients: <a href="/v1/openapi.json">'
        f"/v1/openapi.json</a>. Requests carry one of:</p>{_schemes(document)}{sections}"
        "</body></html>"
    )


def _schemes(document: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_scheme(scheme))}</td></tr>"
        for name, scheme in document["components"]["securitySchemes"].items()
    ]
    return f"<table>{''.join(rows)}</table>"


def _scheme(scheme: Mapping[str, Any]) -> str:
    match scheme["type"]:
        case "http":
            return "Authorization: Bearer TOKEN"
        case "apiKey":
            return f"the cookie {scheme['name']}, which POST /v1/session sets"
        case _:
            return f"Authorization: Bearer JWT, of {scheme['openIdConnectUrl']}"


def _operation(
    method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]
) -> str:
    parts = [_parameters(operation.get("parameters", ()))]
    content = operation.get("requestBody", {}).get("content", {})
    for media_type, one in content.items():
        parts.append(f"<h4>Body: <code>{escape(media_type)}</code></h4>")
        parts += _members(one.get("schema", {}), document)
    example = content.get(JSON, {}).get("example")
    parts.append(f"<pre>{escape(_curl(method, path, operation, example))}</pre>")
    parts.append(_answers(operation["responses"]))
    return (
        f'<details id="{escape(operation["operationId"])}"><summary><b>{method.upper()}</b>'
        f"<code>{escape(path)}</code> {escape(_first_line(operation))}</summary>"
        f"{''.join(parts)}</details>"
    )


def _first_line(operation: Mapping[str, Any]) -> str:
    return operation.get("description", operation.get("summary", "")).partition("\n")[0]


def _parameters(parameters: Any) -> str:
    rows = [
        _row(f"{one['name']} ({one['in']})", one["schema"], is_required=one.get("required", False))
        for one in parameters
    ]
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _members(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[str]:
    found = document["components"]["schemas"].get(_named(schema), schema)
    required = found.get("required", ())
    rows = [
        _row(name, one, is_required=name in required)
        for name, one in found.get("properties", {}).items()
    ]
    if rows:
        yield f"<table>{''.join(rows)}</table>"


def _row(name: str, schema: Mapping[str, Any], *, is_required: bool) -> str:
    about = schema.get("description", "")
    needed = "required" if is_required else _default(schema)
    cells = (f"<code>{escape(name)}</code>", escape(_type(schema)), escape(needed), escape(about))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _default(schema: Mapping[str, Any]) -> str:
    default = schema.get("default")
    return "" if default is None else f"default {json.dumps(default)}"


def _type(schema: Mapping[str, Any]) -> str:
    """Name the type of a value: ``integer ≥ 0``, ``array of string``, ``QueryRequest``."""
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(_type, choices)))
    if name := _named(schema):
        return name
    if "const" in schema or "enum" in schema:
        return " or ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of {_type(schema.get('items', {}))}"
    least = f" ≥ {schema['minimum']}" if "minimum" in schema else ""
    most = f" ≤ {schema['maximum']}" if "maximum" in schema else ""
    return f"{kind}{least}{most}"


def _named(schema: Mapping[str, Any]) -> str:
    return schema.get("$ref", "").rpartition("/")[2]


def _curl(method: str, path: str, operation: Mapping[str, Any], example: Any) -> str:
    """Write a request as a command, with the examples of its parameters."""
    for one in operation.get("parameters", ()):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(one.get("example", one["name"].upper())))
    words = ["curl"] if method == "get" else ["curl", "-X", method.upper()]
    lines = [" ".join([*words, f'"$SERVER{path}"'])]
    if operation.get("security") != []:
        lines.append('-H "Authorization: Bearer $TOKEN"')
    if example is not None:
        lines.append(f"-H 'Content-Type: {JSON}'")
        lines.append(f"-d {shlex.quote(json.dumps(example, ensure_ascii=False))}")
    return " \\\n  ".join(lines)


def _answers(responses: Mapping[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(status)}</code></td><td>{escape(_body(one))}</td></tr>"
        for status, one in responses.items()
    ]
    return f"<h4>Responses</h4><table>{''.join(rows)}</table>"


def _body(response: Mapping[str, Any]) -> str:
    bodies = [
        f"{media_type}: {_type(one['schema'])}" if one.get("schema") else media_type
        for media_type, one in response.get("content", {}).items()
    ]
    return "; ".join(bodies) or response.get("description", "")
