"""Files that a forge, a citation manager or a language model reads follow the schemas of these."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
FILES = {
    "github-workflows": (".github/workflows/ci.yml",),
    "github-issue-forms": (".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/feature.yml"),
    "github-issue-config": (".github/ISSUE_TEMPLATE/config.yml",),
    "citation-file-format": ("CITATION.cff",),
}


@pytest.mark.slow
@pytest.mark.parametrize("schema", FILES)
def test_files_follow_their_schema(schema):
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]

    command += FILES[schema]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_workflow_runs_what_contributors_run():
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text("utf-8"))["jobs"]
    steps = [step.get("run") for job in jobs.values() for step in job["steps"]]

    assert ".ci/run" in steps
    assert "make test" in steps


def test_the_citation_has_the_version_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))

    assert f'version = "{citation["version"]}"' in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.mark.parametrize("page", ["docs/llms.txt", "docs/explanation/security.md"])
def test_paths_on_pages_without_a_link_check_exist(page):
    text = (ROOT / page).read_text("utf-8")
    linked = [ROOT / "docs" / path for path in re.findall(r"\]\(([^)#]+\.md)", text)]
    named = [ROOT / path for path in re.findall(r"`(tests/[\w/.]+)`", text)]
    wanted = linked if page.endswith(".txt") else named

    assert wanted
    assert [path for path in wanted if not path.exists()] == []


def test_code_owners_name_paths_that_exist():
    lines = (ROOT / ".github/CODEOWNERS").read_text("utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]

    assert [one for one in paths if one != "*" and not (ROOT / one.strip("/")).exists()] == []
