#!/usr/bin/env python3
"""Draws the text of a terminal as a picture for light and dark pages.

    docs/pictures/terminal.py docs/pictures/hang.txt > docs/pictures/hang.svg

`hang.txt` is what `tests/frameworks/cases.py` wrote on two GPUs, shortened where a line says `..`.
"""

import sys
from html import escape
from pathlib import Path

COLUMN, LINE, MARGIN, BAR = 8.4, 20, 20, 32
STYLE = """
    .back { fill: #f6f8fa; stroke: #d0d7de; }
    text { font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; fill: #1f2328; white-space: pre; }
    .command { font-weight: 700; }
    .hang { fill: #b3261e; font-weight: 700; }
    .label { fill: #0550ae; font-weight: 700; }
    .good { fill: #116329; font-weight: 700; }
    .faint { fill: #59636e; }
    .dot { fill: #d0d7de; }
    @media (prefers-color-scheme: dark) {
      .back { fill: #151b23; stroke: #3d444d; }
      text { fill: #f0f6fc; }
      .hang { fill: #ff8a80; }
      .label { fill: #79c0ff; }
      .good { fill: #7ee787; }
      .faint { fill: #9198a1; }
      .dot { fill: #3d444d; }
    }
"""
LABELS = ("where", "calls", "beside", "why", "cure")
GOOD = "nothing was loaded late"


def parts(line):
    """Splits a line into texts and their classes."""
    if line.startswith("$ "):
        return [(line, "command")]
    if line.startswith("#"):
        return [(line, "faint")]
    if "HANG" in line:
        return [(line, "hang")]
    for label in LABELS:
        if line.startswith(f"  {label} "):
            return [(line[:10], "label"), (line[10:], "")]
    if GOOD in line:
        before, after = line.split(GOOD, 1)
        return [(before, ""), (GOOD, "good"), (after, "")]
    return [(line, "")]


def draw(lines, title):
    width = round(MARGIN * 2 + COLUMN * max(map(len, lines)))
    height = BAR + MARGIN + LINE * len(lines)
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">'
    yield f"  <title>{escape(title)}</title>\n  <style>{STYLE}  </style>"
    yield f'  <rect class="back" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>'
    yield "".join(f'  <circle class="dot" cx="{MARGIN + 18 * index}" cy="18" r="5"/>' for index in range(3))
    for number, line in enumerate(lines):
        column, y = 0, BAR + LINE * (number + 1) - 6
        for text, kind in parts(line):
            if text.strip():
                indent = len(text) - len(text.lstrip())
                shown = text.strip()
                x, length = MARGIN + COLUMN * (column + indent), COLUMN * len(shown)
                kind = f' class="{kind}"' if kind else ""
                # The length is given, because each machine has another font.
                yield f'  <text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{kind}>{escape(shown)}</text>'
            column += len(text)
    yield "</svg>"


source = Path(sys.argv[1])
print("\n".join(draw(source.read_text().splitlines(), "A hang, its report, and the next run without it")))
