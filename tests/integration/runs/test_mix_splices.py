"""Mixes whose sources, versions and weights changed on the way: their state, errors and record."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tensorlake as tl

COUNT = 40


@pytest.fixture
def lakes(tmp_path):
    made = []
    for number, name in enumerate(("web", "code", "wiki")):
        ds = tl.create(tmp_path / f"{name}.tl", {"x": "int64", "label": "int64"})
        ds.extend({"x": np.arange(COUNT) + 100 * number, "label": np.arange(COUNT) % 5})
        ds.commit("forty")
        made.append(ds)
    return made


def _mix(web, code, *more, stop="all"):
    sources = {"web": (web, 0.5), "code": (code, 0.5)}
    return tl.mix(sources | {f"wiki{n}": (one, 0.25) for n, one in enumerate(more)}, stop=stop)


def _taken(loader, batches):
    passed = iter(loader)
    rows = [x for _ in range(batches) for x in next(passed)["x"].tolist()]
    passed.close()
    return rows


def test_versions_a_mix_and_a_condition_change_the_rest_of_an_epoch(lakes):
    web, code, wiki = lakes
    loader = _mix(web, code).loader(batch_size=8, shuffle=True, seed=1)
    given = _taken(loader, 3)

    web.delete(web["x"] < 10)
    web["x"][0] = 10 + 1000  # a corrected value of the same row
    web.commit("edited")
    loader.advance({"web": web.version})
    given += _taken(loader, 2)
    loader.advance(mix=_mix(web, code, wiki), where="label != 3")
    state = json.loads(json.dumps(loader.state_dict()))
    assert len({stream for _, _, stream, _, _ in state["order"]["sources"]}) == 3
    rest = [x for batch in loader for x in batch["x"].tolist()]

    again = _mix(web, code, wiki).loader(batch_size=8, shuffle=True, seed=9)
    with pytest.raises(tl.StateMismatchError, match="seed"):
        again.load_state_dict(state)
    again = _mix(web, code, wiki).loader(batch_size=8, shuffle=True)
    again.load_state_dict(state)
    assert [x for batch in again for x in batch["x"].tolist()] == rest
    late = [x % 1000 for x in given + rest]
    of_web = [x for x in late if x < 100]
    assert set(of_web) >= {x for x in range(10, COUNT) if x % 5 != 3}
    first = of_web[: len(set(of_web))]
    assert len(first) == len(set(first))
    assert not any(x % 5 == 3 or x % 1000 < 10 for x in rest)
    assert {x for x in rest if 200 <= x < 300} == {200 + x for x in range(COUNT) if x % 5 != 3}
    following = {x for batch in loader for x in batch["x"].tolist()}
    assert following == {x for x in following if x % 5 != 3}


@pytest.mark.parametrize("batches", [0, 2])
def test_a_source_that_is_added_follows_the_condition_in_force(lakes, batches):
    web, code, wiki = lakes
    loader = _mix(web, code).loader(batch_size=8, shuffle=True, seed=1)
    loader.advance(where="label != 3")
    given = _taken(loader, batches)

    loader.advance(mix=_mix(web, code, wiki))
    given += [x for batch in loader for x in batch["x"].tolist()]

    assert set(given) == {100 * n + x for n in range(3) for x in range(COUNT) if x % 5 != 3}
    loader.advance(where="", mix=_mix(web, code))
    loader.advance(mix=_mix(web, code, wiki))
    assert {x for batch in loader for x in batch["x"].tolist()} >= {203, 208}


def test_what_a_mix_cannot_continue_with_is_named(lakes):
    web, code, wiki = lakes
    loader = _mix(web, code).loader(batch_size=8, shuffle=True, seed=1)
    given = _taken(loader, 1)

    for asked, match in (
        ({"version": "main@1"}, "a mix has a version of each source"),
        ({"version": {"weeb": "main@1"}}, "no source 'weeb'; did you mean 'web'?"),
        ({"version": {"web": 3}}, "version is a string"),
        ({}, "neither versions nor a mix nor a condition"),
        ({"mix": web}, "mix is another mix"),
        ({"without": "runs/x"}, "for the rows of one dataset"),
        ({"where": "label = 9"}, "source 'web' has no rows left"),
        ({"mix": _mix(wiki, code)}, "source 'web' of the new mix has other rows"),
    ):
        with pytest.raises(tl.InvalidInputError, match=match):
            loader.advance(**asked)
    staged = tl.mix({"web": (web, 1.0)}, stop="never", stages=[(9, tl.mix({"web": (web, 1.0)}))])
    for made in (staged, tl.mix({"web": (web, lambda _: 1.0)}, stop="never")):
        with pytest.raises(tl.InvalidInputError, match="a mix with stages, or with weights that"):
            loader.advance(mix=made)
    with pytest.raises(tl.InvalidInputError, match="is for the loader of a mix"):
        web.loader(batch_size=8).advance(mix=_mix(web, code))
    rest = [x for batch in loader for x in batch["x"].tolist()]  # as if nothing had been asked
    assert len(given + rest) == 2 * COUNT

    loader = _mix(web, code).loader(batch_size=8, shuffle=True, seed=1)
    _taken(loader, 1)
    loader.advance(mix=_mix(web, code, wiki))
    with pytest.raises(tl.StateMismatchError, match="make the loader of the mix to which"):
        _mix(web, code).loader(batch_size=8, shuffle=True).load_state_dict(loader.state_dict())


def test_a_run_of_a_mix_replays_what_it_read_before_and_after(lakes, tmp_path):
    web, code, _ = lakes
    seen = []
    with tl.run(tmp_path / "runs", "r") as run:
        loader = run.loader(_mix(web, code), batch_size=8, shuffle=True, seed=1)
        for wanted in (2, 3):
            passed = iter(loader)
            for _ in range(wanted):
                seen.append(next(passed)["x"].tolist())
                run.log(loss=1.0)
            passed.close()
            loader.advance(where="label != 3")
        for batch in loader:
            seen.append(batch["x"].tolist())
            run.log(loss=1.0)

    again = tl.runs(tmp_path / "runs")["r"].of(_mix(web, code))
    assert [again.batch(step)["x"].tolist() for step in range(len(seen))] == seen


@pytest.fixture
def corpora(tmp_path):
    """Documents of 1 to 9 tokens, which tell the source and the document."""
    made = []
    for number, name in enumerate(("web", "code", "wiki")):
        ds = tl.create(
            tmp_path / f"{name}.tl", {"tokens": tl.Array("uint16", (None,)), "x": "int64"}
        )
        lengths = np.random.default_rng(number).integers(1, 10, COUNT)
        tokens = [np.full(n, 1000 * number + x) for x, n in enumerate(lengths.tolist())]
        ds.extend({"tokens": tokens, "x": np.arange(COUNT)})
        ds.commit("forty")
        made.append(ds)
    return made


def _packed(*corpora, length=8, split=True):
    sources = {f"s{number}": (ds, 0.5) for number, ds in enumerate(corpora)}
    return tl.mix(sources, by="tokens", stop="all").pack("tokens", length, split=split)


def _tokens(batches):
    return [batch["tokens"].tolist() for batch in batches]


@pytest.mark.parametrize("split", [True, False])
def test_a_packed_mix_gets_another_source_and_its_state_goes_on(corpora, split):
    web, code, wiki = corpora
    loader = _packed(web, code, split=split).loader(batch_size=4, shuffle=True, seed=1)
    passed = iter(loader)
    given = _tokens(next(passed) for _ in range(3))
    passed.close()

    web.delete(web["x"] < 10)
    web.commit("fewer")
    loader.advance(mix=_packed(web, code, wiki, split=split), where="x != 39")
    state = json.loads(json.dumps(loader.state_dict()))
    rest = _tokens(loader)

    again = _packed(web, code, wiki, split=split).loader(batch_size=4, shuffle=True)
    again.load_state_dict(state)
    assert _tokens(again) == rest
    again.load_state_dict(state)
    again.advance(where="x != 39")  # as it is: each source continues, in another mixture
    assert sorted(np.concatenate(_tokens(again)).tolist()) == sorted(np.concatenate(rest).tolist())
    first = set(np.ravel(given).tolist())
    late = set(np.concatenate([np.ravel(batch) for batch in rest]).tolist()) - {0}
    assert not late & {*range(10), 39, 1039, 2039} - first
    wanted = {1000 * number + x for number in range(3) for x in range(39)} - set(range(10))
    assert first | late >= wanted


def test_a_packed_mix_continues_with_one_that_is_packed_alike(corpora):
    web, code, wiki = corpora
    loader = _packed(web, code).loader(batch_size=4, shuffle=True, seed=1)
    next(iter(loader))

    plain = tl.mix({"s0": (web, 1.0)}, by="tokens", stop="all")
    others = _packed(web, code, length=9), _packed(web, code, split=False), plain
    for other in others:
        with pytest.raises(tl.InvalidInputError, match="give another mix in the same form"):
            loader.advance(mix=other)
    with pytest.raises(tl.InvalidInputError, match="mix is another mix"):
        loader.advance(mix=web.pack("tokens", 8))
    with pytest.raises(tl.InvalidInputError, match="give another mix in the same form"):
        plain.loader(batch_size=4).advance(mix=_packed(web, code))
    with pytest.raises(tl.InvalidInputError, match="source 's0' of the new mix has other rows"):
        loader.advance(mix=_packed(wiki, code))


def test_a_run_of_a_packed_mix_replays_what_it_read_before_and_after(corpora, tmp_path):
    web, code, _ = corpora
    seen = []
    with tl.run(tmp_path / "runs", "r") as run:
        loader = run.loader(_packed(web, code), batch_size=4, shuffle=True, seed=1)
        for wanted in (2, 3):
            passed = iter(loader)
            for _ in range(wanted):
                seen.extend(_tokens([next(passed)]))
                run.log(loss=1.0)
            passed.close()
            loader.advance(where="x % 5 != 3")
        for batch in loader:
            seen.extend(_tokens([batch]))
            run.log(loss=1.0)

    again = tl.runs(tmp_path / "runs")["r"].of(_packed(web, code))
    assert [again.batch(step)["tokens"].tolist() for step in range(len(seen))] == seen
