"""tensorlake bench: figures of a user's own dataset, as text, JSON and a page."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from tests.unit.loader.conftest import ROWS, fill_pets


@pytest.fixture(scope="module")
def pets(tmp_path_factory):
    url = str(tmp_path_factory.mktemp("bench") / "pets.tl")
    fill_pets(url).close()
    return url


def test_any_dataset_streams_and_what_holds_it_back_is_said(run, pets):
    answer = run("bench", pets, "--decode", "32", "--batch-size", "16")

    assert answer.code == 0
    assert f"epoch 0: {ROWS} rows in" in answer.out
    assert f"epoch 1: {ROWS} rows in" in answer.out
    assert "stage" in answer.out
    assert "ceilings  plan " in answer.out
    assert "not measured" not in answer.out
    assert "the stream" in answer.out or "No stage" in answer.out


def test_figures_come_as_one_document(run, pets):
    answer = run("bench", pets, "--json", "--columns", "tokens,label", "--batches", "2")

    document = json.loads(answer.out)
    assert [epoch["epoch"] for epoch in document["epochs"]] == [0, 1]
    assert document["epochs"][0]["rows"] == ROWS
    assert document["epochs"][0]["rows_per_s"] > 0
    assert set(document["epochs"][0]["stages"]) >= {"gather"}


def test_the_page_is_whole_and_loads_nothing(run, pets, tmp_path):
    page = tmp_path / "bench.html"

    answer = run("bench", pets, "--html", str(page), "--batch-size", "4", "--epochs", "3")

    assert answer.code == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "src=" not in text
    assert "<script" not in text
    for start in range(text.count("<svg")):
        svg = text.split("<svg")[start + 1].split("</svg>")[0]
        ET.fromstring(f"<svg{svg}</svg>")


def test_an_unknown_column_is_wrong_usage(run, pets):
    answer = run("bench", pets, "--columns", "tokns")

    assert answer.code == 2
    assert "tokns" in answer.err
