// Paints shapes: what is new appears, what stays moves there, what is gone goes.
//
// A scene is a function (constants, data, room, chosen) -> {width, height, shapes, told, tells}; it
// is no wider than the room (from 250 pixels on), and letters stay as large as they are. It knows
// no page, so that it can be tried anywhere. The chosen cell is null before anybody has chosen one;
// `told`, where there is one, is the cell of which the picture tells until then, or now; if it
// `tells` in words, what is said below is only for who hears it. A shape is {key, tag,
// ...attributes}; beside these it may have
//   text   what a <text> says,
//   note   what is said of it when it is pointed at or walked to,
//   cell   [row, column]: the arrow keys walk from cell to cell.

const SVG = 'http://www.w3.org/2000/svg';
const NOT_ATTRIBUTES = new Set(['key', 'tag', 'text', 'note', 'cell']);
const WALK = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]};

// Return a function that shows the scene's shapes for new data.
function painter(root, scene, constants, caption) {
  const stage = root.appendChild(document.createElement('div'));
  const told = root.appendChild(document.createElement('p'));
  const svg = stage.appendChild(document.createElementNS(SVG, 'svg'));
  stage.className = 'lablib-scene lablib-picture';
  stage.tabIndex = 0;
  stage.setAttribute('role', 'group');
  told.className = 'lablib-told';
  told.setAttribute('aria-live', 'polite');
  svg.setAttribute('role', 'img');
  const [place, shape_of] = placer(svg);
  let shapes = [],
    chosen = null,
    framed = null,
    tells = false,
    paper = 0,
    room = 0,
    last = null;

  const say = (shape, heard = false) => {
    const how = window.matchMedia('(hover: none)').matches
      ? 'Touch it'
      : 'Point at it, or use the arrow keys';
    const hint = shapes.some(each => each.note) ? `${how}: it says numbers.` : '';
    told.textContent = shape ? shape.note : hint;
    told.classList.toggle('lablib-heard', heard);
  };

  const mark = () => {
    const shape = framed && shapes.find(each => each.cell && each.cell.join() === framed.join());
    for (const element of svg.children)
      element.classList.toggle('lablib-chosen', Boolean(shape) && shape_of(element) === shape);
    say(chosen && shape, Boolean(chosen && shape && tells));
  };

  const choose = cell => {
    chosen = cell;
    draw(...last);
    const element = stage.querySelector('.lablib-chosen');
    element?.scrollIntoView?.({block: 'nearest', inline: 'nearest'});
  };

  const draw = (data, words) => {
    last = [data, words];
    room = stage.clientWidth;
    const drawn = scene(constants, data, paper || Math.floor(room) || 850, chosen);
    shapes = drawn.shapes;
    framed = drawn.told || chosen;
    tells = drawn.tells;
    const size = {
      viewBox: `0 0 ${drawn.width} ${drawn.height}`,
      width: drawn.width,
      height: drawn.height,
    };
    for (const [name, value] of Object.entries(size)) svg.setAttribute(name, value);
    svg.setAttribute('aria-label', words);
    stage.setAttribute('aria-label', caption);
    place(shapes);
    mark();
  };

  stage.addEventListener('keydown', event => {
    if (event.key === 'Escape') return choose(null);
    if (!WALK[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    const cell = beside(framed, WALK[event.key], shapes);
    if (cell) choose(cell);
  });
  svg.addEventListener('pointerover', ({target}) => {
    if (shape_of(target)?.note) say(shape_of(target));
  });
  svg.addEventListener('pointerout', ({target}) => {
    if (shape_of(target)?.note) mark();
  });
  svg.addEventListener('click', ({target}) => {
    if (!shape_of(target)?.cell) return;
    choose(shape_of(target).cell);
    stage.focus({preventScroll: true});
  });
  for (const [when, width] of [
    ['beforeprint', 680],
    ['afterprint', 0],
  ]) {
    // paper is narrower than a page
    window.addEventListener(when, () => {
      paper = width;
      if (last) draw(...last);
    });
  }
  new ResizeObserver(() => {
    if (last && stage.clientWidth !== room) draw(...last);
  }).observe(stage);
  return draw;
}

// Return the cell beside another one, or null; in a shorter row it is the last one.
function beside(cell, step, shapes) {
  const to = cell ? cell.map((at, i) => at + step[i]) : [0, 0];
  const row = shapes.filter(each => each.cell && each.cell[0] === to[0]);
  if (!row.length) return null;
  const end = Math.max(...row.map(each => each.cell[1]));
  return [to[0], Math.max(0, Math.min(to[1], end))];
}

// Return a function that puts shapes into a drawing, and one that says which shape an element has.
function placer(svg) {
  const elements = new Map(),
    shapes = new WeakMap();
  const place = every => {
    const known = new Set(every.map(({key}) => key));
    for (const [key, element] of elements) {
      if (known.has(key)) continue;
      element.remove();
      elements.delete(key);
    }
    // Later shapes lie on earlier ones; what is in its place is not touched.
    let next = svg.firstChild;
    for (const shape of every) {
      let element = elements.get(shape.key);
      if (!element) {
        element = document.createElementNS(SVG, shape.tag);
        elements.set(shape.key, element);
      }
      if (element === next) next = element.nextSibling;
      else svg.insertBefore(element, next);
      dress(element, shape, shapes.get(element) || {});
      shapes.set(element, shape);
    }
  };
  return [place, element => shapes.get(element)];
}

// Give an element the looks of a shape; those that it had before cost nothing.
function dress(element, shape, before) {
  for (const name in before) if (!(name in shape)) element.removeAttribute(name);
  for (const name in shape)
    if (!NOT_ATTRIBUTES.has(name) && shape[name] !== before[name])
      element.setAttribute(name, shape[name]);
  if (shape.text !== undefined && shape.text !== before.text) element.textContent = shape.text;
}
