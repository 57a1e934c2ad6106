"""Runs: what is replayed is what was trained on, whatever happened in between."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import tensorlake as tl
from tensorlake.dataset.runs.record import Record
from tests.integration.runs.conftest import ROWS

RANDOM_CROP = {"image": [tl.decode.RandomResizedCrop(8, 8), tl.decode.Flip()]}


def trained(run, *, batches=None, rows=None, **arguments):
    """Read batches as a program would; return them by step."""
    found = []
    loader = run.loader(rows, **arguments)
    for batch in loader:
        found.append({name: np.copy(value) for name, value in batch.items()})
        run.log(mean=batch["label"].mean())
        if len(found) == batches:
            break
    return found, loader.state_dict()


@pytest.mark.parametrize("shuffle", [False, "full", "window"])
def test_batches_are_made_again_byte_for_byte(pictures, shuffle):
    with pictures.run("crops") as run:
        seen, _ = trained(run, batch_size=8, shuffle=shuffle, seed=5, decode=RANDOM_CROP)
    pictures.optimize()

    again = pictures.runs["crops"]

    for step, batch in enumerate(seen):
        made = again.batch(step)
        assert {name: value.tobytes() for name, value in made.items()} == {
            name: value.tobytes() for name, value in batch.items()
        }
        assert again.rows_at(step).tolist() == batch["_row"].tolist()


@pytest.mark.slow
def test_another_process_makes_the_same_batch(pictures):
    with pictures.run("elsewhere") as run:
        seen, _ = trained(run, batch_size=8, shuffle=True, seed=5, decode=RANDOM_CROP)
    program = f"""
        import tensorlake as tl
        batch = tl.runs({pictures.url!r})["elsewhere"].batch(3)
        print(batch["image"].tobytes().hex())
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == seen[3]["image"].tobytes().hex()


@pytest.mark.slow
def test_parts_of_ranks_are_replayed(pictures):
    read = {}
    for rank in range(3):
        with pictures.run("ranks") as run:
            own = {"rank": rank, "world_size": 3, "batch_size": 4, "shuffle": "window", "seed": 2}
            read[rank], _ = trained(run, decode=RANDOM_CROP, **own)

    again = pictures.runs["ranks"]

    for rank, batches in read.items():
        for step, batch in enumerate(batches):
            assert again.rows_at(step, rank).tolist() == batch["_row"].tolist()
            assert again.batch(step, rank)["image"].tobytes() == batch["image"].tobytes()
    whole = again.rows_at(1)
    parts = [row for rank in range(3) for row in again.rows_at(1, rank).tolist()]
    assert sorted(whole.tolist()) == sorted(parts)
    assert set(again.steps.column("rank").to_pylist()) == {0, 1, 2}
    with pytest.raises(tl.InvalidInputError, match="3 ranks"):
        again.batch(0, rank=3)


@pytest.mark.slow
def test_a_resumed_run_goes_on_in_its_record(pictures):
    how = {"batch_size": 5, "shuffle": True, "seed": 9}
    with pictures.run("resumed") as run:
        first, _ = trained(run, batches=4, **how)
        checkpoint_at = 2
        loader = run.loader(**how)
        loader.skip(checkpoint_at)
        state = json.loads(json.dumps(loader.state_dict()))
    with pictures.run("resumed") as run:  # what came after the checkpoint is trained on again
        loader = run.loader(batch_size=5, shuffle=True, seed=9)
        loader.load_state_dict(state)
        second = []
        for _epoch in range(2):
            for batch in loader:
                second.append(np.copy(batch["_row"]))
                run.log(again=1.0)
    again = pictures.runs["resumed"]

    expected = [batch["_row"] for batch in first[:checkpoint_at]] + second

    steps = again.steps
    assert steps.column("step").to_pylist() == list(range(len(expected)))
    assert steps.column("again").to_pylist() == [None] * checkpoint_at + [1.0] * len(second)
    for step, rows in enumerate(expected):
        assert again.rows_at(step).tolist() == rows.tolist()
    for row in range(0, ROWS, 7):
        steps_of_row = [step for step, rows in enumerate(expected) if row in rows]
        assert again.steps_of(row) == steps_of_row
    with pytest.raises(tl.InvalidInputError, match=f"no step {len(expected)}"):
        again.rows_at(len(expected))


