"""A text in colours: as a scene, or as HTML while it grows."""

import html
from collections.abc import Sequence

from lablib.course.plots.chart import Chart
from lablib.course.plots.charts import TINTS

# A token's probability, from sure to surprised: one of ten or thirty that are alike looks so.
LOOKS = [
    ("#D3E8F8", "90 % and more"),
    (TINTS[0], "50 to 90 %"),
    (TINTS[1], "1 to 50 %"),
    ("#DD7A45", "below 1 %"),
]


def sureness(probability: float | None) -> int:
    """Return the number in ``LOOKS`` of a token with this probability, -1 for None."""
    if probability is None:
        return -1
    return sum(probability < least for least in (0.9, 0.5, 0.01))


def surprise_strip(tokens: Sequence[str], probabilities: Sequence[float | None]) -> Chart:
    """Return tokens on the colours of the probabilities that they had; None: it was not asked."""
    looks = [sureness(p) for p in probabilities]
    pairs, how = zip(tokens, probabilities, strict=True), "the model gave it"
    notes = [p is not None and f"“{token.strip()}”: {how} {p:.3f}." for token, p in pairs]
    dress = {"texts": [[*tokens]], "looks": LOOKS, "about": how}
    now = {"text": 0, "looks": looks, "notes": notes, "marked": -1}
    return Chart([], [], (), "reading", dress, now)


# Stripes along the top: across the letters they would make them hard to read.
HATCHED = "repeating-linear-gradient(135deg,#111 0 2px,#0000 2px 5px) 0 0/100% 4px no-repeat "
_STRIP = (
    "<style>.lablib-strip{background:#fff;color:#111;white-space:pre-wrap;overflow-wrap:anywhere}"
    ".lablib-strip span{color:#111;padding:3px 0 1px;border-bottom:3px solid #0000;"
    "box-decoration-break:clone}.lablib-strip span:hover{outline:1px solid #111}"
    ".lablib-strip .kept{border-bottom-color:#111}.lablib-strip div{line-height:1.8}"
    ".lablib-strip small span{padding:2px 4px 0}"
    + "".join(
        f".lablib-strip .l{i}{{background:{HATCHED * (i == len(LOOKS) - 1)}{fill}}}"
        for i, (fill, _) in enumerate(LOOKS)
    )
    + "</style>"
)


def surprise_html(
    tokens: Sequence[str],
    probabilities: Sequence[float],
    kept: Sequence[bool] | None,
    hints: Sequence[str],
) -> str:
    """Return a text as HTML, coloured by its tokens; it can be made anew for each that comes.

    Args:
        tokens: their texts, with the spaces and line ends between them.
        probabilities: one for each token.
        kept: of each, whether it is a draft that was kept; it gets a bar below. None: no drafts.
        hints: what is said of each to whoever points at it, after its probability.
    """

    def box(text: str, look: int, bar: bool = False, hint: str = "") -> str:
        kinds = " kept" * bar if look < 0 else f"l{look}" + " kept" * bar
        title = f' title="{html.escape(hint)}"' if hint else ""
        return f'<span class="{kinds.strip()}"{title}>{html.escape(text)}</span>'

    bars = [False] * len(tokens) if kept is None else kept
    text = "".join(
        box(token, sureness(p), bar, f"{p:.1%}{hint}")
        for token, p, bar, hint in zip(tokens, probabilities, bars, hints, strict=True)
    )
    legend = " ".join(box(name, i) for i, (_, name) in enumerate(LOOKS))
    if kept is not None:
        legend += " " + box("a draft that was kept", -1, True)
    return (
        f'{_STRIP}<div class="lablib-strip"><div>{text}</div>'
        f"<small>probability: {legend}</small></div>"
    )
