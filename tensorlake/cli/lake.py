"""Commands with ``--all``: every dataset of a lake, one after another.

A dataset that fails does not stop the others; the command then ends with 1. With ``--json`` there
is one document per dataset and line:

    {"dataset": "pets", "ok": true, …}                              the fields of the report
    {"dataset": "cars", "ok": false, "error": {"code": …, "message": …}}
    {"dataset": "cats", "ok": true, "state": "copying"}             an incomplete copy: left out
    {"dataset": "dogs", "ok": true, "state": "removed"}             removed since it was listed
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import typer

from tensorlake.cli.exits import FAILED, described, wrong_usage
from tensorlake.cli.output import print_json, print_text
from tensorlake.cli.terms import Terms
from tensorlake.errors import DatasetNotFoundError, TensorlakeError
from tensorlake.quantities import plural
from tensorlake.storage import join_url, split_url

if TYPE_CHECKING:
    from tensorlake.dataset import Found

__all__ = ["All", "LakeRun", "check_apart"]

All = Annotated[bool, typer.Option("--all", help="URL is a lake: do it for each of its datasets.")]
Report = TypeVar("Report")


@dataclass(slots=True)
class LakeRun(Generic[Report]):
    """One command over all datasets of a lake.

    Attributes:
        url: The lake.
        act: The command, given a dataset's name and URL.
        terms: Options of the store, and of the output.
        as_json: Whether each report is a line of JSON.
        is_ok: Whether a report is one of success.
        text: Describes a report, printed when it is there; None: nothing is.
        done: Names and reports of the datasets that were reached.
        failed: Names of those that failed.
    """

    url: str
    act: Callable[[str, str], Report]
    terms: Terms
    as_json: bool
    is_ok: Callable[[Report], bool] = lambda _report: True
    text: Callable[[str, Report], str] | None = lambda _name, report: str(report)
    done: list[tuple[str, Report]] = field(default_factory=list[tuple[str, Any]], init=False)
    failed: list[str] = field(default_factory=list[str], init=False)
    _errors: int = field(default=0, init=False)

    def run(self, *, looks_again: bool = False) -> None:
        """Reach every dataset; with ``looks_again``, also those that were created meanwhile.

        Raises:
            DatasetNotFoundError: There are none.
        """
        for found in self._datasets(looks_again=looks_again):
            if found.state == "copying":
                self._note(found.name, "copying", "an incomplete copy, left out")
                continue
            place = join_url(self.url, found.name)
            try:
                report = self.act(found.name, place)
            except DatasetNotFoundError as error:
                if self._walk(place):
                    self._fail(found.name, error)
                else:
                    self._note(found.name, "removed", "removed meanwhile")
            except TensorlakeError as error:
                self._fail(found.name, error)
            else:
                self._report(found.name, report)

    def end(self) -> None:
        """Print how many datasets there were; exit with 1 if any failed."""
        if not self.as_json and not self.terms.quiet:
            failed = f", {len(self.failed):,} failed: {', '.join(self.failed)}"
            total = plural(len(self.done) + self._errors, "dataset")
            print_text(f"{total} of {self.url}{failed if self.failed else ''}")
        if self.failed:
            raise typer.Exit(FAILED)

    def _datasets(self, *, looks_again: bool) -> Iterator["Found"]:
        listed = self._walk(self.url)
        if [one.name for one in listed] == ["."]:
            wrong_usage(f"--all is for a lake, and {self.url!r} is one dataset: leave out --all")
        if not listed:
            raise DatasetNotFoundError(
                f"no dataset under {self.url!r}\ntensorlake ls {self.url} lists the folder",
                dataset=self.url,
            )
        yield from listed
        if looks_again:
            known = {one.name for one in listed}
            yield from (one for one in self._walk(self.url) if one.name not in known)

    def _walk(self, url: str) -> list["Found"]:
        from tensorlake.dataset import walk_lake  # lazy: --help does not need it

        return walk_lake(url, storage_options=self.terms.options_for(url))

    def _report(self, name: str, report: Report) -> None:
        is_ok = self.is_ok(report)
        self.done.append((name, report))
        if not is_ok:
            self.failed.append(name)
        if self.as_json:
            facts: Any = report
            _print_line({"dataset": name, "ok": is_ok, **asdict(facts)})
        elif self.text is not None and not self.terms.quiet:
            print_text(self.text(name, report), flush=True)

    def _fail(self, name: str, error: TensorlakeError) -> None:
        self.failed.append(name)
        self._errors += 1
        if self.as_json:
            about = {"code": error.code, "message": str(error)}
            _print_line({"dataset": name, "ok": False, "error": about})
        else:
            print_text(f"{name}: {described(error)}", file=sys.stderr)

    def _note(self, name: str, state: str, text: str) -> None:
        if self.as_json:
            _print_line({"dataset": name, "ok": True, "state": state})
        elif not self.terms.quiet:
            print_text(f"{name}: {text}", file=sys.stderr)


def check_apart(src: str, dst: str) -> None:
    """Reject a lake and a copy of it of which one is inside the other."""
    source, target = _place(src), _place(dst)
    if source == target:
        wrong_usage(f"{src!r} and {dst!r} are the same place")
    if target.startswith(source) or source.startswith(target):
        inner, outer = (dst, src) if target.startswith(source) else (src, dst)
        wrong_usage(
            f"{inner!r} is inside {outer!r}: the copy and the lake would be one lake."
            " Give a place outside"
        )


def _place(url: str) -> str:
    scheme, path = split_url(url)
    path = os.path.realpath(path) if scheme == "file" else path
    return f"{scheme}://{path.rstrip('/')}/"


def _print_line(document: dict[str, Any]) -> None:
    print_json(document, indent=None)
    sys.stdout.flush()