@pytest.mark.slow
def test_a_killed_process_leaves_a_readable_record(pictures, tmp_path):
    program = f"""
        import json, os, signal
        import tensorlake as tl
        from pathlib import Path
        ds = tl.open({pictures.url!r})
        run = ds.run("killed")
        loader = run.loader(batch_size=5, shuffle=True, seed=1)
        for step, batch in enumerate(loader):
            run.log(step_seen=step)
            if step == 3:
                Path({str(tmp_path / "state")!r}).write_text(json.dumps(loader.state_dict()))
                run._recorder.flush()
                run._recorder.wait()
            if step == 6:
                os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -9
    state = json.loads((tmp_path / "state").read_text())
    killed = pictures.runs["killed"]
    assert killed.steps.column("step").to_pylist() == [0]  # more could be logged of those after it
    assert len(killed.batch(3)["_row"]) == 5

    with pictures.run("killed") as run:
        loader = run.loader(batch_size=5, shuffle=True, seed=1)
        loader.load_state_dict(state)
        rest = [np.copy(batch["_row"]) for batch in loader]

    steps = pictures.runs["killed"].steps.column("step").to_pylist()
    assert steps == [0, *range(4, 4 + len(rest))]
    assert pictures.runs["killed"].rows_at(4).tolist() == rest[0].tolist()
    assert pictures.check().ok


@pytest.mark.slow
def test_a_program_that_does_not_close_its_run_loses_nothing(pictures):
    program = f"""
        import tensorlake as tl
        run = tl.open({pictures.url!r}).run("open")
        for batch in run.loader(batch_size=10):
            run.log(mean=batch["label"].mean())
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
    assert pictures.runs["open"].steps.column("mean").to_pylist() == [4.5, 14.5, 24.5, 34.5, 43.0]


def test_values_of_rows_follow_rows(pictures):
    with pictures.run("hard") as run:
        for batch in run.loader(batch_size=8, shuffle=True, seed=3):
            run.log(per_row={"loss": batch["label"] * 1.5}, rows=batch["_row"])
    pictures.delete([0, 7])
    pictures.commit("two less")

    hard = pictures.runs["hard"].rows("loss")

    assert len(hard) == ROWS - 2
    assert hard["loss"].tolist() == [1.5 * label for label in hard["label"][:].tolist()]
    assert hard.query("WHERE loss > 60").rows.tolist() == [39, 40, 41, 42, 43, 44]


def test_the_last_value_of_a_row_counts(pictures):
    with pictures.run("epochs") as run:
        loader = run.loader(batch_size=20, shuffle=True, seed=3)
        for epoch in range(3):
            for batch in loader:
                run.log(per_row={"epoch": np.full(len(batch["_row"]), epoch)}, rows=batch["_row"])

    assert set(pictures.runs["epochs"].rows("epoch")["epoch"].tolist()) == {2.0}


def test_values_of_replaced_steps_do_not_count(pictures):
    def log(run, value, batches=None, state=None):
        loader = run.loader(batch_size=8, shuffle=True, seed=3)
        if state is not None:
            loader.load_state_dict(state)
        for number, batch in enumerate(loader, start=1):
            values = np.full(len(batch["_row"]), value)
            run.log(loss=value, per_row={"loss": values}, rows=batch["_row"])
            if number == 3:
                state = loader.state_dict()
            if number == batches:
                break
        return state

    with pictures.run("again") as run:
        state = log(run, 1.0, batches=5)
    with pictures.run("again") as run:
        log(run, 5.0, state=state)  # from step 3 on

    run = pictures.runs["again"]
    assert run.steps.column("step").to_pylist() == list(range(6))
    assert run.steps.column("loss").to_pylist() == [1.0] * 3 + [5.0] * 3
    means = np.array(list(pictures.query("SELECT RUN('again', 'loss', 'mean') AS mean")["mean"]))
    for step in range(6):
        assert set(means[run.rows_at(step)].tolist()) == {1.0 if step < 3 else 5.0}


def test_a_mix_is_recorded_elsewhere_and_given_again(pictures, tmp_path):
    other = tl.create(tmp_path / "other.tl", {"label": "int64"})
    other.extend({"label": range(100, 120)})
    other.commit("others")
    mix = tl.mix({"a": (pictures[["label"]], 0.5), "b": (other, 0.5)}, stop="first")
    with tl.run(tmp_path / "records", "mixed") as run:
        seen = []
        for batch in run.loader(mix, batch_size=6, seed=4, shuffle=True):
            seen.append(np.copy(batch["label"]))
            run.log(per_row={"loss": batch["label"]}, rows=batch)

    again = tl.runs(tmp_path / "records")["mixed"]

    with pytest.raises(tl.InvalidInputError, match=r"\.of\(view\)"):
        again.batch(2)
    assert again.of(mix).batch(2)["label"].tolist() == seen[2].tolist()
    known = again.of(other).rows("loss")
    assert known["loss"].tolist() == known["label"][:].tolist()


