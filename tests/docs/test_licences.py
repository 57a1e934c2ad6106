"""`make licences` refuses what is not permissive, and names the package, its licence and why."""

from __future__ import annotations

import json
from email.message import Message
from pathlib import Path

import pytest

from tests.tools.licences import (
    DENIED,
    UNSTATED,
    Exempt,
    Package,
    denied,
    exceptions,
    families,
    npm_packages,
    shipped_by,
    stated,
)

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "dependencies.md"


def package(name: str, *licences: str, is_shipped: bool = False) -> Package:
    return Package("Python", name, "1.2", licences, "installed", is_shipped)


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "BSD License",
        "Apache-2.0 AND MIT",
        "Apache-2.0 WITH LLVM-exception",
        "GPL-2.0-only OR MIT",
        "(MIT OR CC0-1.0)",
        "Python Software Foundation License",
        "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
        "CC-BY-4.0",
        "OFL-1.1",
        "DFSG approved",
    ],
)
def test_permissive_licences_pass(licence):
    assert families(licence) == frozenset()


@pytest.mark.parametrize(
    ("licence", "family"),
    [
        ("GPL-3.0-or-later", "GPL"),
        ("GPLv3", "GPL"),
        ("GNU General Public License v2 (GPLv2)", "GPL"),
        ("GNU General\nPublic License, version 2", "GPL"),
        ("LGPL-2.1-only", "LGPL"),
        ("GNU Lesser General Public License v3 (LGPLv3)", "LGPL"),
        ("AGPL-3.0-only", "AGPL"),
        ("GNU Affero General Public License v3", "AGPL"),
        ("MPL-2.0", "MPL"),
        ("Mozilla Public License 2.0 (MPL 2.0)", "MPL"),
        ("EPL-2.0", "EPL"),
        ("CDDL-1.0", "CDDL"),
        ("European Union Public Licence 1.2 (EUPL 1.2)", "EUPL"),
        ("OSL-3.0", "OSL"),
        ("CPAL-1.0", "CPAL"),
        ("SSPL-1.0", "SSPL"),
        ("BUSL-1.1", "BUSL"),
        ("Elastic-2.0", "Elastic"),
        ("Apache 2.0 with Commons Clause", "Commons Clause"),
        ("CC-BY-NC-SA-4.0", "Creative Commons NC, ND or SA"),
        ("Other/Proprietary License", "proprietary"),
        ("LicenseRef-NVIDIA-Proprietary", "proprietary"),
        ("UNLICENSED", UNSTATED),
        ("SEE LICENSE IN LICENSE.txt", UNSTATED),
    ],
)
def test_other_licences_are_denied_by_their_family(licence, family):
    assert families(licence) == {family}


def test_every_family_is_tested():
    (mark,) = test_other_licences_are_denied_by_their_family.pytestmark

    assert {family for _, family in mark.args[1]} == {*DENIED, UNSTATED}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("MPL-2.0 AND MIT", {"MPL"}),
        ("MIT AND (GPL-2.0-only OR BSD-3-Clause)", set()),
        ("(GPL-2.0-only OR LGPL-2.1-only) AND MIT", {"GPL", "LGPL"}),
        ("MIT OR GPL-2.0-only AND MPL-2.0", set()),
        ("GPL-2.0-only WITH Classpath-exception-2.0", {"GPL"}),
    ],
)
def test_expressions_are_read_as_spdx_defines_them(expression, expected):
    assert families(expression) == expected


def test_metadata_states_its_licence_by_expression_else_by_text_and_classifiers():
    fields = Message()
    fields["License"] = "GPL"
    fields["Classifier"] = "License :: OSI Approved :: MIT License"
    fields["Classifier"] = "License :: OSI Approved"
    fields["Classifier"] = "Programming Language :: Python"
    by_text = stated(fields)
    fields["License-Expression"] = "MIT"

    assert by_text == ("GPL", "MIT License")
    assert stated(fields) == ("MIT",)


def test_a_denied_package_is_named_with_its_licence_and_the_reason():
    (line,) = denied([package("fine", "MIT"), package("copied", "GPL-3.0-only")], [])

    assert line == (
        "Python package copied 1.2 (installed): GPL-3.0-only\n"
        "  denied, GPL: dependencies.md has no exception for it"
    )


def test_a_package_without_a_licence_is_denied():
    (line,) = denied([package("silent")], [])

    assert "silent 1.2 (installed): no licence stated" in line
    assert "denied, unstated" in line


def test_an_exception_holds_for_its_package_and_licence_alone():
    exempt = [Exempt("nvidia-*", "proprietary", "CUDA"), Exempt("tool", "MPL-2.0", "a tool")]
    packages = [package("nvidia-nccl", "Other/Proprietary License"), package("tool", "MPL-2.0")]

    assert denied(packages, exempt) == []
    (changed,) = denied([package("tool", "GPL-3.0-only")], exempt)
    assert "its exception is for 'MPL-2.0' only" in changed
    (other,) = denied([package("tools", "MPL-2.0")], exempt)
    assert "no exception for it" in other


def test_no_exception_holds_for_what_is_shipped():
    exempt = [Exempt("tool", "MPL-2.0", "a tool")]

    (line,) = denied([package("tool", "MPL-2.0", is_shipped=True)], exempt)

    assert "no exception holds" in line


def test_an_exception_that_is_no_longer_needed_is_reported():
    exempt = [Exempt("tool", "MPL-2.0", "a tool"), Exempt("elsewhere", "MPL-2.0", "not here")]

    assert denied([package("tool", "MIT")], exempt) == [
        "exception `tool`: its licence is permissive now; remove the row"
    ]


def test_npm_packages_that_pages_import_are_shipped_with_what_they_need():
    lock = json.loads(
        """{"packages": {
            "": {"name": "viewer"},
            "node_modules/@a/one": {"version": "1", "license": "MIT", "dependencies": {"two": "*"}},
            "node_modules/two": {"version": "2", "license": "MPL-2.0"},
            "node_modules/tool": {"version": "3", "license": "MPL-2.0"},
            "node_modules/tool/node_modules/silent": {"version": "4"}
        }}"""
    )

    found = {one.name: one for one in npm_packages(lock, ["@a/one"])}

    assert shipped_by(lock, ["@a/one"]) == {"@a/one", "two"}
    assert [name for name, one in found.items() if one.is_shipped] == ["@a/one", "two"]
    assert found["silent"].licences == ()
    assert len(denied(found.values(), [Exempt("tool", "MPL-2.0", "a tool")])) == 2


def test_the_table_of_exceptions_is_read_whole():
    table = exceptions(PAGE.read_text(encoding="utf-8"))

    assert {"hypothesis", "certifi", "lightningcss*"} <= {one.pattern for one in table}
    assert all(families(one.licence) and one.reason for one in table)
    assert len(table) == PAGE.read_text(encoding="utf-8").partition("## Licences")[2].count("| `")
