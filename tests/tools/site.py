"""Build the documentation as a site: ``make docs``.

    docs/*.md and images ─┐
                          ├─► build/docs ─► zensical ─► docs/site
    docstrings ─► API ────┘

The pages of the API are made of the signatures and docstrings of what is public, as ``help()``
shows them, so that they cannot be out of date. A public name belongs to one page (`pages`).
"""

from __future__ import annotations

import inspect
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorlake as tl
from tensorlake.loader import Loader

__all__ = ["build", "page", "pages"]

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "build" / "docs"
FOLDER = "reference/api"
SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Example|Examples):$")
ITEM = re.compile(r"^(\*{0,2}[\w., ]+?)(?: \([^)]*\))?: (.*)$", re.DOTALL)
DOCTEST = re.compile(r"^>>>.*?(?:\n\n|\Z)", re.MULTILINE | re.DOTALL)  # outside of a section
WIDTH = 100
Public = Mapping[str, Any]  # objects by the names that users write


def pages() -> dict[str, tuple[str, Public]]:
    """Return the title and the objects of each page, by its name."""
    public = {f"tl.{name}": getattr(tl, name) for name in (*tl.__all__, "open", "list")}
    modules = {name: value for name, value in public.items() if isinstance(value, ModuleType)}
    classes = {name: value for name, value in public.items() if inspect.isclass(value)}
    raised = {name: value for name, value in classes.items() if issubclass(value, Exception)}
    types = {
        name: value
        for name, value in classes.items()
        if value.__module__.startswith("tensorlake.types") and name not in raised
    }
    handles = {name: classes[name] for name in ("tl.View", "tl.Group", "tl.Row", "tl.Tensor")}
    told = {"tl.Dataset", "tl.Mix", *raised, *types, *handles}
    steps = [*_of(modules.pop("tl.decode"), "tl.decode").items()]
    steps += _of(modules.pop("tl.collate"), "tl.collate").items()
    ingest = _of(modules.pop("tl.ingest"), "tl.ingest")
    del modules["tl.errors"]
    return {
        "functions": (
            "Functions",
            {
                name: value
                for name, value in public.items()
                if name not in classes and not isinstance(value, ModuleType)
            },
        ),
        "dataset": ("Dataset", {"tl.Dataset": tl.Dataset}),
        "view": ("View, Row and Tensor", handles),
        "types": (_TYPES, types),
        "loader": ("Loader", {"Loader": Loader, "tl.Mix": tl.Mix, **dict(steps)}),
        "ingest": ("Ingestion", ingest),
        "values": (
            "Reports and other values",
            {name: value for name, value in classes.items() if name not in told},
        ),
        "modules": (
            "Modules",
            {key: one for name, value in modules.items() for key, one in _of(value, name).items()},
        ),
        "errors": ("Errors and warnings", raised),
    }


def page(title: str, objects: Public) -> str:
    """Return a page of Markdown: the title, and each object with its public members."""
    lines = [f"# {title}", "Signatures and docstrings of the code. " + _GUIDE]
    for name, value in objects.items():
        is_class = inspect.isclass(value)
        is_called = not is_class or (name.startswith("tl.") and title in _CALLED)
        lines += [f"## {name}", *([_code(_signature(name, value))] if is_called else [])]
        lines += _described(value)
        for member, function in _members(value) if is_class and title != _TYPES else ():
            lines.append(f"### {name.rpartition('.')[2]}.{member}")
            lines += [_code(_signature(member, function))] if callable(function) else []
            lines += _described(function)
    return "\n\n".join(lines) + "\n"


_TYPES = "Types"  # what else they have is for who writes one: docs/how-to/add-a-type.md
_CALLED = {_TYPES, "Loader", "Modules"}  # other classes are made by functions
_GUIDE = "The [SDK](../sdk.md) and the [loader](../loader.md) have pages that introduce them."


def _of(module: ModuleType, name: str) -> dict[str, Any]:
    """Return what a module makes public, but other modules and plain values."""
    found = ((one, getattr(module, one)) for one in sorted(module.__all__))
    return {
        f"{name}.{one}": value
        for one, value in found
        if callable(value) and not isinstance(value, ModuleType)
    }


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(cls)):
        value = inspect.getattr_static(cls, name)
        if isinstance(value, staticmethod | classmethod):
            value = getattr(cls, name)
        is_told = inspect.isroutine(value) or isinstance(value, property)
        if not name.startswith("_") and is_told and _is_ours(value):
            yield name, value


def _is_ours(value: Any) -> bool:
    made = value.fget if isinstance(value, property) else inspect.unwrap(value)
    return str(getattr(made, "__module__", "")).startswith("tensorlake") and bool(value.__doc__)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def _described(value: Any) -> Iterator[str]:
    text = inspect.cleandoc(value.__doc__ or "")
    section, kept = "", list[str]()
    for line in [*text.splitlines(), "Returns:"]:
        found = SECTION.match(line)
        if not found:
            kept.append(line)
            continue
        yield from _section(section, textwrap.dedent("\n".join(kept)).strip("\n"))
        section, kept = found[1], []


def _section(title: str, text: str) -> Iterator[str]:
    if not text:
        return
    if not title:
        yield DOCTEST.sub(lambda found: _code(found[0].strip()) + "\n\n", text).strip()
    elif title.startswith("Example"):
        yield _code(text)
    elif title in {"Returns", "Yields"}:
        yield f"**{title}** {text}"
    else:
        yield f"**{title}**"
        items = re.split(r"\n(?=\S)", text)
        named = (ITEM.match(item) for item in items)
        yield "\n".join(
            f"- `{found[1]}`: {' '.join(found[2].split())}" if found else f"- {item}"
            for found, item in zip(named, items, strict=True)
        )


def _signature(name: str, value: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:  # of an exception without a constructor of its own
        return f"{name}(message)"
    shown = [_parameter(one) for key, one in signature.parameters.items() if key != "self"]
    kinds = [one.kind for key, one in signature.parameters.items() if key != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    returned = signature.return_annotation
    end = "" if inspect.isclass(value) or returned is signature.empty else f" -> {_name(returned)}"
    line = f"{name}({', '.join(shown)}){end}"
    return line if len(line) <= WIDTH else f"{name}(\n    " + ",\n    ".join(shown) + f",\n){end}"


def _parameter(one: inspect.Parameter) -> str:
    stars = {one.VAR_POSITIONAL: "*", one.VAR_KEYWORD: "**"}.get(one.kind, "")
    annotation = "" if one.annotation is one.empty else f": {_name(one.annotation)}"
    equals = " = " if annotation else "="
    return f"{stars}{one.name}{annotation}" + (
        "" if one.default is one.empty else f"{equals}{one.default!r}"
    )


def _name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def build(arguments: Sequence[str] = ()) -> int:
    """Write the source of the site, and build it; return the exit status."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.copytree(DOCS, SOURCE, ignore=shutil.ignore_patterns("site", ".cache"))
    (SOURCE / FOLDER).mkdir()
    for name, (title, objects) in pages().items():
        (SOURCE / FOLDER / f"{name}.md").write_text(page(title, objects), encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", *arguments]
    built = subprocess.run(
        [*command, "--config-file", str(SOURCE / "zensical.toml")], check=False
    ).returncode
    if built == 0:
        shutil.rmtree(DOCS / "site", ignore_errors=True)
        shutil.move(SOURCE / "site", DOCS / "site")
    return built


if __name__ == "__main__":
    sys.exit(build(sys.argv[1:]))
