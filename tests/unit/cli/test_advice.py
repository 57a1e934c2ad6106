"""Advice in a shell names commands and options, and following it works."""

import json

import pytest

import tensorlake as tl
from tensorlake.cli.exits import in_shell, ingest_in_shell


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        (
            "leave it out: on_error='skip' or 'quarantine'",
            "leave it out: --on-error skip or 'quarantine'",
        ),
        ("to remove: delete=True; it may be", "to remove: --delete; it may be"),
        ("folders are not classes: labels=False", "folders are not classes: --no-labels"),
        (
            "name the column of their ids: key='id', or",
            "name the column of their ids: --key id, or",
        ),
        ("arguments: key='id' then, nothing here", "arguments: --key id then, nothing here"),
        ("name another column: key=…, or none", "name another column: --key …, or none"),
        ('pattern="{label}_{id}.jpg"', "--pattern '{label}_{id}.jpg'"),
        ("columns=['image', 'boxes']", "--columns image,boxes"),
        ("to set it: schema={'image': tl.Image(…)}", "to set it: --schema FILE"),
        ("or schema={'x': 'uint64'}, or", """or --schema FILE with {"x": "uint64"}, or"""),
        ("tl.delete('a b.tl', confirm='a b.tl'), or", "tensorlake rm 'a b.tl', or"),
        ("to use it as it is: tl.open('a.tl'); to", "to use it as it is: tensorlake info a.tl; to"),
    ],
)
def test_arguments_are_options(python, shell):
    assert ingest_in_shell(python) == shell


def test_code_without_a_command_can_be_run_in_a_shell():
    code = "ds = tl.open('a.tl'); ds['label'].add_names(['fox']); ds.commit()"

    assert in_shell(f"add it: {code}, then") == (
        f'add it: python -c "import tensorlake as tl; {code}", then'
    )


def test_types_of_a_schema_are_those_of_a_file(run, tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("x\n1\nb\n")
    text = ingest_in_shell("give it: schema={'x': tl.Text()}")
    (tmp_path / "types.json").write_text(text.partition(" with ")[2])

    made = run(
        *("ingest", "csv", str(table), str(tmp_path / "t.tl")),
        *("--schema", str(tmp_path / "types.json")),
    )

    assert made.code == 0
    assert json.loads(text.partition(" with ")[2])["x"]["kind"] == "text"
    assert isinstance(tl.open(str(tmp_path / "t.tl")).schema["x"], tl.Text)
