"""The page that shows slides: one HTML file with its style and keys, and nothing from elsewhere.

nbconvert's slides bring no reveal.js along but fetch it, and MathJax, from the network; hence these
lines. A slide is always 53 1/3 by 30 of its own units, whatever the screen, so what fits on one
screen fits on all, and on paper. Without JavaScript the slides stand one below the other.
"""

import html

from lablib.teach.markdown import code_style

LICENCE = "https://creativecommons.org/licenses/by/4.0/"
SOURCE = f'<p class="from">From lablib by The lablib authors, <a href="{LICENCE}">CC BY 4.0</a></p>'
STYLE = """
:root{--unit:min(100vw/53.34,100vh/30)}
*{box-sizing:border-box}
body{margin:0;background:#ddd;color:#222;font-family:system-ui,sans-serif;line-height:1.4}
section{font-size:var(--unit);width:53.33em;margin:0 auto 1em}
.slide{position:relative;width:53.33em;height:30em;padding:1.6em 3em;background:#fff;
overflow:hidden}
h1,h2{margin:0 0 .6em;font-size:1.7em;line-height:1.2;color:#0b4f7d}
h1{font-size:2.2em}
p,ul,ol,.math.block{margin:0 0 .55em;font-size:1.25em}
li{margin-bottom:.25em}li p{font-size:1em;margin:0}
math{font-size:1.15em}
code{font-size:.9em}
pre{margin:0 0 .9em;font-size:.75em;line-height:1.35;white-space:pre-wrap;overflow-wrap:anywhere}
pre code{font-size:1em}
.large pre{font-size:1.05em}
.code{background:#f4f4f4;padding:.7em .9em}.printed{padding:0 .9em;border-left:.25em solid #0b4f7d}
table{border-collapse:collapse;font-size:.85em}td,th{border:1px solid #ccc;padding:.2em .6em}
.output table{font-size:.7em}.output .many table{font-size:.5em}
table table,table p{font-size:1em;margin:0}
figure{margin:0;text-align:center}figure img{width:100%;max-height:19em;object-fit:contain}
figcaption{font-size:.85em;margin-top:.4em}
.label{color:#b34700;font-weight:600;margin-bottom:.3em}
.question .label+p{font-size:1.6em}
.exercise h2{color:#00734f}
.notes{display:none;width:53.33em;padding:.8em 3em;background:#fff8e5;font-size:.75em;
overflow:auto}.notes p,.notes ul,.notes ol{font-size:1.1em}
.showing-notes .notes{display:block;width:100%}
.from{position:absolute;left:4.6em;bottom:.8em;margin:0;font-size:.65em;color:#555}
.from a{color:inherit}
nav{position:fixed;right:.6em;bottom:.4em;font-size:14px;color:#555}
nav button{font:inherit;min-width:2em;min-height:2em;border:0;background:none;color:inherit}
.running section{display:none;margin-bottom:0}
.running section.now{display:block}
.running{background:#fff}
.running.showing-notes{--unit:min(100vw/53.34,66vh/30)}
.running.showing-notes .notes{height:34vh}
@page{size:13.333in 7.5in;margin:0}
@media print{body,.running{--unit:.25in;background:#fff}nav,.notes{display:none!important}
.running section,section{display:block;margin:0;break-after:page;break-inside:avoid}
section:last-of-type{break-after:auto}}
"""
# The address names the slide (#7), so that a reload stays there and the browser's Back goes back.
KEYS = """
const slides = [...document.querySelectorAll("section")];
const place = () => Math.max(0, slides.findIndex((each) => `#${each.id}` === location.hash));
const count = document.querySelector("output");
function show() {
  slides.forEach((each, number) => each.classList.toggle("now", number === place()));
  count.textContent = `${place() + 1} / ${slides.length}`;
}
function go(number) {
  location.hash = slides[Math.min(Math.max(number, 0), slides.length - 1)].id;
}
const notes = () => document.body.classList.toggle("showing-notes");
const steps = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, " ": 1, ArrowLeft: -1, ArrowUp: -1,
  PageUp: -1, Home: -Infinity, End: Infinity };
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === " " && event.target.closest("button")) return;
  if (event.key === "n") notes();
  if (!(event.key in steps)) return;
  event.preventDefault();
  go(place() + steps[event.key]);
});
addEventListener("hashchange", show);
const [back, on, said] = document.querySelectorAll("nav button");
back.addEventListener("click", () => go(place() - 1));
on.addEventListener("click", () => go(place() + 1));
said.addEventListener("click", notes);
document.querySelector("nav").hidden = false;
document.body.classList.add("running");
show();
"""
_NAV = (
    '<nav hidden aria-label="Slides"><button type="button" aria-label="Back">‹</button>'
    '<output aria-live="polite"></output>'
    '<button type="button" aria-label="On">›</button>'
    '<button type="button" aria-label="Notes, or press n">n</button></nav>'
)


def page(title: str, sections: list[str]) -> str:
    """Return a page of slides."""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>{html.escape(title)}</title><style>{STYLE}{code_style()}</style></head><body>",
            *sections,
            f"{_NAV}<script>{KEYS}</script></body></html>\n",
        ]
    )
