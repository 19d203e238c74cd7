"""The README's moving picture: lesson 00's first widget, its slider going up and down.

``python tests/oracles/moving_picture.py FILE.gif`` makes it, always the same one on one machine:
Chromium draws it, by the module that draws it in Jupyter.
"""

import io
import json
import sys
from pathlib import Path

from lablib.course.lessons.lesson_00.widgets import StoryTeller
from lablib.course.plots import scene
from lablib.course.tasks import stories
from lablib.folders import replacing
from lablib.models import load

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles.browser import FLAGS, chromium

_MILLISECONDS = 1300  # for each stop of the slider: long enough to read the bars
_TIMES = 2  # it is played; then it rests, so that who reads is not disturbed
_PAGE = """<meta charset="utf-8"><style>{sheet} body {{ margin: 0; font: 14px sans-serif }}
#film {{ padding: 10px; width: 850px }} .lablib-told {{ display: none }}
#slider {{ margin: 4px 4px 14px; display: flex; gap: 10px; align-items: center }}
#track {{ width: 300px; height: 6px; border-radius: 3px; background: #bbb }}
#knob {{ width: 18px; height: 18px; margin: -6px -9px; border-radius: 9px; background: #0072b2;
  position: relative }}</style>
<div id="film"><div id="slider">temperature <div id="track"><div id="knob"></div></div>
<span id="value"></span></div><div id="scene"></div></div>
<script>{script}
const told = {told};
const draw = painter(document.getElementById('scene'), scenes[told.name], told.constants, '');
const show = ([data, temperature]) => {{
  draw(data, '');
  document.getElementById('knob').style.left = `${{150 * temperature}}px`;
  document.getElementById('value').textContent = temperature.toFixed(2);
}};
</script>"""


def moving_picture(path: Path) -> Path:
    """Write lesson 00's story teller as a GIF, temperatures 0 to 2 and back; return ``path``."""
    model, tokenizer = load("target")
    (story,) = stories.problems(3, 1)  # as in the lesson
    teller = StoryTeller(model, tokenizer, story, fork=" She is", tries=1, seed=6)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(device_scale_factor=2, viewport={"width": 900, "height": 500})
        told = json.dumps(teller.told).replace("</", "<\\/")
        page.set_content(_PAGE.format(sheet=scene.sheet(), script=scene.script(), told=told))
        frames = [_frame(page, teller, temperature) for temperature in teller.TEMPERATURES]
        browser.close()
    turning = [*frames, *frames[-2:0:-1]]
    # One palette for all: a frame then differs from the next only where something moved.
    palette = Image.fromarray(np.vstack([np.asarray(f) for f in frames])).quantize(96)
    plain = {"palette": palette, "dither": Image.Dither.NONE}
    first, *others = [frame.quantize(**plain) for frame in turning]
    options = {"duration": _MILLISECONDS, "loop": _TIMES - 1, "optimize": False}
    with replacing(path) as file:
        first.save(file, format="gif", save_all=True, append_images=others, **options)
    return path


def _frame(page: Page, teller: StoryTeller, temperature: float) -> Image.Image:
    data, _ = teller.frame(temperature=temperature)
    page.evaluate("now => show(now)", [data, temperature])
    page.wait_for_timeout(300)  # what moves has come to rest
    return Image.open(io.BytesIO(page.locator("#film").screenshot())).convert("RGB")


if __name__ == "__main__":
    print(moving_picture(Path(sys.argv[1])))
