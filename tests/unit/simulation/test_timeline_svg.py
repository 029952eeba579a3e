"""The picture of a run: well-formed, the same each time, and nothing lost in narrow columns."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from app.simulation.picture_axes import time_ticks, value_ticks
from app.simulation.timeline_svg import Panel, draw

SVG = "{http://www.w3.org/2000/svg}"


def a_panel(steps: int, peak_at: int | None = None) -> Panel:
    demand = [4.0 if number == peak_at else 1.0 for number in range(steps)]
    short = [1.0 if number == peak_at else 0.0 for number in range(steps)]
    return Panel("a <b> & c", "CPU", demand, demand, demand, demand, (0.25, 4.0), short)


def elements(picture: str, style: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(picture).iter() if element.get("class") == style]


def test_names_from_outside_are_escaped() -> None:
    picture = draw("x < y & z", [a_panel(10)], 300)
    assert elements(picture, "name")[0].text == "a <b> & c"
    assert ET.fromstring(picture).findtext(f"{SVG}title") == "x < y & z"


def test_the_same_run_gives_the_same_bytes() -> None:
    assert draw("t", [a_panel(5_000, 777)], 150_000) == draw("t", [a_panel(5_000, 777)], 150_000)


def test_one_short_step_among_many_is_shaded_and_its_peak_is_in_the_demand() -> None:
    with_peak, without = (
        draw("t", [a_panel(40_000, 20_000)], 1_200_000),
        draw("t", [a_panel(40_000)], 1_200_000),
    )
    assert len(elements(with_peak, "short")) == len(elements(without, "short")) + 1
    assert elements(with_peak, "demand")[0].get("d") != elements(without, "demand")[0].get("d")


def test_the_size_of_a_picture_does_not_grow_with_the_run() -> None:
    assert len(draw("t", [a_panel(100_000)], 3_000_000)) < 100_000


def test_axes_have_round_marks_with_units() -> None:
    assert [tick.text for tick in value_ticks(4.1)] == ["0", "1", "2", "3", "4"]
    assert [tick.text for tick in time_ticks(1_209_600)][:3] == ["0", "day 1", "day 2"]
    assert [tick.text for tick in time_ticks(7_200)][-1] == "120 min"
    assert len(time_ticks(10_000 * 86_400)) <= 16
