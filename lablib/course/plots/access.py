"""Names and descriptions for a widget's controls, so that everyone can use them.

A slider's handle is what one tabs to and moves, and a screen reader says "slider, 3": of what, it
is not told. ipywidgets draws the handle with noUiSlider, which would take names, but gives it none,
and nothing that the kernel may set reaches it; the same holds for the play button's symbols and
for which button of a row is pressed. So a small script copies what is to be seen on the page to
where a reader looks for it. It also keeps JupyterLab from taking the arrow keys of a list for
itself: they would leave the list for another cell. Nothing needs to be installed; a page that runs
no scripts loses the names and those keys, and nothing else.
"""

import html

import ipywidgets as widgets

_NARROW = (  # on a phone a label stands above its control, and what is said above the picture
    "@media (max-width:600px){.lablib-explorer .widget-inline-hbox"
    "{flex-wrap:wrap;height:auto}.lablib-explorer .widget-label"
    "{width:100%!important;text-align:left}"
    ".lablib-explorer>.widget-vbox>.widget-html{order:-1;min-height:3lh}}"
)

# It runs when the page takes in the style sheet that bears it, and from then on whenever something
# changes; the parts of the controls come to the page in no certain order.
_NAMES = """
const box = this.closest('.lablib-explorer, .lablib-chat');
const all = (where, parts) => [...where.querySelectorAll(parts)];
const say = (part, name, value) => {
  if (part.getAttribute(name) !== value) part.setAttribute(name, value);
};
const named = () => {
  for (const slider of all(box, '.widget-slider')) {
    const name = slider.querySelector('.widget-label').textContent;
    const handles = all(slider, '[role=slider]'), readout = slider.querySelector('.widget-readout');
    const ends = handles.length > 1 ? [', from', ', to'] : [''];
    const values = readout.textContent.split(' \u2013 ');
    handles.forEach((handle, i) => {
      say(handle, 'aria-label', name + ends[i]);
      say(handle, 'aria-valuetext', values[i] ?? readout.textContent);
    });
    say(readout, 'role', 'textbox');
    say(readout, 'aria-label', name + ', typed');
  }
  for (const button of all(box, '.widget-play button')) {
    const symbol = button.firstChild.className.replace('fa fa-', '');
    say(button, 'aria-label', symbol === 'retweet' ? 'repeat' : symbol);
  }
  for (const list of all(box, 'select')) say(list, 'data-lm-suppress-shortcuts', 'true');
  for (const button of all(box, '.widget-toggle-buttons button'))
    say(button, 'aria-pressed', String(button.classList.contains('mod-active')));
};
if (!box.dataset.named) {
  box.dataset.named = 'yes';
  const changes = {childList: true, subtree: true, characterData: true};
  changes.attributeFilter = ['class', 'aria-valuetext'];
  new MutationObserver(named).observe(box, changes);
  named();
}
"""


def aids() -> widgets.HTML:
    """Return a widget that shows nothing: it names the controls of the explorer it stands in."""
    view = widgets.HTML(f'<style onload="{html.escape(_NAMES)}">{_NARROW}</style>')
    view.layout.display = "none"
    return view
