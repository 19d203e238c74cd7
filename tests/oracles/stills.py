"""Gives recorded notebooks the pictures that a page has drawn: GitHub and paper run no scripts.

From a shell, ``python tests/oracles/stills.py notebooks/07_speculative_decoding.ipynb`` draws each
scene that the recorded outputs hold, in Chromium, by the module that draws it in Jupyter, and puts
it there as a PNG of two pixels for each of the page's.
"""

import base64
import html
import io
import json
import sys
from pathlib import Path
from typing import Any

from lablib.course.plots import scene
from lablib.course.plots.pictures import SCALE

import nbformat
from PIL import Image
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles.browser import FLAGS, chromium

NOTE = "(A still picture: run this cell, and it has controls.)"
PAGE = """<meta charset="utf-8"><style>{sheet} body {{ margin: 0; font-family: sans-serif }}
#still {{ padding: 8px; width: 850px }} .lablib-told {{ display: none }}
small {{ display: block; font-size: 13px; color: #333; overflow-wrap: anywhere }}</style>
<div id="still"><div id="scene"></div><small>{caption} {note}</small></div>
<script>{script}
const told = {told};
const draw = painter(document.getElementById('scene'), scenes.{name}, told.constants, told.called);
draw(told.data, '');
</script>"""


def draw(page: Page, told: dict[str, Any], caption: str) -> bytes:
    """Return a scene, and its caption below it, as PNG."""
    words = {"caption": html.escape(caption), "note": NOTE * told["moves"], "name": told["name"]}
    data = json.dumps(told).replace("</", "<\\/")
    files = {"sheet": scene.sheet(), "script": scene.script()}
    page.goto("about:blank")  # a page has room for one script of a name
    page.set_content(PAGE.format(**words, **files, told=data))
    page.wait_for_timeout(300)  # what moves has come to rest
    shot = Image.open(io.BytesIO(page.locator("#still").screenshot()))
    small = io.BytesIO()
    # with fewer colours two looks would become one
    shot.convert("RGB").quantize(256).save(small, "png", optimize=True)
    return small.getvalue()


def fill(notebook: dict[str, Any], page: Page) -> int:
    """Put a picture in place of each scene's data; return how many there were."""
    count = 0
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            told = output.get("data", {}).get(scene.MIME)
            if isinstance(told, str):  # a still that was drawn before is drawn again
                told = json.loads(told)
            if told:
                del output["data"][scene.MIME]
                if not told["moves"]:  # the site shows what was measured here; in one line
                    output["data"][scene.MIME] = json.dumps(told, separators=(",", ":"))
                caption = "".join(output["data"]["text/plain"])
                picture = draw(page, told, caption)
                wide, high = Image.open(io.BytesIO(picture)).size
                output["data"]["image/png"] = base64.b64encode(picture).decode()
                output["metadata"]["image/png"] |= {"width": wide // SCALE, "height": high // SCALE}
                count += 1
    return count


def main(*paths: str) -> None:
    """Fill each notebook."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(device_scale_factor=SCALE, viewport={"width": 1200, "height": 900})
        for path in map(Path, paths):
            notebook = nbformat.read(path, as_version=4)
            print(f"{path.name}: {fill(notebook, page)} pictures")
            nbformat.write(notebook, path)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
