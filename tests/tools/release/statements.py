"""What files of the repository state about a release, and whether they agree.

Each check takes the root of a checkout and returns a line for each problem, which ends with what to
do about it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

__all__ = ["bounds", "changelog", "golden", "minimum_extras", "versions"]

VERSIONS = {  # file -> where it states the package's version
    "CITATION.cff": r"^version: (\S+)$",
    "tensorlake/__init__.py": r'^__version__ = "([^"]+)"$',
    "viewer/package.json": r'^  "version": "([^"]+)",$',
}
FORMAT = "tensorlake/format/spec/spec.py"
FEATURES = {  # file -> the sets in it that name what data may need
    "tensorlake/format/entry/entry.py": ("READ_FEATURES", "WRITE_FEATURES"),
    "tensorlake/format/entry/schema.py": ("TENSOR_FEATURES",),
}
MINIMUM = "constraints-min.txt"


def project(root: Path) -> dict[str, object]:
    """Return the table ``[project]`` of ``pyproject.toml``."""
    return tomllib.loads(_text(root / "pyproject.toml"))["project"]


def versions(root: Path) -> list[str]:
    """The package's version is the same everywhere."""
    version = str(project(root)["version"])
    found = {
        name: re.search(pattern, _text(root / name), re.MULTILINE)
        for name, pattern in VERSIONS.items()
    }
    return [
        f"{name} has version {match[1] if match else 'none'}, pyproject.toml {version}"
        f"\n  write {version} into {name}"
        for name, match in found.items()
        if match is None or match[1] != version
    ]


def changelog(root: Path) -> list[str]:
    """Fragments make a section, and the changelog has none of this version while there are any."""
    version = str(project(root)["version"])
    fragments = [one for one in (root / "changes").glob("*.md") if one.name != "README.md"]
    has_section = f"\n## {version}" in _text(root / "CHANGELOG.md")
    if not fragments:
        return (
            []
            if has_section
            else [
                f"CHANGELOG.md has no section {version}\n  write it, or add fragments to changes/"
            ]
        )
    if has_section:
        return [
            (
                f"CHANGELOG.md has a section {version} already, and changes/ has {len(fragments)}"
                " fragments\n  raise the version: in pyproject.toml, then where 'versions' says"
            )
        ]
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", version]
    made = subprocess.run(
        [*command, "--dir", str(root)], capture_output=True, text=True, check=False, timeout=120
    )
    reason = made.stderr.strip() or made.stdout.strip()
    return [] if made.returncode == 0 else [f"{reason}\n  mend the fragment in changes/"]


def golden(root: Path) -> list[str]:
    """There is stored data of this format's version, and of each feature of it."""
    found = re.search(r"^FORMAT_VERSION = (\d+)$", _text(root / FORMAT), re.MULTILINE)
    assert found is not None
    version = found[1]
    missing = set(_features(root))
    whole = False
    for name, data in _stored(root / "tests" / "golden", f"v{version}_"):
        whole = whole or name.startswith(f"v{version}_release")
        missing -= {one for one in missing if f'"{one}"'.encode() in data}
    problems = [
        f"no golden data has the feature {one!r}"
        f"\n  add tests/golden/make_v{version}_….py, its data and a test that opens it"
        for one in sorted(missing)
    ]
    if not whole:
        problems.append(
            f"tests/golden has no v{version}_release, the data of a released format {version}"
            f"\n  run: python -m tests.golden.make_v{version}_release FOLDER, and pack the folder"
        )
    return problems


def _features(root: Path) -> Iterator[str]:
    for name, sets in FEATURES.items():
        text = _text(root / name)
        for one in sets:
            found = re.search(
                rf"^{one}\b[^=]*= frozenset\(\s*\{{(.*?)\}}", text, re.MULTILINE | re.DOTALL
            )
            assert found is not None, f"{name} has no set {one}"
            yield from re.findall(r'"([^"]+)"', found[1])


def _stored(folder: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each golden dataset, and the bytes of each of its files."""
    for path in sorted(folder.glob(f"{prefix}*")):
        if path.is_dir():
            yield from ((path.name, one.read_bytes()) for one in path.rglob("*") if one.is_file())
        else:
            with tarfile.open(path) as archive:
                for member in archive:
                    if (content := archive.extractfile(member)) is not None:
                        yield path.name, content.read()


def bounds(root: Path) -> list[str]:
    """``constraints-min.txt`` has the lowest allowed versions, ``constraints.txt`` allowed ones."""
    needed = {one: bound for one, bound in _bounds(root) if bound is not None}
    lowest = _pinned(root / MINIMUM)
    problems = [
        f"{name}: pyproject.toml allows {needed.get(name, 'none')}, {MINIMUM} has {version}"
        f"\n  write {name}=={needed[name]}, or remove the line"
        if name in needed
        else f"{name}: {MINIMUM} has it, pyproject.toml does not need it\n  remove the line"
        for name, version in lowest.items()
        if needed.get(name) != version
    ]
    problems += [
        f"{name} is in the core and not in {MINIMUM}\n  add {name}=={needed[name]}"
        for name in _core(root)
        if name not in lowest
    ]
    problems += [
        f"{name}: constraints.txt has {version}, pyproject.toml needs {needed[name]} or newer"
        "\n  run make setup without constraints.txt, the tests, and pip freeze"
        for name, version in _pinned(root / "constraints.txt").items()
        if name in needed and version < needed[name]
    ]
    return problems


def minimum_extras(root: Path) -> list[str]:
    """Return the extras of which ``constraints-min.txt`` has every package."""
    lowest = _pinned(root / MINIMUM)
    extras = project(root)["optional-dependencies"]
    assert isinstance(extras, dict)
    return [
        name
        for name, needs in extras.items()
        if needs and all(canonicalize_name(Requirement(one).name) in lowest for one in needs)
    ]


def _core(root: Path) -> list[str]:
    needs = project(root)["dependencies"]
    assert isinstance(needs, list)
    return [canonicalize_name(Requirement(one).name) for one in needs]


def _bounds(root: Path) -> Iterator[tuple[str, Version | None]]:
    """Yield each dependency with its lower bound, those of ``dev`` left out."""
    table = project(root)
    needs, extras = table["dependencies"], table["optional-dependencies"]
    assert isinstance(needs, list)
    assert isinstance(extras, dict)
    for one in (*needs, *(one for name, many in extras.items() if name != "dev" for one in many)):
        requirement = Requirement(one)
        low = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
        yield canonicalize_name(requirement.name), low[0] if low else None


def _pinned(file: Path) -> dict[str, Version]:
    lines = [line.partition("#")[0].strip() for line in _text(file).splitlines()]
    pairs = [line.partition("==") for line in lines if "==" in line]
    return {canonicalize_name(name): Version(version) for name, _, version in pairs}


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
