"""Refuse licences that are not permissive, in all that is installed or shipped: ``make licences``.

`python tests/tools/licences.py [SITE-PACKAGES…]` looks at each Python distribution of this
interpreter, of the folders given, and at each npm package that `viewer/package-lock.json` installs.
Licences are compared with a list of those denied; a package without a stated licence is denied as
well.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = [
    "Exempt",
    "Package",
    "denied",
    "exceptions",
    "families",
    "main",
    "npm_packages",
    "shipped_by",
    "stated",
]

ROOT = Path(__file__).resolve().parents[2]
OURS = "tensorlake-dl"
PAGE = ROOT / "docs" / "explanation" / "dependencies.md"
VIEWER = ROOT / "viewer"

UNSTATED = "unstated"
DENIED = {  # family -> how licences of it are named, in identifiers, classifiers and texts
    "AGPL": r"\bAGPL|\bAFFERO\b",
    "LGPL": r"\bLGPL|\b(?:LESSER|LIBRARY) GENERAL PUBLIC\b",
    "GPL": r"\bGPL|(?<!\bLESSER )(?<!\bLIBRARY )(?<!\bAFFERO )\bGENERAL PUBLIC\b",
    "MPL": r"\bMPL|\bMOZILLA PUBLIC\b",
    "EPL": r"\bEPL\b|\bECLIPSE PUBLIC\b",
    "CDDL": r"\bCDDL|\bCOMMON DEVELOPMENT AND DISTRIBUTION\b",
    "EUPL": r"\bEUPL|\bEUROPEAN UNION PUBLIC\b",
    "OSL": r"\bOSL|\bOPEN SOFTWARE LICEN[SC]E\b",
    "CPAL": r"\bCPAL|\bCOMMON PUBLIC ATTRIBUTION\b",
    "SSPL": r"\bSSPL|\bSERVER SIDE PUBLIC\b",
    "BUSL": r"\bBUSL|\bBUSINESS SOURCE\b",
    "Elastic": r"\bELASTIC(?:-2| LICEN[SC]E)",
    "Commons Clause": r"\bCOMMONS[- ]CLAUSE\b",
    "Creative Commons NC, ND or SA": r"\bCC[- ]BY(?:[- ](?:NC|ND|SA))+\b|\bNON-?COMMERCIAL\b",
    "proprietary": r"\bPROPRIETARY\b",
}
SPDX = re.compile(r"[(]*[A-Za-z0-9.+-]+[)]*(?: (?:AND|OR|WITH) [(]*[A-Za-z0-9.+:-]+[)]*)*")
NAMED_WITHIN = 300  # characters: a text that is a licence names it at its beginning


@dataclass(frozen=True, slots=True)
class Package:
    """One installed package, with all that it states about its licence."""

    kind: str  # "Python" or "npm"
    name: str
    version: str
    licences: tuple[str, ...]
    where: str
    is_shipped: bool = False  # no exception holds for it

    def __str__(self) -> str:
        stated = "; ".join(self.licences) or "no licence stated"
        return f"{self.kind} package {self.name} {self.version} ({self.where}): {stated}"


@dataclass(frozen=True, slots=True)
class Exempt:
    """A row of the table: packages by name, where ``*`` is any end of it."""

    pattern: str
    licence: str
    reason: str


def families(licence: str) -> frozenset[str]:
    """Return the denied families of a stated licence; of alternatives, those of the best."""
    text = " ".join(licence.split())
    if text.upper() in {"", "UNKNOWN", "UNLICENSED", "NONE", "OTHER"} or text.startswith("SEE "):
        return frozenset({UNSTATED})
    if SPDX.fullmatch(text):
        return _alternatives(re.findall(r"[()]|[^\s()]+", text))
    return _named(text[:NAMED_WITHIN])


def _named(text: str) -> frozenset[str]:
    return frozenset(family for family, named in DENIED.items() if re.search(named, text.upper()))


def _alternatives(tokens: list[str]) -> frozenset[str]:
    """Read ``A OR B``, consuming the tokens."""
    found = [_together(tokens)]
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        found.append(_together(tokens))
    return frozenset() if not all(found) else frozenset().union(*found)


def _together(tokens: list[str]) -> frozenset[str]:
    """Read ``A AND B``; an exception after WITH changes nothing."""
    found: frozenset[str] = frozenset()
    while tokens:
        token = tokens.pop(0)
        if token == "(":
            found |= _alternatives(tokens)
        elif token == ")":
            return found
        elif token == "WITH":
            tokens.pop(0)
        elif token != "AND":
            found |= _named(token)
        if tokens and tokens[0] == "OR":
            return found
    return found


def python_packages(folders: Sequence[str]) -> Iterator[Package]:
    """Yield the distributions of this interpreter, and of other ``site-packages``."""
    core = _core_names()
    for where, found in [
        ("installed", metadata.distributions()),
        *((folder, metadata.distributions(path=[folder])) for folder in folders),
    ]:
        for one in found:
            name = one.metadata["Name"]
            is_core = canonicalize_name(name) in core
            yield Package("Python", name, one.version, stated(one.metadata), where, is_core)


def stated(fields: Any) -> tuple[str, ...]:
    """Return the licences that a distribution states; an expression decides alone."""
    expression = fields.get("License-Expression")
    if expression:
        return (expression,)
    classifiers = [
        one.split(" :: ")[-1]
        for one in fields.get_all("Classifier") or ()
        if one.startswith("License :: ") and not one.endswith("OSI Approved")
    ]
    free = (fields.get("License") or "").strip()
    usable = (
        () if not free or free.upper() == "UNKNOWN" else (" ".join(free.split())[:NAMED_WITHIN],)
    )
    return (*usable, *classifiers)


def _core_names() -> set[str]:
    """Return the packages that ``pip install`` of this project brings without extras."""
    names, left = set[str](), [OURS]
    while left:
        name = canonicalize_name(left.pop())
        if name in names:
            continue
        names.add(name)
        try:
            requires = metadata.distribution(name).requires or ()
        except metadata.PackageNotFoundError:  # of another platform or Python
            continue
        for text in requires:
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                left.append(needed.name)
    return names


def npm_packages(lock: Mapping[str, Any], shipped: Iterable[str]) -> Iterator[Package]:
    """Yield what a lock file installs."""
    in_pages = shipped_by(lock, shipped)
    for path, one in lock["packages"].items():
        if not path or one.get("link"):
            continue
        name = path.rpartition("node_modules/")[2]
        licence = one.get("license")
        licences = (licence,) if isinstance(licence, str) else ()
        yield Package("npm", name, one["version"], licences, path, name in in_pages)


def shipped_by(lock: Mapping[str, Any], imported: Iterable[str]) -> set[str]:
    """Return the packages that those imported need, themselves among them."""
    needs: dict[str, set[str]] = {}
    for path, one in lock["packages"].items():
        needs.setdefault(path.rpartition("node_modules/")[2], set()).update(
            one.get("dependencies", ())
        )
    names, left = set[str](), list(imported)
    while left:
        name = left.pop()
        if name not in names:
            names.add(name)
            left += needs.get(name, ())
    return names


def imported_by_viewer(source: Path) -> set[str]:
    """Return the npm packages that the viewer's own code imports, its tests left out."""
    found: set[str] = set()
    for file in source.rglob("*"):
        if file.suffix not in {".ts", ".svelte", ".css"} or ".test." in file.name:
            continue
        text = file.read_text(encoding="utf-8")
        for name in re.findall(r"(?:from|import)\s*\(?\s*['\"]([^.'\"/$][^'\"]*)['\"]", text):
            parts = name.split("/")
            found.add("/".join(parts[: 2 if name.startswith("@") else 1]))
    return found


