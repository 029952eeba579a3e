"""The timeline of a run as an SVG picture: demand, load, desired and allocated size, shortages.

Pure text with rounded numbers, so the same run gives the same bytes. A column of the picture holds many
steps: lines show its mean, the demand its greatest value, and bands reach from the least to the greatest
size and load, so that no peak is lost. A shortage is the darker the more of its column it lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil

from app.simulation.picture_axes import Span, time_ticks, value_ticks

WIDTH, PANEL_HEIGHT = 1080, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 34, 34
_HEAD, _LEGEND = 36, 30
_COLUMNS = WIDTH - _LEFT - _RIGHT
_STYLE = """\
text{font:12px system-ui,sans-serif;fill:#3a4149}
.title{font-size:16px;font-weight:600;fill:#15191e}
.name{font-size:13px;font-weight:600;fill:#15191e}
.grid{stroke:#e3e7eb;stroke-width:1}
.frame{fill:none;stroke:#b9c1c9;stroke-width:1}
.demand{fill:#c9d6e2;stroke:none}
.load{fill:none;stroke:#7b5fb8;stroke-width:1.1}
.loads{fill:#7b5fb8;opacity:.25}
.desired{fill:none;stroke:#e0821e;stroke-width:1.3;stroke-dasharray:5 3}
.allocated{fill:none;stroke:#0b6e4f;stroke-width:1.8}
.sizes{fill:#0b6e4f;opacity:.25}
.bound{stroke:#6b7680;stroke-width:1;stroke-dasharray:2 4}
.short{fill:#d62839;opacity:.5}
"""


@dataclass(frozen=True, slots=True)
class Panel:
    """One diagram; all series have a value a step.

    Attributes:
        name: over the diagram.
        unit: of the values, at the axis: `CPU` or `GiB`.
        load: load averages; None where there is none (memory).
        bounds: least and greatest size, drawn as lines.
        short: share (0 to 1) of the step with less than needed.
    """

    name: str
    unit: str
    demand: Sequence[float]
    load: Sequence[float] | None
    desired: Sequence[float]
    allocated: Sequence[float]
    bounds: tuple[float, float]
    short: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Column:
    """Pixels from `left` to `right`, which show the steps from `begin` to before `end`."""

    left: str
    right: str
    begin: int
    end: int


def draw(title: str, panels: Sequence[Panel], duration_s: float) -> str:
    """The picture: the panels one below the other, each over the whole run, with a legend at the foot."""
    height = _HEAD + len(panels) * PANEL_HEIGHT + _LEGEND
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{_text(title)}</title>",
        f"<style>\n{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text class="title" x="{_LEFT}" y="24">{_text(title)}</text>',
    ]
    peaks: dict[str, float] = {}
    for panel in panels:
        peaks[panel.unit] = max(peaks.get(panel.unit, 0), _peak(panel))
    for number, panel in enumerate(panels):
        top = _HEAD + number * PANEL_HEIGHT
        lines += _draw_panel(panel, top, number, (duration_s, peaks[panel.unit]))
    lines += _draw_legend(height - 12, any(panel.load is not None for panel in panels))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _peak(panel: Panel) -> float:
    """The greatest value to be shown; a maximum far above all else would only press it down."""
    peak = max(max(panel.demand), max(panel.desired), max(panel.allocated))
    return max(peak, panel.bounds[1]) if panel.bounds[1] <= 2 * peak else peak


def _draw_panel(panel: Panel, top: int, number: int, extent: tuple[float, float]) -> list[str]:
    """`extent`: seconds along, and the value up to which all diagrams of the unit reach."""
    duration_s, peak = extent
    upper, lower = top + _TOP, top + PANEL_HEIGHT - _BOTTOM
    ticks = value_ticks(peak)
    scale = Span(0, max(peak * 1.08, ticks[-1].at), lower, upper)
    columns = _columns(len(panel.demand))
    lines = [
        f'<text class="name" x="{_LEFT}" y="{top + 22}">{_text(panel.name)}</text>',
        f'<text x="{_LEFT - 8}" y="{top + 22}" text-anchor="end">{_text(panel.unit)}</text>',
        f'<clipPath id="panel{number}"><rect x="{_LEFT}" y="{upper}" width="{_COLUMNS}" '
        f'height="{lower - upper}"/></clipPath>',
    ]
    for tick in ticks:
        y, below = scale.place(tick.at), scale.place(tick.at, 4)
        lines.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        lines.append(f'<text x="{_LEFT - 8}" y="{below}" text-anchor="end">{tick.text}</text>')
    along = Span(0, duration_s, _LEFT, WIDTH - _RIGHT)
    for tick in time_ticks(duration_s):
        x = along.place(tick.at)
        lines.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{upper}" y2="{lower}"/>')
        lines.append(f'<text x="{x}" y="{lower + 17}" text-anchor="middle">{tick.text}</text>')
    lines.append(f'<g clip-path="url(#panel{number})">')
    lines.append(f'<path class="demand" d="{_area(panel.demand, columns, scale)}"/>')
    lines += _shaded(panel.short, columns, upper, lower)
    if panel.load is not None:
        lines.append(f'<path class="loads" d="{_band(panel.load, columns, scale)}"/>')
        lines.append(f'<path class="load" d="{_line(panel.load, columns, scale)}"/>')
    for bound in panel.bounds:
        y = scale.place(bound)
        lines.append(f'<line class="bound" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
    lines.append(f'<path class="sizes" d="{_band(panel.allocated, columns, scale)}"/>')
    lines.append(f'<path class="allocated" d="{_line(panel.allocated, columns, scale)}"/>')
    lines.append(f'<path class="desired" d="{_line(panel.desired, columns, scale)}"/>')
    lines.append("</g>")
    lines.append(f'<rect class="frame" x="{_LEFT}" y="{upper}" width="{_COLUMNS}" height="{lower - upper}"/>')
    return lines


def _columns(steps: int) -> list[_Column]:
    """One a pixel, or one a step where steps are fewer."""
    count = min(_COLUMNS, steps)
    width = _COLUMNS / count
    return [
        _Column(
            _number(_LEFT + at * width),
            _number(_LEFT + (at + 1) * width),
            at * steps // count,
            (at + 1) * steps // count,
        )
        for at in range(count)
    ]


def _area(values: Sequence[float], columns: list[_Column], scale: Span) -> str:
    """From zero to the greatest value of each column."""
    tops = [scale.place(max(values[column.begin : column.end])) for column in columns]
    return f"M{_LEFT} {scale.place(0)}{_stairs(tops, columns)}V{scale.place(0)}Z"


def _line(values: Sequence[float], columns: list[_Column], scale: Span) -> str:
    """Through the mean of each column."""
    means = [
        scale.place(sum(values[column.begin : column.end]) / (column.end - column.begin))
        for column in columns
    ]
    return f"M{_LEFT} {means[0]}{_stairs(means, columns)}"


def _band(values: Sequence[float], columns: list[_Column], scale: Span) -> str:
    """From the least to the greatest value of each column; columns in which they are equal are left out."""
    parts: list[str] = []
    for column in columns:
        part = values[column.begin : column.end]
        low, high = scale.place(min(part)), scale.place(max(part))
        if low != high:
            parts.append(f"M{column.left} {low}V{high}H{column.right}V{low}Z")
    return "".join(parts)


def _stairs(places: list[str], columns: list[_Column]) -> str:
    """A path to and along each place; neighbours at the same place are one piece."""
    parts: list[str] = []
    last = ""
    for place, column in zip(places, columns, strict=True):
        if place != last:
            parts += [f"H{column.left}", f"V{place}"]
            last = place
    return "".join([*parts, f"H{WIDTH - _RIGHT}"])


def _shaded(short: Sequence[float], columns: list[_Column], upper: int, lower: int) -> list[str]:
    """Bands over the columns in which something was short; equally dark neighbours are one."""
    bands: list[tuple[_Column, str, float]] = []
    for column in columns:
        share = sum(short[column.begin : column.end]) / (column.end - column.begin)
        if share <= 0:
            continue
        darkness = 0.1 + ceil(share * 8) / 20
        if bands and bands[-1][1] == column.left and bands[-1][2] == darkness:
            bands[-1] = (bands[-1][0], column.right, darkness)
        else:
            bands.append((column, column.right, darkness))
    return [
        f'<path class="short" style="opacity:{_number(darkness)}" '
        f'd="M{first.left} {upper}H{right}V{lower}H{first.left}Z"/>'
        for first, right, darkness in bands
    ]


def _draw_legend(y: int, with_load: bool) -> list[str]:
    entries = [
        ("demand", "demand"),
        ("load", "load average, 1 min"),
        ("desired", "desired"),
        ("allocated", "allocated"),
        ("short", "less than needed"),
        ("bound", "least and greatest size"),
    ]
    lines: list[str] = []
    x = _LEFT
    for style, text in entries:
        if style == "load" and not with_load:
            continue
        if style in ("demand", "short"):
            lines.append(f'<rect class="{style}" x="{x}" y="{y - 10}" width="22" height="11"/>')
        else:
            lines.append(f'<path class="{style}" d="M{x} {y - 4}h22"/>')
        lines.append(f'<text x="{x + 28}" y="{y}">{text}</text>')
        x += 48 + 7 * len(text)
    return lines


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _text(text: str) -> str:
    return escape(text, quote=False)
