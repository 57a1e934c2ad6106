"""The page of ``tensorlake bench --html``: the report, and rate and busy stages over time, as SVG.

The page loads nothing and runs no scripts: it can be archived with a report.
"""

from collections.abc import Sequence
from html import escape

from tensorlake.loader import Epoch

__all__ = ["bench_page"]

WIDTH, HEIGHT, MARGIN = 860, 240, 50
COLOURS = ("1f77b4", "ff7f0e", "2ca02c", "d62728", "9467bd", "8c564b", "e377c2", "7f7f7f", "17becf")
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em}"
    "pre{background:#f5f5f5;padding:1em;overflow-x:auto}svg{width:100%;height:auto}"
    "text{font-size:12px;fill:#333}"
)
Lines = dict[str, list[tuple[float, float]]]


def bench_page(url: str, report: str, epochs: dict[str, Sequence[Epoch]]) -> str:
    """Return the page.

    Args:
        url: The dataset.
        report: The figures, as they are printed.
        epochs: The epochs of each contender, ours first.
    """
    rates: Lines = {
        name: [(one.seconds, one.stats.rows_per_s) for epoch in them for one in epoch.samples]
        for name, them in epochs.items()
    }
    busy: Lines = {}
    for epoch in next(iter(epochs.values())):
        for one in epoch.samples:
            for stage in one.stats.stages:
                busy.setdefault(stage.name, []).append((one.seconds, 100 * stage.busy))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>tensorlake bench {escape(url)}</title><style>{STYLE}</style>"
        f"<h1>{escape(url)}</h1><pre>{escape(report)}</pre>"
        f"<h2>Rows per second</h2>{_plot(rates, unit=' rows/s')}"
        f"<h2>Busy stages</h2>{_plot(busy, unit='%', top=100)}</html>\n"
    )


def _plot(lines: Lines, *, unit: str, top: float = 0.0) -> str:
    """Draw lines over seconds, each with its colour in the legend and a title on the line."""
    points = [point for listed in lines.values() for point in listed]
    if not points:
        return "<p>The run was too short to plot.</p>"
    last = max(seconds for seconds, _ in points) or 1.0
    highest = top or max(value for _, value in points) or 1.0
    base, right = HEIGHT - MARGIN, WIDTH - MARGIN

    def place(seconds: float, value: float) -> str:
        x = MARGIN + (right - MARGIN) * seconds / last
        return f"{x:.1f},{base - (base - MARGIN) * min(value / highest, 1.0):.1f}"

    drawn, legend = "", ""
    for number, (name, listed) in enumerate(lines.items()):
        colour = f"#{COLOURS[number % len(COLOURS)]}"
        legend += f'<span style="color:{colour}">■</span> {escape(name)} &nbsp; '
        drawn += (
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5"'
            f' points="{" ".join(place(*point) for point in listed)}"><title>{escape(name)}</title>'
            "</polyline>"
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<path d="M{MARGIN},{MARGIN}V{base}H{right}" fill="none" stroke="#999"/>'
        f'<text x="4" y="{MARGIN}">{highest:,.0f}{unit}</text><text x="4" y="{base}">0</text>'
        f'<text x="{right - 20}" y="{base + 20}">{last:.1f} s</text>{drawn}</svg><p>{legend}</p>'
    )
