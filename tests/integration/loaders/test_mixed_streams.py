"""``decode_on="server"`` of mixes: batches of a local loader, joined from those of its sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.errors import CorruptSampleError, InvalidInputError
from tensorlake.loader.engine import iterator
from tensorlake.loader.runtime import threads
from tensorlake.loader.sources.remote import mixed, remote_pass, streams
from tensorlake_server import Settings, create_app
from tests.integration.loaders.streamed_rows import (
    IMAGE,
    MOVABLE,
    ROWS,
    Served,
    check_batches,
    digest_of,
    jittered,
    picture,
    served_pets,
)
from tests.support.interrupts import interrupted_at
from tests.support.serving import listening
from tests.unit.loader.conftest import threads_left


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served_pets(tmp_path_factory.mktemp("mixed-streams")) as found:
        found.both()[0][1::2].save("odd")
        yield found


def mix_of(ds: tl.Dataset, **given: Any) -> Any:
    """Mix a dataset with a query over it and a saved view."""
    few, odd = ds.query("SELECT * WHERE score >= 30"), ds.views["odd"]
    return tl.mix({"all": (ds, 0.6), "few": (few, 0.3), "odd": (odd, 0.1)}, **given)


MIXED_UP = {
    "image": [
        *IMAGE["image"][:2],
        tl.decode.ColorJitter(0.4, 0.4, 0.4, 0.1),
        tl.decode.MixUp("number", classes=ROWS),
    ]
}
MIXES: dict[str, tuple[Callable[[tl.Dataset], Any], dict[str, Any]]] = {
    "rows": (mix_of, {"columns": ["score", "_row", "_source"], "batch_size": 5, "shuffle": True}),
    "everything": (
        partial(mix_of, stop="all"),
        {"collate": {"image": "list"}, "batch_size": 6, "shuffle": True, "seed": 2},
    ),
    "ranks, decoded": (
        mix_of,
        {
            "columns": MOVABLE,
            "decode": IMAGE,
            "shuffle": True,
            "global_batch_size": 12,
            "rank": 1,
            "world_size": 3,
            "collate": {"boxes": "pad", "labels": "concat"},
        },
    ),
    "short, with repeated rows": (
        lambda ds: tl.mix({"few": (ds.query("SELECT * WHERE score < 3"), 1), "all": (ds, 1)}),
        {"columns": ["score", "_source"], "global_batch_size": 40, "rank": 7, "world_size": 8},
    ),
    "mosaic of rows of several sources": (
        mix_of,
        {
            "columns": [*MOVABLE, "_source"],
            "decode": {"image": [*IMAGE["image"], tl.decode.Mosaic()]},
            "shuffle": True,
            "batch_size": 8,
        },
    ),
    "mixed-up rows of several sources": (
        mix_of,
        {"columns": ["image", "number"], "decode": MIXED_UP, "shuffle": True, "batch_size": 6},
    ),
    "windows": (mix_of, {"columns": ["tokens"], "shuffle": "window", "batch_size": 7}),
    "transformed": (
        mix_of,
        {
            "columns": ["image", "tokens", "caption", "_row"],
            "decode": IMAGE,
            "shuffle": True,
            "batch_size": 6,
            "transform": jittered,
        },
    ),
    "limited epochs of an endless mix": (
        partial(mix_of, stop="never"),
        {"columns": ["score", "_source"], "batch_size": 8, "limit": 30, "shuffle": True},
    ),
    "stages": (
        lambda ds: mix_of(ds, stop="never", stages=[(20, tl.mix({"all": (ds, 1.0)}))]),
        {"columns": ["score", "_source"], "batch_size": 8, "limit": 40, "shuffle": True},
    ),
    "a mix in a mix": (
        lambda ds: tl.mix({"whole": (ds, 1), "inner": (mix_of(ds), 2)}, stop="all"),
        {"columns": ["wave", "_source"], "batch_size": 9, "shuffle": True},
    ),
    "batches by tokens": (
        partial(mix_of, by="tokens"),
        {"columns": ["tokens"], "batch_by": "tokens", "batch_size": 30, "shuffle": True},
    ),
    "packed": (
        lambda ds: mix_of(ds, by="tokens").pack("tokens", 8, eos=7),
        {"batch_size": 2, "shuffle": True},
    ),
    "packed whole": (
        lambda ds: mix_of(ds, by="tokens").pack("tokens", 9, split=False),
        {"batch_size": 3, "collate": {"tokens": "concat"}},
    ),
    "classes by a function of the place": (
        lambda ds: ds,
        {
            "columns": ["image", "flag", "_source"],
            "decode": IMAGE,
            "weights": lambda place: {"flag": {True: 2.0 + place / 40}},
            "shuffle": True,
            "batch_size": 6,
        },
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", MIXES)
@pytest.mark.filterwarnings("ignore::tensorlake.loader.ShortBatchWarning")
def test_batches_are_equal_to_those_of_a_local_loader_before_and_after_a_resume(
    served: Served, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "LISTED_ROWS", 9)
    monkeypatch.setattr(mixed, "LISTED_ROWS", 25)
    made, arguments = MIXES[way]
    here, there = map(made, served.both())
    local = here.loader(**arguments)
    remote = there.loader(**arguments, decode_on="server")
    resumed = there.loader(**arguments, decode_on="server")

    check_batches(local, remote, resumed)
    assert remote.state_dict() == local.state_dict()
    remote.close()


def test_a_mix_resumes_on_another_number_of_ranks(served: Served) -> None:
    mixture = mix_of(served.both()[1], stop="all")
    plan = {"columns": ["score"], "shuffle": True, "global_batch_size": 12, "decode_on": "server"}
    first = mixture.loader(**plan, rank=0, world_size=1)
    batches = iter(first)
    before = [next(batches)["score"] for _ in range(3)]
    state = first.state_dict()
    first.close()

    ranks = [mixture.loader(**plan, rank=rank, world_size=3) for rank in range(3)]
    for loader in ranks:
        loader.load_state_dict(state)
    after = [one["score"] for together in zip(*ranks, strict=True) for one in together]

    local = mix_of(served.both()[0], stop="all").loader(
        columns=["score"], shuffle=True, batch_size=12
    )
    expected = np.concatenate([batch["score"] for batch in local])
    assert np.concatenate([*before, *after]).tolist() == expected.tolist()


def test_a_mix_of_datasets_of_several_servers_has_the_rows_of_each(served: Served) -> None:
    other = Settings(url=str(served.lake), public_read=True, signing_key=b"k" * 16)
    with listening(create_app(other)) as address:
        here, there = served.both()
        elsewhere = tl.open(f"{address}/pets")
        given = {"columns": ["image", "_source"], "decode": IMAGE, "batch_size": 7, "shuffle": True}

        local = tl.mix({"a": (here, 0.5), "b": (here, 0.5)}).loader(**given)
        remote = tl.mix({"a": (there, 0.5), "b": (elsewhere, 0.5)}).loader(
            **given, decode_on="server"
        )

        assert [digest_of(one) for one in remote] == [digest_of(one) for one in local]


def test_more_sources_than_a_server_has_places_for_take_turns(served: Served) -> None:
    here, there = served.both()
    settings = Settings(url=str(served.lake), public_read=True, signing_key=b"k" * 16)
    with listening(create_app(settings)) as address:
        del there
        whole = tl.open(f"{address}/pets")
        given = {"columns": ["score", "_source"], "batch_size": 40, "shuffle": True}

        def mixture(ds: tl.Dataset) -> Any:
            return tl.mix({f"{number}": (ds, 1.0) for number in range(24)})

        local = [digest_of(one) for one in mixture(here).loader(**given, limit=200)]
        remote = mixture(whole).loader(**given, limit=200, decode_on="server", prefetch=1)

        assert [digest_of(one) for one in remote] == local


@pytest.mark.parametrize("columns", [["image", "_row"], ["image", "_row", "_valid"]])
@pytest.mark.parametrize("transform", [None, jittered])
def test_rows_that_a_server_skips_are_left_out_or_marked(
    served: Served, columns: list[str], transform: Any
) -> None:
    name = f"mixed-skipped-{len(columns)}-{transform is None}"
    ds = tl.create(str(served.lake / name), {"image": tl.Image("jpeg")})
    whole = picture(1)
    ds.extend({"image": [whole] * 4 + [whole[: len(whole) * 3 // 4] + b"\xff\xd9"] + [whole] * 3})
    ds.commit("one is cut short")
    here, (_, pets) = ds, served.both()
    there = tl.open(f"{served.address}/{name}", token=served.token_for(f"read:{name}"))
    given = {"columns": columns, "decode": IMAGE, "transform": transform, "batch_size": 4}

    def mixture(one: tl.Dataset, other: tl.Dataset) -> Any:
        return tl.mix({"damaged": (one, 0.5), "pets": (other, 0.5)})

    local = mixture(here, served.both()[0]).loader(**given, on_error="skip")
    remote = mixture(there, pets).loader(**given, on_error="skip", decode_on="server")

    expected = [*local]
    assert [digest_of(one) for one in remote] == [digest_of(one) for one in expected]
    assert remote.stats().skipped == local.stats().skipped == 1 + (len(expected) > 4)
    is_marked = "_valid" in columns and transform is None
    assert sum(len(one["_row"]) for one in expected) == 14 + is_marked
    with pytest.raises(CorruptSampleError, match="row 4"):
        list(mixture(there, pets).loader(**given, decode_on="server"))


def test_a_source_that_is_not_behind_a_server_is_named(served: Served) -> None:
    here, there = served.both()

    for other in (here, there[[3, 1]]):
        with pytest.raises(InvalidInputError, match="source 'code' of the mix is not one of them"):
            tl.mix({"web": (there, 0.5), "code": (other, 0.5)}).loader(
                batch_size=2, columns=["score"], decode_on="server"
            )


def test_a_loader_that_is_left_early_leaves_its_places_to_others(served: Served) -> None:
    settings = Settings(
        url=str(served.lake), public_read=True, signing_key=b"k" * 16, max_batch_streams=1
    )
    with listening(create_app(settings)) as address:
        there = tl.open(f"{address}/pets")
        endless = tl.mix({"a": (there, 0.5), "b": (there, 0.5)}, stop="never")
        for _ in range(3):
            loader = endless.loader(batch_size=2, columns=["score"], decode_on="server")
            next(iter(loader))
            loader.close()

        whole = there.loader(batch_size=8, columns=["score"], decode_on="server")
        assert sum(len(batch["score"]) for batch in whole) == ROWS


@pytest.mark.parametrize("made", [lambda ds: ds, lambda ds: tl.mix({"a": (ds, 1), "b": (ds, 2)})])
def test_a_loader_that_goes_on_with_other_rows_is_sent_these(served: Served, made: Any) -> None:
    def batches(ds: tl.Dataset, **more: Any) -> list[str]:
        rows = made(ds)
        loader = rows.loader(columns=["image", "_row"], decode=IMAGE, batch_size=4, **more)
        iterator: Any = iter(loader)
        found = [digest_of(next(iterator)) for _ in range(2)]
        iterator.close()
        loader.advance(where="score > 31")
        return [*found, *(digest_of(batch) for batch in loader)]

    here, there = served.both()

    assert batches(there, shuffle=True, decode_on="server") == batches(here, shuffle=True)


@pytest.mark.parametrize("of", [lambda ds: ds, mix_of], ids=["rows", "mix"])
def test_an_interrupt_at_any_step_of_the_end_leaves_no_thread(served: Served, of: Any) -> None:
    steps_of = frozenset(one.__file__ for one in (iterator, remote_pass, mixed, streams, threads))
    loader = of(served.both()[1]).loader(batch_size=5, columns=["score"], decode_on="server")
    step, was_interrupted = 1, True

    while was_interrupted:
        live = iter(loader)
        next(live)
        was_interrupted = interrupted_at(step, live.close, within=steps_of)

        assert len(next(iter(loader))["score"]) == 5, f"interrupted at step {step}"
        del live
        assert threads_left() == [], f"interrupted at step {step}"
        step += 3

    assert step > 20
