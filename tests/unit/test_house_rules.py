"""The rules of the house that ruff, pyright and import-linter cannot check.

Each test reads the files that git knows (or would: untracked ones that it does not ignore), so a
build folder or an environment beside the sources changes nothing.
"""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import tensorlake

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 500
MAX_COMPONENT_LINES = 250
SOURCE_SUFFIXES = {".py", ".ts", ".svelte", ".css", ".lark"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {".md", ".toml", ".txt", ".json", ".yaml", ".yml", ".html", ""}
PACKAGES = ("tensorlake", "query/tensorlake_query", "server/tensorlake_server")
HEAVY = (  # noqa: SIM905 a list literal would be one word a line
    "torch jax tensorflow pyarrow lark fastapi uvicorn rich typer PIL simplejpeg zarr s3fs fsspec "
    "aiohttp httpx pandas moto boto3 av cv2"
).split()
# The words of the style page: one word per idea, defined in the glossary before it is used.
WORDS = (  # noqa: SIM905 a list literal would be one word a line
    "Dataset View Tensor Sample Chunk ChunkIndex Codec Store Commit Branch Tag Snapshot Selection "
    "Pack Extent Tail Entry Row RowId "
    "Predicate Transaction Query Expr LogicalPlan AccessPlan Loader"
).split()
MADE = {"viewer/src/api/types.ts"}  # by a program, of what the house wrote


@cache
def house_files() -> tuple[Path, ...]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git checkout: there is no list of the house's files")
    names = listed.stdout.decode().split("\0")
    return tuple(path for name in names if name and (path := ROOT / name).is_file())


def sources(*suffixes: str, under: str = "") -> list[Path]:
    return [
        path
        for path in house_files()
        if path.suffix in suffixes and path.relative_to(ROOT).as_posix().startswith(under)
    ]


def package_sources() -> list[Path]:
    return [path for package in PACKAGES for path in sources(".py", under=f"{package}/")]


def shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_no_source_file_is_longer_than_the_house_allows():
    lengths = {
        shown(path): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(*SOURCE_SUFFIXES)
        if shown(path) not in MADE
    }

    assert {name: n for name, n in lengths.items() if n > MAX_LINES} == {}
    assert {
        name: n
        for name, n in lengths.items()
        if name.endswith(".svelte") and n > MAX_COMPONENT_LINES
    } == {}


def test_no_file_is_named_after_nothing():
    nameless = {"utils", "util", "helpers", "helper", "common", "misc"}

    assert [shown(path) for path in sources(*SOURCE_SUFFIXES) if path.stem in nameless] == []


def test_folders_that_hold_packages_are_none_themselves():
    for folder in ("query", "server", "tests", "docker"):
        assert not (ROOT / folder / "__init__.py").exists(), folder
    assert [shown(path) for path in sources(".py", under="tests/") if path.stem == "__init__"] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_says_that_it_is_typed(package):
    assert (ROOT / package / "py.typed").is_file()


def test_opening_a_dataset_loads_no_heavy_module():
    # Names load when they are first used: what opening a dataset loads is what counts.
    code = (
        "import sys, tensorlake as tl; tl.create('memory://light', {'x': 'int64'}).close();"
        " print(*{name.split('.')[0] for name in sys.modules})"
    )

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert set(HEAVY) & set(loaded.stdout.split()) == set()


def test_all_names_load_where_pytest_is_not_installed():
    # help(tl) asks the module for each of them: one that cannot be had ends it.
    code = (
        "import sys; sys.modules['pytest'] = None;"
        " import inspect, tensorlake as tl; print(len(inspect.getmembers(tl)))"
    )

    counted = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert int(counted.stdout) > len(tensorlake.__all__)


def test_importing_tensorlake_starts_no_thread():
    code = "import threading, tensorlake; print(threading.active_count())"

    counted = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert counted.stdout.strip() == "1"


def test_every_public_name_exists_and_has_a_docstring():
    missing = [name for name in tensorlake.__all__ if not hasattr(tensorlake, name)]
    undocumented = [
        name
        for name in tensorlake.__all__
        if name not in missing and not (getattr(tensorlake, name).__doc__ or "").strip()
    ]

    assert missing == []
    assert undocumented == []


@cache
def parsed(path: Path) -> tuple[str | None, tuple[ast.ImportFrom, ...]]:
    """Return a module's docstring and its imports from others, wherever they are."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = tuple(node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return ast.get_docstring(tree), imports


@pytest.mark.parametrize("module", ["collate", "decode", "errors", "ingest"])
def test_a_module_that_users_see_shows_their_words_alone(module):
    found = getattr(tensorlake, module)

    shown_names = {name for name in dir(found) if not name.startswith("_")}

    assert shown_names <= set(found.__all__)
    assert not any(isinstance(getattr(found, name), ModuleType) for name in shown_names)


def test_every_module_says_what_it_is_for():
    silent = [shown(path) for path in package_sources() if not parsed(path)[0]]

    assert silent == []


def test_a_package_is_imported_from_outside_as_a_whole():
    rooms = {path.parent.name for path in sources(".py", under="tensorlake/")} - {"tensorlake"}
    strays: list[str] = []
    for path in package_sources():
        home = path.relative_to(ROOT).parts[1]
        if home == "__init__.py":  # the face: it loads each name from its own file, when asked
            continue
        for node in parsed(path)[1]:
            if not node.module:
                continue
            parts = node.module.split(".")
            inside = parts[0] == "tensorlake" and len(parts) > 2 and parts[1] in rooms
            engine = parts[0] == "tensorlake_query" and len(parts) > 1
            if (inside and parts[1] != home) or (engine and home != "tensorlake_query"):
                strays.append(f"{shown(path)}:{node.lineno} from {node.module}")

    assert strays == []


def test_no_private_name_crosses_a_file():
    crossings = [
        f"{shown(path)}:{node.lineno} {alias.name}"
        for path in package_sources()
        for node in parsed(path)[1]
        if node.module and node.module != "__future__"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.endswith("__")
    ]

    assert crossings == []


def test_a_silenced_warning_names_its_rule_and_its_reason():
    marker = re.compile(r"#\s*(?:noqa|pyright:\s*ignore|type:\s*ignore)")
    explained = re.compile(
        r"#\s*(?:noqa:\s*[A-Z]+[0-9]+(?:,\s*[A-Z]+[0-9]+)*"
        r"|(?:pyright|type):\s*ignore\[[\w, -]+\])\s+\S.{3,}"
    )
    unexplained = [
        f"{shown(path)}:{number} {line.strip()}"
        for path in sources(".py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if marker.search(line) and not explained.search(line)
    ]

    assert unexplained == []


def test_no_test_makes_warnings_errors_by_itself():
    """They are errors everywhere; a filter of one test would meet the staged changes of others."""
    by_itself = re.compile(r"simplefilter\([\"']error")
    found = [
        f"{shown(path)}:{number}"
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if by_itself.search(line)
    ]

    assert found == []


def test_an_open_end_names_its_issue():
    bare = re.compile(r"\b(TODO(?!\(#\d+\):)|FIXME|XXX)\b")
    found = [
        f"{shown(path)}:{number}"
        for path in sources(*SOURCE_SUFFIXES)
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if bare.search(line)
    ]

    assert found == []


def test_no_file_names_a_folder_of_one_machine():
    machine = re.compile(r"(?<![\w.\-])/(root|work|home(?!/ana\b)|Users|opt)/\w")
    named = [
        f"{shown(path)}:{number} {line.strip()[:80]}"
        for path in house_files()
        if path.suffix in TEXT_SUFFIXES and path != Path(__file__)
        for number, line in enumerate(
            path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1
        )
        if machine.search(line)
    ]

    assert named == []


@pytest.mark.parametrize("word", WORDS)
def test_the_glossary_defines_each_word_of_the_house(word):
    glossary = (ROOT / "docs/explanation/glossary.md").read_text(encoding="utf-8")

    assert re.search(rf"^\*\*{word}\*\*", glossary, flags=re.MULTILINE), word


def test_every_dependency_says_why_it_is_here():
    page = (ROOT / "docs/explanation/dependencies.md").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project[project.index("dependencies = [") : project.index("[project.scripts]")]
    names = set(re.findall(r'"([a-z0-9][a-z0-9\-]*)(?:\[[^\]]*\])?(?:[><=]=?[^"]*)?"', block))

    unexplained = {name for name in names if f"`{name}`" not in page} - {"tensorlake-dl"}

    assert unexplained == set()


def test_make_check_runs_every_referee():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile[makefile.index("\ncheck:") : makefile.index("\ntest:")]

    for tool in (
        "ruff format --check",
        "ruff check",
        "pyright",
        "lint-imports",
        "npm run --silent check",
        "npm run --silent lint",
    ):
        assert tool in recipe, tool


def test_the_viewer_s_lock_installs_on_every_platform_from_any_registry():
    packages = json.loads((ROOT / "viewer/package-lock.json").read_text())["packages"]
    wanted = {
        (parent, name)
        for parent, package in packages.items()
        for name in package.get("optionalDependencies", {})
    }

    # npm forgets other platforms where it makes a lock beside an installed node_modules.
    missing = {
        (parent, name)
        for parent, name in wanted
        if not {f"node_modules/{name}", f"{parent}/node_modules/{name}"} & packages.keys()
    }

    assert wanted
    assert missing == set()
    assert [name for name, package in packages.items() if "resolved" in package] == []


def test_ci_runs_the_commands_that_the_readme_names():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")

    for command in ("make test", "make check"):
        assert command in readme, command
        assert command in script, command
    assert "make demo" in readme


def test_each_test_that_the_format_s_design_lists_is_found_by_its_number():
    cited: set[int] = set()
    number = r"\d+(?:\s*-\s*\d+)?"
    lists = re.compile(
        rf"(?:format\.md|[Tt]ests?)(?:'s)?,? (?:tests? )?({number}(?:(?:, | and ){number})*)"
    )
    for path in sources(".py", under="tests/"):
        for match in lists.finditer(" ".join(path.read_text(encoding="utf-8").split())):
            for first, last in re.findall(r"(\d+)(?:\s*-\s*(\d+))?", match[1]):
                cited.update(range(int(first), int(last or first) + 1))

    assert set(range(1, 51)) - cited == set()
