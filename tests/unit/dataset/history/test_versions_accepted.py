"""Every call that takes a version takes the same kinds, and refuses others alike."""

import datetime as dt

import pytest

import tensorlake as tl

CALLS = {
    "open": lambda ds, version: tl.open(ds.url, version=version),
    "at": lambda ds, version: ds.at(version),
    "branch": lambda ds, version: ds.branch("new", at=version),
    "tag": lambda ds, version: ds.tag("new", at=version),
    "diff from": lambda ds, version: ds.diff(version),
    "diff to": lambda ds, version: ds.diff("main@0", version),
    "merge": lambda ds, version: ds.merge(version),
    "restore": lambda ds, version: ds.restore(version),
    "revert": lambda ds, version: ds.revert(version),
    "copy": lambda ds, version: tl.copy(ds.url, f"{ds.url}-copy", version=version),
    "copy alone": lambda ds, version: tl.copy(
        ds.url, f"{ds.url}-copy", version=version, history=False
    ),
}


@pytest.fixture
def ds(tmp_path):
    made = tl.create(tmp_path / "ds", {"x": "int64"})
    made.append({"x": 1})
    made.commit("one")
    made.tag("v1")
    made.branch("dev")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    "version", ["main", "main@1", "v1", lambda ds: ds.log()[0].time + dt.timedelta(seconds=1)]
)
def test_branches_commits_tags_and_times_are_versions(ds, call, version):
    call(ds, version(ds) if callable(version) else version)


@pytest.mark.slow
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(
    ("version", "advice"),
    [
        (lambda ds: ds.log()[0], "pass its version: version='main@1'"),
        (lambda ds: ds.tags["v1"], "pass its version: version='main@1'"),
        (lambda ds: ds, "pass its version: version='main@1'"),
        (lambda ds: 1, "version='main@1'"),
        (lambda ds: dt.date(2030, 1, 1), "timezone-aware datetime"),
        (lambda ds: dt.datetime(2030, 1, 1), "time zone"),  # noqa: DTZ001 - what is refused
        (lambda ds: "2030-01-01T00:00:00+00:00", "datetime.fromisoformat("),
    ],
)
def test_other_values_are_refused_with_advice(ds, call, version, advice):
    with pytest.raises((tl.InvalidInputError, tl.VersionNotFoundError)) as raised:
        call(ds, version(ds))

    assert advice in str(raised.value)
    assert len(ds.log()) == 2