def exceptions(page: str) -> list[Exempt]:
    """Read the table of exceptions from the page on dependencies."""
    _, _, section = page.partition("\n## Licences\n")
    rows = re.findall(
        r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|$", section.split("\n## ")[0], re.MULTILINE
    )
    return [Exempt(name, licence.strip(), reason.strip()) for name, licence, reason in rows]


def denied(packages: Iterable[Package], exempt: Sequence[Exempt]) -> list[str]:
    """Return a line for each package whose licence is denied, and each exception without need."""
    problems: list[str] = []
    seen: dict[Exempt, bool] = {}  # whether one of its packages needs it
    for one in packages:
        found = frozenset().union(*map(families, one.licences or ("",)))
        row = next((row for row in exempt if fnmatchcase(one.name, row.pattern)), None)
        if row is not None:
            seen[row] = seen.get(row, False) or bool(found)
        if not found:
            continue
        reason = f"denied, {', '.join(sorted(found))}"
        if one.is_shipped:
            problems.append(f"{one}\n  {reason}: it is shipped or required, no exception holds")
        elif row is None:
            problems.append(f"{one}\n  {reason}: {PAGE.name} has no exception for it")
        elif not found <= families(row.licence):
            problems.append(f"{one}\n  {reason}: its exception is for {row.licence!r} only")
    problems += [
        f"exception `{row.pattern}`: its licence is permissive now; remove the row"
        for row, is_needed in seen.items()
        if not is_needed
    ]
    return problems


def main(folders: Sequence[str]) -> int:
    """Print what is denied; return the exit status."""
    lock = json.loads((VIEWER / "package-lock.json").read_text(encoding="utf-8"))
    packages = [
        *python_packages(folders),
        *npm_packages(lock, imported_by_viewer(VIEWER / "src")),
    ]
    exempt = exceptions(PAGE.read_text(encoding="utf-8"))
    problems = denied(packages, exempt)
    counts = {kind: sum(one.kind == kind for one in packages) for kind in ("Python", "npm")}
    summary = (
        f"licences: {counts['Python']} Python and {counts['npm']} npm packages,"
        f" {len(exempt)} exceptions, {len(problems) or 'none'} denied"
    )
    sys.stdout.write("\n".join([*problems, summary, ""]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
