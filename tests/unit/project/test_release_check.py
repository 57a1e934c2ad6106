"""`make release-check` finds what is broken, and reports what to do about it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.tools.release import earlier, environments, statements, walk, wheel
from tests.tools.release.__main__ import checks, report

ROOT = Path(__file__).resolve().parents[3]
STATED = (
    "CHANGELOG.md", "CITATION.cff", "constraints-min.txt", "constraints.txt", "pyproject.toml",
    "tensorlake/__init__.py", "tensorlake/format/entry/entry.py",
    "tensorlake/format/entry/schema.py", statements.FORMAT, "viewer/package.json",
)  # fmt: skip


@pytest.fixture
def root(tmp_path):
    for name in STATED:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "changes").mkdir()
    return tmp_path


def replace(file: Path, before: str, after: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert before in text
    file.write_text(text.replace(before, after), encoding="utf-8")


def test_the_repository_states_one_version_and_its_bounds():
    assert statements.versions(ROOT) == []
    assert statements.bounds(ROOT) == []
    assert statements.golden(ROOT) == []


@pytest.mark.parametrize("name", statements.VERSIONS)
def test_a_version_that_differs_is_named(root, name):
    version = str(statements.project(root)["version"])
    replace(root / name, version, "9.9.9")

    (problem,) = statements.versions(root)

    assert problem.startswith(f"{name} has version 9.9.9, pyproject.toml {version}")
    assert problem.endswith(f"write {version} into {name}")


def test_fragments_need_a_version_that_the_changelog_has_not(root):
    (root / "changes" / "1.fix.md").write_text("`tl.open` opens.\n")
    version = str(statements.project(root)["version"])
    (problem,) = statements.changelog(root)
    assert "raise the version" in problem

    replace(root / "pyproject.toml", f'version = "{version}"', 'version = "9.9.9"')
    assert statements.changelog(root) == []

    (root / "changes" / "1.typo.md").write_text("Wrong type.\n")
    (problem,) = statements.changelog(root)
    assert problem.endswith("mend the fragment in changes/")


def test_a_changelog_without_this_version_is_named(root):
    assert statements.changelog(root) == []
    replace(root / "CHANGELOG.md", "\n## ", "\n### ")

    (problem,) = statements.changelog(root)

    assert "add fragments to changes/" in problem


def test_a_format_or_a_feature_without_golden_data_is_named(root):
    shutil.copytree(ROOT / "tests/golden/v1_personal", root / "tests/golden/v1_personal")

    *features, release = statements.golden(root)

    assert "tests/golden has no v1_release" in release
    assert any("'parts'" in one for one in features)
    assert not any("'personal'" in one for one in features)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("numpy==1.26", "numpy==2.0", "numpy: pyproject.toml allows 1.26, "),
        ("numpy==1.26\n", "", "numpy is in the core and not in constraints-min.txt"),
        ("numpy==1.26\n", "numpy==1.26\nsomething==1\n", "something: constraints-min.txt has it"),
    ],
)
def test_a_minimum_that_is_not_the_bound_is_named(root, before, after, problem):
    replace(root / "constraints-min.txt", before, after)

    (found,) = statements.bounds(root)

    assert found.startswith(problem)


def test_a_tested_version_below_the_bound_is_named(root):
    replace(root / "pyproject.toml", '"rich>=13.9"', '"rich>=99"')

    assert any("constraints.txt has" in one for one in statements.bounds(root))


def made_wheel(folder: Path, **changes: str | None) -> Path:
    files = {
        "tensorlake/py.typed": "",
        "tensorlake/datasets/data/coco/README.md": "CC BY 4.0",
        "tensorlake_query/syntax/tql.lark": "",
        "tensorlake_query/syntax/tql.lark-1.3.1-ab": "",
        "tensorlake_server/static/index.html": "",
        "tensorlake_server/static/assets/index-a.js.br": "",
        "tensorlake_server/static/assets/index-a.js.gz": "",
        "tensorlake_dl-1.dist-info/licenses/LICENSE": "",
        **{name.replace("__", "/"): text for name, text in changes.items()},
    }
    path = folder / "tensorlake_dl-1-py3-none-any.whl"
    with ZipFile(path, "w") as archive:
        for name, text in files.items():
            if text is not None:
                archive.writestr(name, text)
    return path


def test_a_whole_wheel_has_no_problem(tmp_path):
    assert wheel.contents(made_wheel(tmp_path)) == []


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"tensorlake_server__static__index.html": None}, "run make viewer, with Node.js"),
        ({"tensorlake/datasets/data/coco/README.md": None}, "put the licences"),
        ({"tensorlake/tests/test_a.py": "1"}, "exclude it"),
        ({"tests/test_a.py": "1"}, "exclude it"),
        ({"tensorlake/.tokens": "1"}, "exclude it"),
        ({"tensorlake/datasets/data/a.bin": "x" * (6 << 20)}, "largest files out: tensorlake/d"),
    ],
)
def test_a_wheel_that_lacks_or_has_too_much_is_refused(tmp_path, changes, remedy):
    (problem,) = wheel.contents(made_wheel(tmp_path, **changes))

    assert remedy in problem


@pytest.mark.slow
def test_a_wheel_that_does_not_install_is_reported_with_its_last_lines(tmp_path):
    found = environments.runs(
        tmp_path / "absent.whl", tmp_path / "environment", python=sys.executable
    )

    (problem,) = found
    assert "absent.whl" in problem
    assert problem.endswith("mend the bounds")


def test_a_failed_check_is_shown_in_the_table_and_below_it():
    text = report({"versions": ([], 0.25), "golden": (["no data\n  add it"], 1.0)})

    assert text.splitlines()[:2] == [
        "versions     ok          0.2 s",
        "golden       FAILED      1.0 s",
    ]
    assert text.endswith("golden:\nno data\n  add it\n")


def test_every_check_has_a_name_and_the_cheap_ones_come_first(tmp_path):
    names = list(checks(ROOT, tmp_path, ()))

    assert names[:4] == ["versions", "changelog", "golden", "bounds"]
    assert names[-1] == "lowest"
    assert f"python3.{sys.version_info[1]}" in names


def test_a_page_is_followed_as_one_session_of_a_shell():
    page = (
        "```sh\npython3 -m venv env && . env/bin/activate\n```\n"
        "```python\nprint('$HOME')\n```\n"
        "```console\n$ tensorlake serve lake --write\nViewer at …\n```\n"
    )

    lines = walk.script(page, ["torch==2"]).splitlines()

    assert lines[:3] == [
        "set -euxo pipefail",
        "python3 -m venv env && . env/bin/activate",
        "pip install --quiet torch==2",
    ]
    assert lines[3:6] == ["python - <<'BLOCK'", "print('$HOME')", "BLOCK"]
    assert "tensorlake serve lake --write >serve.log 2>&1 &" in lines
    assert not any("…" in line for line in lines)


def test_a_page_that_cannot_be_followed_is_named(tmp_path):
    (tmp_path / walk.PAGE).parent.mkdir(parents=True)
    (tmp_path / walk.PAGE).write_text("```sh\nls photos\nls no-such-folder\n```\n")
    (tmp_path / "a.whl").touch()

    (problem,) = walk.followed(tmp_path, tmp_path / "a.whl", tmp_path / "walk", ())

    assert problem.startswith("docs/tutorial/half-an-hour.md cannot be followed:")
    assert "no-such-folder" in problem


@pytest.mark.parametrize(
    ("release", "problem"),
    [
        ({"x": "a", "write": "committed"}, None),
        ({"x": "a", "write": f"{earlier.REFUSED}'constraints'"}, None),
        ({"x": f"{earlier.REFUSED}'parts'", "write": "committed"}, None),
        (f"{earlier.REFUSED}'tensor-features'", None),
        ({"x": "b", "write": "committed"}, "0.1.0 read 'x' as b, and this version as a"),
        ({"write": "committed"}, "0.1.0 read 'x' as None"),
        ({"x": "a", "write": "builtins.KeyError: 'x'"}, "raised builtins.KeyError"),
        ("builtins.KeyError: 'x'", "raised builtins.KeyError"),
    ],
)
def test_data_that_the_last_release_reads_otherwise_are_named(release, problem):
    found = [*earlier.differences({"d": {"x": "a"}}, {"d": release})]

    assert len(found) == (problem is not None)
    assert problem is None or f"d: 0.1.0 {problem.removeprefix('0.1.0 ')}" in found[0]
