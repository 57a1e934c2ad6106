"""The result of a diagnosis: the bottleneck, the rate and its range, the stalls, the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from tensorlake.loader.diagnosis.estimate import Estimate
from tensorlake.loader.diagnosis.model import Model

__all__ = ["Diagnosis"]

LOCK_CORES = 1.5  # with fewer, a transform with the lock and one without get as much
KNOWN_TO = 1.1  # demands: other programs delay threads that wake up
UNCERTAIN = 1.5  # a range wider than this says that the machine was busy, or the data uneven

NAMES = {
    "step": "the step",
    "transfer": "converting batches, and batch_transform=",
    "decode": "unpacking and decoding",
    "rest": "planning and requesting (the stage rest)",
    "collate": "collating",
    "transform": "the function transform=",
    "bandwidth": "the store's bandwidth",
    "latency": "the store's latency",
    "prefetch": "the size of prefetch=",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Where the time of a loader goes, and which settings would be faster.

    Attributes:
        model: The measured demands, and what they use.
        measured: Rows per second of the loader as it is, with the step.
        settings: Arguments of the loader that would be faster; empty if none would.
        expected: Rows per second with them, by the model.
        tried: Rows per second with them, measured; None if they were not tried.
        has_step: Whether the step is in the model.
        notes: Gaps of the measurement.
    """

    model: Model
    measured: Estimate
    settings: dict[str, Any]
    expected: Estimate
    tried: Estimate | None = None
    has_step: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def bottleneck(self) -> str:
        """The stage, or the property of the store, that limits the rate.

        ``step``, ``transfer``, ``decode``, ``rest`` (all other work of the loader), ``collate`` or
        ``transform``; of a store ``latency``, ``bandwidth`` or ``prefetch``. Empty if nothing does.
        """
        limit = self.model.limit
        return "" if limit is None else limit.stage

    @property
    def rate(self) -> float:
        """Rows per second, by the model."""
        return self.model.rate.value

    @property
    def interval(self) -> tuple[float, float]:
        """The range of the rate: its width comes from the spread of the measurements."""
        return self.model.rate.low, self.model.rate.high

    @property
    def stalls(self) -> dict[str, float]:
        """Seconds of a step: ``compute``, and what it waits for, by stage."""
        return self.model.stalls

    @property
    def sentence(self) -> str:
        """Name the bottleneck, and what would help."""
        limit = self.model.limit
        if limit is None:
            return "Nothing takes time."
        text = f"{NAMES[limit.stage]} limits the rate to {limit.rate.value:,.0f} rows/s"
        if limit.stage == "transform":
            text += f": it {self.model.transform.kind.replace('the lock', 'the lock of Python')}"
        rivals = [NAMES[one.stage] for one in self.model.rivals]
        if rivals:
            text += f"; by the measurements it could also be {' or '.join(dict.fromkeys(rivals))}"
        return f"{text[0].upper()}{text[1:]}. {self._advice()}"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        model = self.model
        low, high = self.interval
        return {
            "bottleneck": self.bottleneck,
            "sentence": self.sentence,
            "rate": self.rate,
            "interval": [low, high],
            "measured": self.measured.to_json(),
            "stalls": self.stalls,
            "ceilings": [
                {
                    "resource": one.resource,
                    "stage": one.stage,
                    "formula": one.formula,
                    **one.rate.to_json(),
                }
                for one in model.ceilings
            ],
            "demands": {
                name: {"wall_s": wall, "cpu_s": cpu, "lock_s": lock}
                for name, wall, cpu, lock in demands(model)
            },
            "workers": model.workers,
            "cores": model.cores.to_json(),
            "settings": self.settings,
            "expected": self.expected.value,
            "tried": None if self.tried is None else self.tried.value,
            "notes": list(self.notes),
        }

    def to_html(self, path: str | PathLike[str]) -> None:
        """Write a page with a strip of a step and the ceilings; it loads nothing."""
        from tensorlake.loader.diagnosis.page import page_of

        page = page_of(self.model, sentence=self.sentence, report=str(self))
        Path(path).write_text(page, encoding="utf-8")

    def __str__(self) -> str:
        low, high = self.interval
        model = self.model
        range_text = f"{low:,.0f} to {high:,.0f}; measured {self.measured.value:,.0f}"
        step_text = f"{_ms(sum(self.stalls.values()))} for {model.batch_rows:,.0f} rows"
        lines = [
            self.sentence,
            "",
            f"rate       {self.rate:,.0f} rows/s by the model, {range_text}",
            f"step       {step_text}: {self._split()}",
            "",
            "stage        per row     processor   lock",
        ]
        lines += [
            f"{name:<11}{_ms(wall):>10} {_ms(cpu):>12}  {_ms(lock) if lock else '-':>8}"
            for name, wall, cpu, lock in demands(model)
        ]
        lines += ["", "resource     rows/s    range                formula"]
        lines += [
            f"{one.resource:<9}{one.rate.value:>10,.0f}    "
            f"{f'{one.rate.low:,.0f} to {one.rate.high:,.0f}':<20} {one.formula}"
            for one in model.ceilings
        ]
        lines += ["", f"settings   {self.settings_text}"]
        return "\n".join([*lines, *(f"note       {note}" for note in self.all_notes)])

    @property
    def settings_text(self) -> str:
        """The settings as keywords, and what they give."""
        if not self.settings:
            return "no change is expected to give a tenth more"
        listed = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        tried = "" if self.tried is None else f"; tried: {self.tried.value:,.0f}"
        return f"{listed}: {self.expected.value:,.0f} rows/s by the model{tried}"

    @property
    def all_notes(self) -> list[str]:
        """The notes, and reasons for a wide interval."""
        low, high = self.interval
        notes = list(self.notes)
        if not self.has_step:
            notes.append("without a step: give step= to see what the program's own loop takes")
        model, limit = self.model, self.model.limit
        is_transform = limit is not None and limit.stage == "transform"
        in_threads = is_transform and not model.by_processes
        if in_threads and model.cores.value < LOCK_CORES and model.transform.kind == "computes":
            notes.append(
                f"with {model.cores.value:.1f} free cores two threads take turns anyway:"
                " transform= may also hold the interpreter's lock: measure on an idle machine, or"
                " try engine='processes'"
            )
        if is_transform and model.transform.kind == "runs threads of its own":
            notes.append(
                f"transform= runs threads of its own in {model.workers} workers at once, and they"
                " wait for one another: set OPENBLAS_NUM_THREADS=1, OMP_NUM_THREADS=1 and"
                " MKL_NUM_THREADS=1 before Python starts, or torch.set_num_threads(1)"
            )
        if self.measured.high < low / KNOWN_TO or self.measured.low > high * KNOWN_TO:
            notes.append(
                f"the measured rate, {self.measured.value:,.0f} rows/s, is not in the model's"
                " range: work that it does not have takes part, or the machine's load changed; the"
                " bottleneck is uncertain"
            )
        if high > UNCERTAIN * low:
            free = self.model.cores
            notes.append(
                f"the range is wide: the process got {free.low:.1f} to {free.high:.1f} cores while"
                " it was measured, or rows differ much; measure again on an idle machine"
            )
        return notes

    def _split(self) -> str:
        parts = [f"{name} {_ms(value)}" for name, value in self.stalls.items() if value]
        return ", ".join(parts) or "nothing"

    def _advice(self) -> str:
        if self.settings:
            given = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
            return f"Give the loader {given}."
        match self.bottleneck:
            case "step":
                return "The loader is faster than the step: nothing in it would help."
            case "transfer":
                return "Fewer columns, smaller dtypes, or less work in batch_transform= would help."
            case "decode":
                return (
                    "More cores, fewer columns, or images of nearly the decoded size, would help."
                )
            case "rest":
                return "A larger batch_size, or fewer columns, would help."
            case "collate":
                return "A form of tl.collate instead of a function, or fewer columns, would help."
            case "transform" if self.model.transform.kind == "runs threads of its own":
                return "One thread a call, such as OPENBLAS_NUM_THREADS=1, would help."
            case "transform":
                return (
                    "Steps of tl.decode, or work on whole batches in batch_transform=, would help."
                )
            case "bandwidth":
                return "A nearer store, fewer columns, or smaller samples would help."
            case _:
                return "A nearer store, or larger chunks (ds.optimize()), would help."


def demands(model: Model) -> list[tuple[str, float, float, float]]:
    """List the stages that take time: name, then seconds per row: all, processor and lock."""
    names = ("step", "transfer", "decode", "collate", "transform")
    listed = [
        (name, demand.wall.value, demand.cpu.value, demand.lock.value)
        for name in names
        if (demand := getattr(model, name)).wall.value > 0
    ]
    if model.rest_cpu.value > 0:
        listed.append(("rest", 0.0, model.rest_cpu.value, 0.0))
    return listed


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"
