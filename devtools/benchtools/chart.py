# SPDX-License-Identifier: BSD-3-Clause
"""Cycles per packet as an SVG: a group of bars for each case, a bar for each driver."""

from xml.sax.saxutils import escape

COLOURS = ["#1b6ca8", "#5fa8d3", "#a7c957", "#c0392b", "#e67e22", "#f1c40f", "#7f8c8d", "#8e44ad"]
BAR, GAP, HEIGHT, LEFT, TOP, BOTTOM = 14, 26, 300, 50, 60, 40


def draw(results, series):
    """results as bench.results_of gives them; series: the one to draw of each case."""
    names = list(dict.fromkeys(name for drivers in results.values() for name in drivers))
    medians = {case: {name: (drivers[name]["cycles"].get(series[case]) or {}).get("median") for name in drivers}
               for case, drivers in results.items()}
    top = max((value for case in medians.values() for value in case.values() if value), default=1)
    width = LEFT + len(results) * (len(names) * BAR + GAP) + GAP
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {TOP + HEIGHT + BOTTOM}" '
             'font-family="sans-serif" font-size="11">', f'<rect width="{width}" height="{TOP + HEIGHT + BOTTOM}" fill="white"/>',
             f'<text x="{LEFT}" y="18" font-size="14">Cycles per packet, median of quiet rounds</text>']
    x = LEFT
    for index, name in enumerate(names):
        parts.append(f'<rect x="{x}" y="28" width="10" height="10" fill="{COLOURS[index % len(COLOURS)]}"/>'
                     f'<text x="{x + 14}" y="37">{escape(name)}</text>')
        x += 24 + 7 * len(name)
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 1e9) if top / step <= 10)
    for tick in range(int(top / step) + 1):
        y = TOP + HEIGHT - tick * step / top * HEIGHT
        parts.append(f'<line x1="{LEFT}" x2="{width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick * step:g}</text>')
    x = LEFT + GAP / 2
    for case, values in medians.items():
        parts.append(f'<text x="{x + len(names) * BAR / 2:.1f}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{escape(case)}</text>'
                     f'<text x="{x + len(names) * BAR / 2:.1f}" y="{TOP + HEIGHT + 30}" text-anchor="middle" fill="#777">'
                     f'{escape(series[case])}</text>')
        for index, name in enumerate(names):
            value = values.get(name)
            if value:
                bar = value / top * HEIGHT
                parts.append(f'<rect x="{x + index * BAR:.1f}" y="{TOP + HEIGHT - bar:.1f}" width="{BAR - 2}" height="{bar:.1f}" '
                             f'fill="{COLOURS[index % len(COLOURS)]}"><title>{escape(name)}: {value:.1f}</title></rect>')
        x += len(names) * BAR + GAP
    return "\n".join(parts) + "\n</svg>\n"