def test_packed_rows_are_given_again(tmp_path):
    ds = tl.create(tmp_path / "texts.tl", {"tokens": tl.Array("uint16", (None,))})
    ds.extend({"tokens": [np.arange(3 + i % 7) for i in range(40)]})
    ds.commit("documents")
    packed = ds.pack("tokens", 16, eos=0)
    with ds.run("packed") as run:
        seen = [np.copy(one["tokens"]) for one in run.loader(packed, batch_size=2, shuffle=True)]

    again = ds.runs["packed"].of(packed)

    assert all(np.array_equal(again.batch(step)["tokens"], seen[step]) for step in range(len(seen)))
    with pytest.raises(tl.InvalidInputError, match="read packed rows or windows"):
        again.steps_of(0)


@pytest.mark.parametrize("kind", ["mix", "windows", "documents"])
def test_batches_that_were_placed_are_given_again_without_the_cache(tmp_path, kind):
    ds = tl.create(tmp_path / "a.tl", {"x": tl.Array("int64", (None,)), "group": "int64"})
    ds.extend({"x": [np.full(1 + i % 5, i) for i in range(300)], "group": np.arange(300) // 30})
    ds.commit("rows")
    rows = {
        "mix": lambda: tl.mix({"a": (ds[:100], 1), "b": (ds[100:], 1)}, stop="all"),
        "windows": lambda: ds.windows(["x"], by="group", size=4, step=2),
        "documents": lambda: ds.pack("x", 16, split=False),
    }[kind]()
    with ds.run("placed") as run:
        seen = []
        loader = run.loader(
            rows, batch_size=4, drop_last=True, shuffle=True, seed=3, rank=0, world_size=2,
            placement="home", cache_dir=tmp_path / "cache", cache={"disk": "1MiB"},
        )  # fmt: skip
        for batch in loader:
            seen.append({name: batch[name] for name in batch})
            run.log(loss=0.0)

    again = ds.runs["placed"].of(rows)

    for step in (0, 2, len(seen) - 1):
        batch = again.batch(step, rank=0)
        assert all(repr(batch[name]) == repr(seen[step][name]) for name in seen[step])


def plus_one(row):
    return {**row, "label": row["label"] + 1}


def plus_two(row):
    return {**row, "label": row["label"] + 2}


def test_functions_are_given_again(pictures):
    with pictures.run("function") as run:
        how = {"batch_size": 8, "transform": plus_one, "columns": ["label", "_row"]}
        seen, _ = trained(run, **how)
    again = pictures.runs["function"]

    assert again.batch(1, transform=plus_one)["label"].tolist() == seen[1]["label"].tolist()
    with pytest.warns(tl.ReplayWarning, match="before transform="):
        before = again.batch(1)
    assert (before["label"] + 1).tolist() == seen[1]["label"].tolist()
    with pytest.raises(tl.ReplayMismatchError, match=r"plus_one"):
        again.batch(1, transform=plus_two)
    nearest = again.batch(1, exact=False, transform=plus_two)
    assert (nearest["label"] - 1).tolist() == seen[1]["label"].tolist()


def test_another_decoder_is_a_mismatch(pictures):
    with pictures.run("decoder") as run:
        trained(run, batch_size=8, decode=RANDOM_CROP)
    (part,) = Record.read(pictures.__session__.store, "decoder").parts("segment")
    path = Path(pictures.url) / part.path
    content = json.loads(path.read_text())
    content["software"]["pillow"] = "1.0"
    path.write_text(json.dumps(content))

    with pytest.raises(tl.ReplayMismatchError, match=r"pillow: recorded 1\.0, here"):
        pictures.runs["decoder"].batch(0)
    assert len(pictures.runs["decoder"].batch(0, exact=False)["label"]) == 8


def test_a_copy_has_the_runs_and_replays_them(pictures, tmp_path):
    with pictures.run("copied") as run:
        seen, _ = trained(run, batch_size=8, shuffle=True, seed=2)
    tl.copy(pictures.url, tmp_path / "copy.tl")
    copied = tl.open(tmp_path / "copy.tl")
    tl.delete(pictures.url, confirm=pictures.url)

    assert copied.runs["copied"].batch(2)["image"][0].tobytes() == seen[2]["image"][0].tobytes()
    with copied.run("copied") as run:  # and goes on, without a change of the source
        trained(run, batch_size=8, shuffle=True, seed=2, batches=1)
    assert tl.copy(copied.url, tmp_path / "second.tl").packs > 0


def test_collection_and_checks_leave_runs_alone(pictures):
    with pictures.run("kept") as run:
        trained(run, batch_size=8)
    pictures.gc()

    assert pictures.check().ok
    assert len(pictures.runs["kept"].batch(0)["label"]) == 8


def test_damage_is_found_and_other_runs_are_read(pictures):
    for name in ("fine", "hurt"):
        with pictures.run(name) as run:
            trained(run, batch_size=8)
    parts = Record.read(pictures.__session__.store, "hurt").parts("events")
    with (Path(pictures.url) / parts[0].path).open("r+b") as file:
        file.write(b"not an Arrow stream")

    findings = pictures.check().findings
    with pytest.raises(tl.CorruptionError, match="is damaged"):
        _ = pictures.runs["hurt"].steps
    assert [(one.object, one.severity) for one in findings] == [(parts[0].path, "warning")]
    assert len(pictures.runs["fine"].steps) == 6
    pictures.runs.delete("hurt")
    assert list(pictures.runs) == ["fine"]
    assert pictures.check().ok


def test_a_config_is_remembered_without_secrets(pictures):
    with pictures.run("config", config={"lr": 0.1, "aws": {"secret_key": "x"}}) as run:
        run.log(loss=1)
    assert pictures.runs["config"].config == {"lr": 0.1, "aws": {"secret_key": "***"}}
    with pytest.raises(tl.InvalidInputError, match="'lr' differ"):
        pictures.run("config", config={"lr": 0.2, "aws": {"secret_key": "x"}})
    assert pictures.run("config").config["lr"] == 0.1


def test_programs_without_our_loader_count_their_own_steps(pictures):
    with pictures.run("own") as run:
        for loss in (3.0, 2.0, 1.0):
            run.log(loss=loss)
        run.log(step=10, loss=0.5)
    with pictures.run("own") as run:
        run.log(loss=0.25)

    steps = pictures.runs["own"].steps
    assert steps.column("step").to_pylist() == [0, 1, 2, 10, 11]
    assert steps.column("loss").to_pylist() == [3.0, 2.0, 1.0, 0.5, 0.25]


def test_torch_and_its_tensors(pictures):
    import torch

    with pictures.run("torch") as run:
        for batch in run.torch(batch_size=8, columns=["label", "_row"]):
            loss = batch["label"].double().requires_grad_() * 2
            run.log(loss=loss.mean(), per_row={"loss": loss}, rows=batch["_row"])

    again = pictures.runs["torch"]
    assert again.batch(0)["label"].dtype == torch.int64
    assert again.rows("loss")["loss"].tolist() == [2.0 * label for label in range(ROWS)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loss": "low"}, r"log\(loss=…\) is a number, got 'low'"),
        ({"loss": np.ones(3)}, r"per_row="),
        ({"per_row": {"loss": [1.0]}}, "needs the rows"),
        ({"per_row": {"loss": [1.0]}, "rows": [1, 2]}, "1 numbers for 2 rows"),
        ({"per_row": {"loss": [1.0]}, "rows": [99]}, "the version has 47 rows"),
        ({"per_row": {"loss": [1.0]}, "rows": ["a"]}, "batch's '_row'"),
        ({"rows": [1]}, "rows= is for per_row="),
        ({"epoch": 1.0}, r"'epoch' is a column of the record itself"),
        ({"per_row": 1.0, "rows": [1]}, "per_row is a dict"),
        ({"per_row": {"rank": [1.0]}, "rows": [1]}, "'rank' is a column of the record"),
        ({"step": -1, "loss": 1.0}, "step"),
    ],
)
def test_wrong_values_are_refused_and_nothing_is_logged(pictures, wrong, message):
    with pictures.run("wrong") as run:
        loader = run.loader(batch_size=8)
        next(iter(loader))
        with pytest.raises(tl.InvalidInputError, match=message):
            run.log(**wrong)
    assert pictures.runs["wrong"].steps.column_names[-1] == "compute_s"


def test_reading_and_recording_are_told_apart(pictures):
    with pytest.raises(tl.RunNotFoundError, match="no run 'nope'"):
        _ = pictures.runs["nope"]
    with pictures.run("closed") as run:
        run.log(loss=1)
    with pytest.raises(tl.InvalidStateError, match="was closed"):
        run.log(loss=2)
    with pytest.raises(tl.InvalidInputError, match="open to be read"):
        pictures.runs["closed"].log(loss=2)
    with pytest.raises(tl.InvalidInputError, match="recorded no batch"):
        pictures.runs["closed"].batch(0)
    with pytest.raises(tl.InvalidInputError, match="logged were: none"):
        pictures.runs["closed"].rows("los")
    with pytest.raises(tl.InvalidInputError, match="name of a run"):
        pictures.run("")
    assert dict(tl.runs(pictures)).keys() == {"closed"}


def test_a_forked_child_records_nothing(pictures):
    import os

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pictures.run("forked") as run:
            run.log(loss=1.0)
            pid = os.fork()
            if pid == 0:
                try:
                    run.log(loss=2.0)
                    os._exit(1)
                except tl.InvalidStateError:
                    run.close()
                    os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
    assert pictures.runs["forked"].steps.column("loss").to_pylist() == [1.0]
