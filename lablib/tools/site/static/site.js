// Films: controls that choose one of the pictures that were drawn for them. What a film is stands in
// lablib/tools/site/film.py. Without this script it is its first picture. A film with a scene has data
// in place of pictures: scenes.js draws them, as in Jupyter.
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

  const begin = (figure, number) => {
    const film = JSON.parse(figure.querySelector('script').textContent);
    const stage = figure.querySelector('.lablib-stage'), said = figure.querySelector('figcaption');
    const start = film.controls.map(control => control.start);
    let places = [...start];
    const {name, constants, called} = film.scene || {};
    const paint = film.scene && painter(stage, scenes[name], constants, called);
    const draw = moved => {
      const [content, caption] = film.frames[index(film, places, moved)];
      const image = stage.querySelector('img');
      if (paint) {
        paint(content, caption);
      } else if (image) {
        image.src = image.getAttribute('src').replace(/[^/]*$/, content);
        image.alt = caption;
      } else {
        stage.firstElementChild.innerHTML = content;
        stage.firstElementChild.setAttribute('aria-label', caption);
      }
      said.textContent = caption;
      shows.forEach((show, i) => show(places[i]));
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
    reset.addEventListener('click', () => { places = [...start]; draw(0); });
    figure.prepend(make('div', {className: 'lablib-controls'}, ...rows, reset));
    if (paint) draw(0);
  };

  document.querySelectorAll('.lablib-film').forEach(begin);

  // What is larger than its place can be reached, and moved, with the keyboard.
  const wide = new ResizeObserver(changes => changes.forEach(({target}) => {
    const {scrollWidth, clientWidth, scrollHeight, clientHeight} = target;
    target.tabIndex = scrollWidth > clientWidth || scrollHeight > clientHeight ? 0 : -1;
  }));
  document.querySelectorAll('pre, .table-wrapper, .math-wrapper').forEach(box => wide.observe(box));
})();
