"""What a reader without a mouse, or without sight, meets in a lesson that is open in Chromium.

Only what the course puts on the page is looked at: cells' outputs, not JupyterLab around them.
"""

import re
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from oracles import browser, ink

OUTPUT = ".jp-OutputArea-output"
# A name is what stands in quotes behind the role.
_ROLES = "slider|spinbutton|combobox|listbox|textbox|checkbox|button|link|img"
_NAMELESS = re.compile(rf"^\s*- (?:{_ROLES})(?! \")[^\n]*", re.M)
_CONTROLS = "[role=slider], .widget-readout[contenteditable=true], select, input"
_CONTROLS += ", button:not([disabled])"
# About a page, which an output is not; and contrast, which axe sees only of what is on the screen.
_NOT_OURS = ("region", "page-has-heading-one", "landmark-one-main", "bypass", "color-contrast")
# The parts of a look that a focus may change; of the element, and of what it draws on itself.
_LOOK = """e => ['', '::before', '::after'].map(part => getComputedStyle(e, part || null))
    .map(s => [s.outline, s.boxShadow, s.border, s.backgroundColor, s.content]).join()"""


@cache
def axe_script() -> str | None:
    """Return axe-core, or None if the package that carries it is not installed."""
    found = find_spec("axe_playwright_python")
    if found is None or found.origin is None:
        return None
    return (Path(found.origin).parent / "axe.min.js").read_text()


def nameless(lesson) -> list[str]:
    """Return the controls and pictures in a lesson's outputs that have no name."""
    pictures = [area.aria_snapshot() for area in lesson.box.locator(OUTPUT).all()]
    return [found.strip() for each in pictures for found in _NAMELESS.findall(each)]


def axe(lesson) -> list[str]:
    """Return what axe-core finds wrong in a lesson's outputs, one line each."""
    if not lesson.page.evaluate("() => 'axe' in window"):
        lesson.page.evaluate(axe_script())
    return lesson.box.evaluate(
        """async (box, [output, off]) => {
          const include = [...box.querySelectorAll(output)].filter(e => e.offsetHeight);
          if (!include.length) return [];
          const rules = Object.fromEntries(off.map(rule => [rule, {enabled: false}]));
          const found = await axe.run({include}, {resultTypes: ['violations'], rules});
          const said = node => [...node.any, ...node.all, ...node.none].map(c => c.message);
          return found.violations.flatMap(({id, nodes}) =>
            nodes.map(node => `${id}: ${node.html.slice(0, 150)}: ${said(node)}`));
        }""",
        [OUTPUT, _NOT_OURS],
    )


def pale(lesson) -> list[str]:
    """Return the words in a lesson's outputs that can hardly be told from what is behind them.

    Pictures are not looked at: they change their colours with the theme.
    """
    words = lesson.box.evaluate(
        """(box, output) => [...box.querySelectorAll(`${output} *`)]
          .filter(e => e.offsetWidth && !e.closest('.lablib-picture, [disabled], style, script')
                       && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
          .map(e => {
            const behind = [];
            for (let at = e; at; at = at.parentElement)
              behind.push(getComputedStyle(at).backgroundColor);
            return [e.innerText.slice(0, 40), getComputedStyle(e).color, behind];
          })""",
        OUTPUT,
    )
    found = {}
    for text, colour, behind in words:
        ground = np.ones(3)
        for layer in [*reversed(behind), colour]:
            *rgb, alpha = [*map(float, re.findall(r"[\d.]+", layer)), 1.0][:4]
            under, ground = ground, ground * (1 - alpha) + alpha * np.divide(rgb, 255)
        if (seen := ink.contrast(ground, under)) < ink.LEAST:
            found[text] = f"{text!r} in {colour}: contrast {seen:.1f}"
    return [*found.values()]


