"""Entries that a loader adds to batches never take the place of a column."""

from __future__ import annotations

import pytest

import tensorlake as tl

TOKENS = tl.Array("uint16", (None,))


def made(name, schema):
    ds = tl.create(f"memory://entries-{name}", schema)
    ds.extend({key: [[1, 2, 3]] * 4 for key in schema})
    ds.commit("four")
    return ds


@pytest.mark.parametrize("name", ["segments", "positions", "cu_seqlens"])
def test_columns_named_as_entries_of_sequences_are_renamed_first(name):
    with made(f"pack-{name}", {"tokens": TOKENS, name: TOKENS}) as ds:
        for tokens, mask in (("tokens", name), (name, None)):
            with pytest.raises(tl.InvalidInputError, match=f"pack\\(\\) of '{name}'.*\n.*rename"):
                ds.pack(tokens, 4, mask=mask)
        ds.rename_tensor(name, "turns")
        ds.commit("renamed")

        batch = next(iter(ds.pack("tokens", 4, mask="turns").loader(batch_size=3)))

        assert batch["turns"].tolist() == batch["tokens"].tolist()


@pytest.mark.parametrize(("name", "tail"), [("_start", "drop"), ("_mask", "pad")])
def test_columns_named_as_entries_of_windows_are_selected_under_others(name, tail):
    with made(f"windows{name}", {"tokens": TOKENS}) as ds:
        with pytest.raises(tl.InvalidInputError, match=f"windows\\(\\) of '{name}'"):
            ds.query(f'SELECT tokens, LENGTH(tokens) AS "{name}"').windows(
                [name], by="_row", size=1, tail=tail
            )
        if name == "_mask":  # without padding there is no such entry
            view = ds.query(f'SELECT tokens, LENGTH(tokens) AS "{name}"')
            batch = next(iter(view.windows([name], by=name, size=2).loader(batch_size=1)))
            assert batch["_mask"].tolist() == [[3, 3]]


@pytest.mark.parametrize(
    ("how", "name"),
    [("pad", "x_mask"), (tl.collate.Pad(9), "x_mask"), ("concat", "x_offsets")],
)
def test_columns_named_as_entries_of_collate_are_left_out(how, name):
    with made(f"collate-{name}-{how}", {"x": TOKENS, name: TOKENS}) as ds:
        with pytest.raises(tl.InvalidInputError, match=f"makes the entry '{name}'"):
            ds.loader(batch_size=2, collate={"x": how})

        batch = next(iter(ds.loader(batch_size=2, columns=["x"], collate={"x": how})))

        assert set(batch) == {"x", name}
