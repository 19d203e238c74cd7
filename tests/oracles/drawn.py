"""Read back what a chart shows, as a page gets it."""

import json

from oracles import ink


def read(drawn):
    """Return the marks of each panel of a scene's data; every number is one, all words are seen."""
    told = json.loads(json.dumps(drawn, allow_nan=False))
    panels = [panel["marks"] for panel in told["panels"]]
    words = [mark for marks in panels for mark in marks if mark.get("text")]
    faint = [ink.faint(mark["text"], mark.get("colour", "#333333")) for mark in words]
    assert not any(faint), faint
    return panels


def charted(chart):
    """Return the marks of each panel of a chart."""
    return read({"panels": [{"marks": marks} for marks in chart.marks]})


def heights(marks):
    """Return how high each bar is, to four places; of bars across, how long."""
    bars = [mark["bar"] for mark in marks if "bar" in mark]
    return [round(top - bottom, 4) for _, _, bottom, top in bars]


def curves(marks):
    """Return of each line with a name its heights."""
    return {mark["label"]: [y for _, y, *_ in mark["line"]] for mark in marks if "label" in mark}