def unreached(lesson, widget: int) -> list[str]:
    """Press Tab from a widget's first control on; return those that it never comes to.

    A control that takes the focus and does not show it counts as one of them.
    """
    count = lesson.widget(widget).evaluate(
        f"""(box, kinds) => {{
          const look = {_LOOK};
          const all = [...box.querySelectorAll(kinds)].filter(e => e.offsetWidth);
          document.activeElement.blur();
          const plain = all.map(look), seen = new Set();
          window.lablibTab = {{
            see: () => {{
              const i = all.indexOf(document.activeElement);
              if (i >= 0 && look(all[i]) !== plain[i]) seen.add(i);
            }},
            missed: () => all.filter((_, i) => !seen.has(i)).map(e => e.outerHTML.slice(0, 150)),
          }};
          all[0].focus({{focusVisible: true}});
          return all.length;
        }}""",
        _CONTROLS,
    )
    for _ in range(count):
        lesson.page.evaluate("() => window.lablibTab.see()")
        lesson.page.keyboard.press("Tab")
    return lesson.page.evaluate("() => window.lablibTab.missed()")


def unmoved(lesson, widget: int) -> list[str]:
    """Press two arrow keys in each slider and list of a widget; return those that don't move.

    They are those that JupyterLab would like for itself: one that selects another cell counts as
    one that does not move. A kernel that is still answering an earlier key may put a slider back,
    so each key gets a moment to show.
    """
    controls, still = lesson.widget(widget).locator("[role=slider], select"), []
    for i in range(controls.count()):
        control = controls.nth(i)
        control.focus()  # which selects its cell
        cell = lesson.active_cell()
        states = {_state(control)}
        for key in ("ArrowDown", "ArrowUp"):
            lesson.page.keyboard.press(key)
            deadline = time.perf_counter() + 2
            states.add(_state(control))
            while len(states) < 2 and time.perf_counter() < deadline:
                lesson.page.wait_for_timeout(20)
                states.add(_state(control))
        kept = control.evaluate("e => e === document.activeElement")
        if len(states) < 2 or not kept or lesson.active_cell() != cell:
            still.append(f"{sorted(states)}, {control.evaluate('e => e.outerHTML')[:150]}")
    return still


def _state(control) -> str:
    return control.evaluate("e => e.value ?? e.getAttribute('aria-valuetext')")


def cut_off(lesson) -> list[str]:
    """Return what of the outputs is not seen whole, at the page's present width."""
    return lesson.box.evaluate(
        """(box, output) => [...box.querySelectorAll(
             ['.widget-label', '.widget-readout', '.noUi-target', 'select', 'button', 'label',
              'img', '.lablib-picture', '.lablib-caption', 'pre', 'table', 'p']
               .map(kind => `${output} ${kind}`))]
          .filter(e => {
            const own = (e.closest('.lablib-slides') || e).getBoundingClientRect();  // it scrolls
            const room = e.closest(output).getBoundingClientRect();
            const slides = e.matches('.noUi-target');  // its handle sticks out at the ends
            return own.width && (own.right > room.right + 1 || own.left < room.left - 1
                                 || (!slides && e.scrollWidth > e.clientWidth + 1));
          })
          .map(e => `${e.tagName} ${e.className}: ${e.innerText.slice(0, 80)}`)""",
        OUTPUT,
    )


def complaints(lesson) -> list[str]:
    """Return everything that is wrong with a lesson's outputs, each line with where it was seen."""
    page, found = lesson.page, {"names": nameless(lesson), "light": pale(lesson)}
    if axe_script():
        found["axe"] = axe(lesson)
    for i in range(lesson.widgets()):
        found[f"widget {i}, Tab"] = unreached(lesson, i)
        found[f"widget {i}, arrows"] = unmoved(lesson, i)
    browser.dress(page, dark=True)
    found["dark"] = pale(lesson)
    browser.dress(page, dark=False)
    for size in (browser.SMALL, browser.NARROW):
        browser.resize(page, size)
        found[f"cut off at {size['width']}"] = cut_off(lesson)
    browser.resize(page, browser.WIDE)
    return [f"{where}: {line}" for where, lines in found.items() for line in lines]
