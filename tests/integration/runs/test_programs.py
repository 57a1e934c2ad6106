"""Programs as they are written: values before the loop, workers, two at once, other rows."""

from __future__ import annotations

import pytest

import tensorlake as tl


def test_batches_of_worker_processes_leave_steps_to_the_program(pictures):
    import torch

    with pictures.run("workers") as run:
        loader = run.torch(batch_size=8, columns=["label"])
        fed = torch.utils.data.DataLoader(
            loader, batch_size=None, num_workers=2, multiprocessing_context="fork"
        )
        for number, _batch in enumerate(fed):
            run.log(loss=number)
        with pytest.warns(tl.RunRecordWarning, match="num_workers=0"):
            run.close()

    assert pictures.runs["workers"].steps.column("loss").to_pylist() == [
        0.0,
        1.0,
        2.0,
        3.0,
        4.0,
        5.0,
    ]


def test_values_may_be_logged_of_the_batches_before(pictures):
    with pictures.run("late") as run:
        batches = iter(run.loader(batch_size=8))
        for _ in range(4):
            next(batches)
        run.log(step=1, loss=1.0)
        run.log(step=3, loss=3.0)
        with pytest.raises(tl.InvalidInputError, match="newest batch is of step 3"):
            run.log(step=0, loss=0.0)
        with pytest.raises(tl.InvalidInputError, match="newest batch is of step 3"):
            run.log(step=4, loss=4.0)

    assert pictures.runs["late"].steps.column("loss").to_pylist() == [None, 1.0, None, 3.0]


def test_a_second_process_of_a_rank_is_noticed(pictures):
    first, second = pictures.run("two"), pictures.run("two")
    for run, seed in ((first, 1), (second, 2)):
        batches = iter(run.loader(batch_size=8, seed=seed, shuffle=True))
        for _ in range(3):
            next(batches)
    for run in (first, second):
        run._recorder.wait()

    def close_both():
        first.close()
        second.close()

    # The attempt whose name comes first is replaced: chance decides which, if two begin at once.
    with pytest.warns(tl.RunRecordWarning, match="another process has recorded run 'two'") as told:
        close_both()
    assert len(told) == 1


def test_narrow_floats_of_torch_are_logged(pictures):
    import torch

    half = torch.arange(8).to(torch.bfloat16)
    with pictures.run("narrow") as run:
        batch = next(iter(run.torch(batch_size=8)))
        run.log(loss=half.mean(), per_row={"loss": half}, rows=batch["_row"])

    assert pictures.runs["narrow"].steps.column("loss").to_pylist() == [3.5]
    assert pictures.runs["narrow"].rows("loss")["loss"].tolist() == list(range(8))


def test_values_before_the_first_batch_are_of_its_step(pictures):
    with pictures.run("early") as run:
        run.log(validation=0.5)
        loader = run.loader(batch_size=10, shuffle=True, seed=1)
        for number, _batch in enumerate(loader):
            run.log(loss=number)
            if number == 1:
                state = loader.state_dict()
    with pictures.run("early") as run:  # its validation does not move the steps either
        run.log(validation=0.75)
        loader = run.loader(batch_size=10, shuffle=True, seed=1)
        loader.load_state_dict(state)
        for number, _batch in enumerate(loader):
            run.log(loss=number)

    steps = pictures.runs["early"].steps
    assert steps.column("step").to_pylist() == [0, 1, 2, 3, 4]
    assert steps.column("validation").to_pylist() == [0.5, None, 0.75, None, None]
    assert steps.column("loss").to_pylist() == [0.0, 1.0, 0.0, 1.0, 2.0]


def test_rows_of_another_dataset_are_refused(pictures, tmp_path):
    other = tl.create(tmp_path / "other.tl", {"label": "int64"})
    other.extend({"label": [1, 2]})
    other.commit("others")

    with pictures.run("mine") as run:
        with pytest.raises(tl.InvalidInputError, match=r"rows of .*other\.tl"):
            run.loader(other, batch_size=2)
        _ = list(run.loader(batch_size=8, columns=["label"]))
    with pytest.raises(tl.InvalidInputError, match=r"without\(\) got rows of .*other\.tl"):
        pictures.runs["mine"].without(other).loader()
    with pytest.raises(tl.InvalidInputError, match="takes the rows as a view"):
        pictures.runs["mine"].without([1, 2])
    with tl.run(pictures, "mine") as run:
        assert run.dataset == pictures.url


def test_a_run_of_two_batch_sizes_is_made_step_by_step(pictures):
    with pictures.run("sizes") as run:
        loader = run.loader(batch_size=10, columns=["label"])
        loader.skip(1)
        state = loader.state_dict()
        _ = list(run.loader(batch_size=10, columns=["label"]))
    with pictures.run("sizes") as run:
        loader = run.loader(batch_size=6, columns=["label"])
        loader.load_state_dict(state)
        _ = list(loader)
    other = pictures.runs["sizes"].without(pictures[[11]])

    with pytest.raises(tl.InvalidInputError, match=r"other batch sizes \(\[6, 10\]\)"):
        other.loader()
    assert other.batch(1)["label"].tolist() == [10, 0, 12, 13, 14, 15]
