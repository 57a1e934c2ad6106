"""The page of ``tensorlake bench --html``: rate and busy stages over time, as one file of SVG.

The page loads nothing and runs no scripts: it can be archived with a report.
"""

from collections.abc import Mapping, Sequence
from html import escape

from tensorlake.cli.bench.contest import Contest, shown_ratio
from tensorlake.cli.bench.run import Measured
from tensorlake.loader import Epoch

__all__ = ["bench_page"]

WIDTH, HEIGHT, MARGIN = 860, 240, 50
OURS_COLOUR, THEIRS_COLOUR = "#1f77b4", "#ff7f0e"
STAGES = {
    "fetch": "#1f77b4",
    "plan": "#17becf",
    "unpack": "#9467bd",
    "gather": "#8c564b",
    "decode": "#d62728",
    "transform": "#2ca02c",
    "collate": "#bcbd22",
    "waiting": "#ff7f0e",
    "convert": "#e377c2",
    "batch_transform": "#98df8a",
    "consumer": "#7f7f7f",
}
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em}"
    "pre{background:#f5f5f5;padding:1em;overflow-x:auto}svg{width:100%;height:auto}"
    "text{font-size:12px;fill:#333}td,th{padding:0 1em;text-align:right}"
)


def bench_page(url: str, measured: Measured, contest: Contest | None = None) -> str:
    """Return the page, with the opponent's curve beside ours where there is a contest."""
    epochs = measured.epochs
    tables = "".join(
        f"<h2>Epoch {epoch.number}: {epoch.rows_per_s:,.0f} rows/s</h2>"
        f"<p>{epoch.stats.rows:,} rows in {epoch.seconds:.2f} s; first batch after"
        f" {epoch.first_batch_s * 1000:,.0f} ms.</p><pre>{escape(str(epoch.stats))}</pre>"
        for epoch in epochs
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>tensorlake bench {escape(url)}</title><style>{STYLE}</style>"
        f"<h1>{escape(url)}</h1><pre>{escape(measured.plan)}</pre>"
        f"<h2>Rows per second</h2>{_rates(epochs, contest)}{_beside(contest)}"
        f"<h2>Busy stages</h2>{_busy(epochs)}<p>{_legend(STAGES)}</p>{tables}</html>\n"
    )


def _rates(epochs: Sequence[Epoch], contest: Contest | None) -> str:
    lines = {"tensorlake": (OURS_COLOUR, _rates_of(epochs))}
    if contest is None:
        return _plot(lines, unit=" rows/s")
    lines[contest.opponent] = THEIRS_COLOUR, _rates_of(contest.theirs.epochs)
    legend = _legend({name: colour for name, (colour, _) in lines.items()})
    return f"{_plot(lines, unit=' rows/s')}<p>{legend}</p>"


def _rates_of(epochs: Sequence[Epoch]) -> list[tuple[float, float]]:
    return [
        (sample.seconds, sample.stats.rows_per_s) for epoch in epochs for sample in epoch.samples
    ]


def _beside(contest: Contest | None) -> str:
    """Return the rates of both contenders, the ratio, and the conditions."""
    if contest is None:
        return ""
    rows = "".join(
        f"<tr><td>{ours.number}</td><td>{ours.rows_per_s:,.0f}</td>"
        f"<td>{theirs.rows_per_s:,.0f}</td><td>{shown_ratio(ratio)}</td></tr>"
        for ours, theirs, ratio in zip(
            contest.ours.epochs, contest.theirs.epochs, contest.ratios, strict=True
        )
    )
    conditions = "".join(
        f"<li>{escape(name)}: {escape(value)}</li>" for name, value in contest.conditions.items()
    )
    return (
        f"<table><tr><th>epoch</th><th>tensorlake rows/s</th><th>{escape(contest.opponent)}"
        f" rows/s</th><th>ratio</th></tr>{rows}</table><ul>{conditions}</ul>"
    )


def _busy(epochs: Sequence[Epoch]) -> str:
    lines: dict[str, tuple[str, list[tuple[float, float]]]] = {}
    for name, colour in STAGES.items():
        points = [
            (sample.seconds, 100 * stage.busy)
            for epoch in epochs
            for sample in epoch.samples
            for stage in sample.stats.stages
            if stage.name == name
        ]
        if points:
            lines[name] = colour, points
    return _plot(lines, unit="%", top=100)


def _legend(colours: Mapping[str, str]) -> str:
    items = (f'<span style="color:{colour}">■</span> {name}' for name, colour in colours.items())
    return " &nbsp; ".join(items)


def _plot(
    lines: dict[str, tuple[str, list[tuple[float, float]]]], *, unit: str, top: float = 0.0
) -> str:
    """Draw lines over seconds, each with its colour in the legend and a title on the line."""
    points = [point for _, listed in lines.values() for point in listed]
    if not points:
        return "<p>The run was too short to plot.</p>"
    last = max(seconds for seconds, _ in points) or 1.0
    highest = top or max(value for _, value in points) or 1.0

    def place(seconds: float, value: float) -> str:
        x = MARGIN + (WIDTH - 2 * MARGIN) * seconds / last
        y = HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * min(value / highest, 1.0)
        return f"{x:.1f},{y:.1f}"

    drawn = "".join(
        f'<polyline fill="none" stroke="{colour}" stroke-width="1.5"'
        f' points="{" ".join(place(*point) for point in listed)}"><title>{escape(name)}</title>'
        "</polyline>"
        for name, (colour, listed) in lines.items()
    )
    base, right = HEIGHT - MARGIN, WIDTH - MARGIN
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<path d="M{MARGIN},{MARGIN}V{base}H{right}" fill="none" stroke="#999"/>'
        f'<text x="4" y="{MARGIN}">{highest:,.0f}{unit}</text><text x="4" y="{base}">0</text>'
        f'<text x="{right - 20}" y="{base + 20}">{last:.1f} s</text>{drawn}</svg>'
    )
