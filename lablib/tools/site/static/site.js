// Films: controls that choose one of the pictures that were drawn for them. What a film is stands in
// lablib/tools/site/film.py. Without this script it is its first picture. A film with a scene has data
// in place of pictures: scenes.js draws them, as in Jupyter; all its settings may stand in a file of their
// own, a script that calls lablibFilm, as a page from a folder can load nothing else.
const lablibFilms = {};
function lablibFilm(name, film) {
  lablibFilms[name] = film;
}

(() => {
  const make = (tag, more = {}, ...inside) => {
    const element = Object.assign(document.createElement(tag), more);
    element.append(...inside);
    return element;
  };

  // Return where the picture is, for the place of each control and the one that moved last.
  const index = (film, places, moved) => {
    if (film.each)
      return film.controls.reduce((at, {stops}, i) => at * stops.length + places[i], 0);
    return film.controls.slice(0, moved).reduce((at, {stops}) => at + stops.length, 0) + places[moved];
  };

  // Return the parts that a control is made of, and a function that shows where it stands.
  const inputs = (control, id, moveTo) => {
    if (control.kind === 'list') {
      const options = control.stops.map((text, i) => make('option', {value: i}, text));
      const list = make('select', {id}, ...options);
      list.addEventListener('change', () => moveTo(list.selectedIndex));
      return [[list], place => { list.selectedIndex = place; }];
    }
    if (control.kind === 'box') {
      const box = make('input', {id, type: 'checkbox'});
      box.addEventListener('change', () => moveTo(Number(box.checked)));
      return [[box], place => { box.checked = Boolean(place); }];
    }
    const slider = make('input', {id, type: 'range', min: 0, max: control.stops.length - 1, step: 1});
    const read = make('output', {htmlFor: id});
    read.setAttribute('aria-hidden', 'true');  // the slider says the same
    slider.addEventListener('input', () => moveTo(Number(slider.value)));
    const show = place => {
      slider.value = place;
      slider.setAttribute('aria-valuetext', control.stops[place]);
      read.textContent = control.stops[place];
    };
    return [[slider, read, ...(control.kind === 'film' ? [player(control, slider)] : [])], show];
  };

  const player = (control, slider) => {
    const button = make('button', {type: 'button'}, 'Play');
    let timer;
    const stop = () => { clearInterval(timer); timer = undefined; button.textContent = 'Play'; };
    const step = to => { slider.value = to; slider.dispatchEvent(new Event('input')); };
    button.addEventListener('click', () => {
      if (timer) return stop();
      if (Number(slider.value) === control.stops.length - 1) step(0);
      button.textContent = 'Pause';
      timer = setInterval(() => {
        step(Number(slider.value) + 1);
        if (Number(slider.value) === control.stops.length - 1) stop();
      }, control.pause);
    });
    return button;
  };

  // Return all settings of a film that is made of parts.
  const loaded = async path => {
    const name = path.replace(/.*\//, '');
    if (!lablibFilms[name]) await new Promise((done, failed) => {
      document.head.append(make('script', {src: path, onload: done, onerror: failed}));
    });
    return lablibFilms[name];
  };

  // Return data and caption for the places of all controls.
  const composed = ({parts, captions}, controls, places) => {
    const at = of => of.reduce((row, i) => row * controls[i].stops.length + places[i], 0);
    return [Object.assign({}, ...parts.map(({of, data}) => data[at(of)])), captions[at(controls.map((_, i) => i))]];
  };

  const begin = (figure, number) => {
    const film = JSON.parse(figure.querySelector('script').textContent);
    const stage = figure.querySelector('.lablib-stage'), said = figure.querySelector('figcaption');
    const start = film.controls.map(control => control.start);
    let places = [...start];
    const {name, constants, called} = film.scene || {};
    const paint = film.scene && painter(stage, scenes[name], constants, called);
    const file = content => stage.querySelector('img').getAttribute('src').replace(/[^/]*$/, content);
    const ahead = moved => {  // the pictures beside this one, before they are asked for
      for (const step of [1, -1]) {
        const there = places.with(moved, places[moved] + step);
        if (film.controls[moved].stops[there[moved]] === undefined) continue;
        new Image().src = file(film.frames[index(film, there, moved)][0]);
      }
    };
    let asked = 0;
    const draw = async moved => {
      const turn = ++asked, image = stage.querySelector('img');
      figure.setAttribute('aria-busy', 'true');
      shows.forEach((show, i) => show(places[i]));
      const [content, caption] = film.parts && moved !== undefined
        ? composed(await loaded(film.parts), film.controls, places)
        : film.frames[film.parts ? 0 : index(film, places, moved ?? 0)];
      if (image) await Object.assign(new Image(), {src: file(content)}).decode().catch(() => {});
      if (turn !== asked) return;  // another one was asked for, and picture and words change together
      if (paint) {
        paint(content, caption);
      } else if (image) {
        image.src = file(content);
        image.alt = caption;
        ahead(moved ?? 0);
      } else {
        stage.firstElementChild.innerHTML = content;
        stage.firstElementChild.setAttribute('aria-label', caption);
      }
      said.textContent = caption;
      figure.setAttribute('aria-busy', 'false');
    };
    const move = (moved, place) => {
      if (!film.each) places = [...start];
      places[moved] = place;
      draw(moved);
    };
    const rows = [], shows = film.controls.map((control, i) => {
      const id = `film-${number}-${i}`;
      const [parts, show] = inputs(control, id, place => move(i, place));
      rows.push(make('div', {}, make('label', {htmlFor: id}, control.label), ...parts));
      show(start[i]);
      return show;
    });
    const reset = make('button', {type: 'button'}, 'Reset');
    reset.addEventListener('click', () => { places = [...start]; draw(); });
    const controls = make('div', {className: 'lablib-controls'}, ...rows, reset);
    if (film.parts) controls.addEventListener('pointerenter', () => loaded(film.parts), {once: true});
    figure.prepend(controls);
    if (paint) draw();
  };

  // Lay a veil on what answers a question: seen through, it makes one guess; one click, and it is gone.
  const veil = box => {
    const inside = make('div', {className: 'lablib-veiled', inert: true}, ...box.childNodes);
    const button = make('button', {type: 'button', className: 'lablib-veil'}, 'Guess first. Then look.');
    button.addEventListener('click', () => lift(box));
    box.append(inside, button);
  };
  const lift = box => {
    const inside = box.querySelector(':scope > .lablib-veiled');
    if (!inside) return;
    box.replaceChildren(...inside.childNodes);
    box.querySelector('input, select, button')?.focus({preventScroll: true});
  };
  const folds = 'details.hide.below-input, details.lablib-answer';
  const show_all = () => {
    document.querySelectorAll('.lablib-asks').forEach(lift);
    document.querySelectorAll(folds).forEach(each => { each.open = true; });
  };

  document.querySelectorAll('.lablib-film').forEach(begin);
  document.querySelectorAll('.lablib-asks').forEach(veil);
  const title = document.querySelector('article h1');
  if (title && document.querySelector('.lablib-asks')) {
    const all = make('button', {type: 'button', className: 'lablib-all'}, 'Show all pictures and answers');
    all.addEventListener('click', () => { show_all(); all.remove(); });
    title.after(all);
  }

  // Paper folds nothing and waits for nothing.
  window.addEventListener('beforeprint', () => {
    show_all();
    document.querySelectorAll('img[loading=lazy]').forEach(image => { image.loading = 'eager'; });
  });

  // What is larger than its place can be reached, and moved, with the keyboard.
  const wide = new ResizeObserver(changes => changes.forEach(({target}) => {
    const {scrollWidth, clientWidth, scrollHeight, clientHeight} = target;
    target.tabIndex = scrollWidth > clientWidth || scrollHeight > clientHeight ? 0 : -1;
  }));
  document.querySelectorAll('pre, .table-wrapper, .math-wrapper, .lablib-slides').forEach(box => wide.observe(box));
})();
