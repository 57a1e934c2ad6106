"""``tensorlake fork``: what it prints, and what ``info`` and ``du`` show of a fork."""

import json

import tensorlake as tl


def test_a_fork_is_made_and_shown(run, pets):
    fork = f"{pets}-fork"

    made = run("fork", pets, fork, "--at", "main@2")

    assert made.code == 0, made.err
    assert made.lines == [f"{fork}   main@0   3 rows   fork of main@2 of {pets}"]
    assert f"fork of main@2 of {pets}" in run("info", fork).lines
    assert json.loads(run("info", fork, "--json").out)["bases"] == [f"main@2 of {pets}"]
    assert json.loads(run("info", pets, "--json").out)["bases"] == []
    assert run("check", fork).code == 0
    assert run("du", fork).code == 0
    assert run("log", fork, "--oneline").code == 0
    assert run("fork", pets, fork).code == 1
    assert tl.open(fork)["label"].to_list() == tl.open(pets, "main@2")["label"].to_list()
