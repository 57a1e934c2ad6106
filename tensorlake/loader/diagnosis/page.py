"""The page of a diagnosis: a strip of a step, the ceilings as bars, and the report as text.

The page loads nothing and runs no scripts: it can be archived with a report.
"""

from __future__ import annotations

from html import escape

from tensorlake.loader.diagnosis.model import STALLS, Model

__all__ = ["page_of"]

COLOURS = dict(
    zip(
        STALLS,
        ("2ca02c", "bcbd22", "1f77b4", "17becf", "9467bd", "ff7f0e", "d62728"),
        strict=True,
    )
)
LABELS = {
    "compute": "your step",
    "transfer": "converting the batch",
    "decode": "waiting for decoding",
    "collate": "waiting for collating",
    "transform": "waiting for your transform",
    "bandwidth": "waiting for the store: bandwidth",
    "latency": "waiting for the store: latency",
}
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em}"
    "pre{background:#f5f5f5;padding:1em;overflow-x:auto}svg{width:100%;height:auto}"
    "text{font-size:12px;fill:#222}"
)
WIDTH, BAR, LEFT = 860, 26, 150


def page_of(model: Model, *, sentence: str, report: str) -> str:
    """Return the page."""
    title = "nothing" if model.limit is None else model.limit.stage
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        f"<title>Diagnosis: {escape(title)}</title><style>{STYLE}</style>"
        f"<h1>{escape(sentence)}</h1>"
        f"<h2>One step, {sum(model.stalls.values()) * 1e3:,.1f} ms</h2>{_strip(model)}"
        f"<h2>What each part could do alone, in rows per second</h2>{_bars(model)}"
        "<p>The parts work at the same time, so the shortest bar is the rate of the whole. A thin"
        " line shows the range of the measurements.</p>"
        f"<h2>Report</h2><pre>{escape(report)}</pre></html>\n"
    )


def _strip(model: Model) -> str:
    whole = sum(model.stalls.values()) or 1.0
    drawn, legend, x = "", "", 0.0
    for name, seconds in model.stalls.items():
        if not seconds:
            continue
        width = WIDTH * seconds / whole
        text = f"{LABELS[name]}: {seconds * 1e3:,.1f} ms"
        drawn += (
            f'<rect x="{x:.1f}" width="{width:.1f}" height="{BAR}" fill="#{COLOURS[name]}">'
            f"<title>{text}</title></rect>"
        )
        legend += f'<span style="color:#{COLOURS[name]}">■</span> {text} &nbsp; '
        x += width
    box = f'<svg viewBox="0 0 {WIDTH} {BAR}" role="img" aria-label="parts of a step">'
    return f"{box}{drawn}</svg><p>{legend}</p>"


def _bars(model: Model) -> str:
    ceilings = model.ceilings
    least = model.rate.value
    most = min(max((one.rate.value for one in ceilings), default=1.0), 10 * least) or 1.0
    scale = (WIDTH - LEFT - 130) / most
    drawn = ""
    for number, one in enumerate(ceilings):
        y = number * (BAR + 8)
        width = scale * min(one.rate.value, most)
        low, high = (scale * min(value, most) for value in (one.rate.low, one.rate.high))
        colour = "d62728" if one.rate.value == least else "1f77b4"
        more = "+" if one.rate.value > most else ""
        drawn += (
            f'<text x="0" y="{y + 17}">{escape(one.resource)}: {escape(one.stage)}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR}" fill="#{colour}">'
            f"<title>{escape(one.formula)}</title></rect>"
            f'<path d="M{LEFT + low:.1f},{y + BAR / 2}H{LEFT + high:.1f}" stroke="#222"/>'
            f'<text x="{LEFT + max(width, high) + 6:.1f}" y="{y + 17}">'
            f"{one.rate.value:,.0f}{more}</text>"
        )
    height = len(ceilings) * (BAR + 8) or BAR
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="ceilings">{drawn}</svg>'
