// Films: controls, and a scene that draws the data of where they stand, as in Jupyter. What a film
// is stands in lablib/tools/site/film.py. The data of all its settings stand, packed, in a file of
// their own, a script that calls lablibFilm, as a page from a folder can load nothing else. Or the
// page's engine (_static/play/live.js) computes the data: of what the film was given at any
// setting, or of a reader's text.
const lablibFilms = {};
function lablibFilm(name, packed) {
  const bytes = Uint8Array.from(atob(packed), letter => letter.charCodeAt());
  const text = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  lablibFilms[name] = new Response(text).json();
}

(() => {
  const make = (tag, more = {}, ...inside) => {
    const element = Object.assign(document.createElement(tag), more);
    element.append(...inside);
    return element;
  };

  // Return the number of a setting, for the place of each control.
  const index = ({controls}, places) =>
    controls.reduce((at, {stops}, i) => at * stops.length + places[i], 0);

  // Return the parts that a control is made of, and a function that shows where it stands.
  const inputs = (control, id, moveTo) => {
    if (control.kind === 'list') {
      const options = control.stops.map((text, i) => make('option', {value: i}, text));
      const list = make('select', {id}, ...options);
      list.addEventListener('change', () => moveTo(list.selectedIndex));
      return [
        [list],
        place => {
          list.selectedIndex = place;
        },
      ];
    }
    if (control.kind === 'box') {
      const box = make('input', {id, type: 'checkbox'});
      box.addEventListener('change', () => moveTo(Number(box.checked)));
      return [
        [box],
        place => {
          box.checked = Boolean(place);
        },
      ];
    }
    const slider = make('input', {
      id,
      type: 'range',
      min: 0,
      max: control.stops.length - 1,
      step: 1,
    });
    const read = make('output', {htmlFor: id});
    read.setAttribute('aria-hidden', 'true'); // the slider says the same
    slider.addEventListener('input', () => moveTo(Number(slider.value)));
    const show = (place, last) => {
      slider.max = last;
      slider.value = place;
      slider.setAttribute('aria-valuetext', control.stops[place]);
      read.textContent = control.stops[place];
    };
    return [[slider, read, ...(control.kind === 'film' ? [player(control, slider)] : [])], show];
  };

  const player = (control, slider) => {
    const button = make('button', {type: 'button'}, 'Play');
    let timer;
    const stop = () => {
      clearInterval(timer);
      timer = undefined;
      button.textContent = 'Play';
    };
    const step = to => {
      slider.value = to;
      slider.dispatchEvent(new Event('input'));
    };
    button.addEventListener('click', () => {
      if (timer) return stop();
      if (slider.value === slider.max) step(0);
      button.textContent = 'Pause';
      timer = setInterval(() => {
        step(Number(slider.value) + 1);
        if (slider.value === slider.max) stop();
      }, control.pause);
    });
    return button;
  };

  const script = src =>
    new Promise((done, failed) => {
      document.head.append(
        make('script', {
          src,
          onload: done,
          onerror: () => failed(new Error(`${src} did not come`)),
        }),
      );
    });

  // Return all settings of a film that has a file of them.
  const loaded = async path => {
    const name = path.replace(/.*\//, '');
    if (!lablibFilms[name]) await script(path);
    return lablibFilms[name];
  };

  // Return the page's engine.
  const live = async () => {
    if (!window.lablibLive) await script('_static/play/live.js');
    return lablibLive;
  };

  // Return data and caption for the places of all controls; parts of the data may depend on some of
  // them only.
  const composed = ({parts, frames, captions}, film, places) => {
    const row = index(film, places);
    if (frames) return [frames[row], captions[row]];
    const at = of => of.reduce((row, i) => row * film.controls[i].stops.length + places[i], 0);
    return [Object.assign({}, ...parts.map(({of, data}) => data[at(of)])), captions[row]];
  };

  const begin = (figure, number) => {
    const film = JSON.parse(figure.querySelector('script').textContent);
    const stage = figure.querySelector('.lablib-stage'),
      said = figure.querySelector('figcaption');
    const start = film.controls.map(control => control.start);
    const {engine} = film,
      {name, constants, called} = film.scene;
    let places = [...start],
      own = null,
      question = 0; // own: what the model made of the reader's text
    let worn, drawn;
    const paint = (data, caption, dress = constants) => {
      if (dress !== worn) {
        stage.replaceChildren();
        drawn = painter(stage, scenes[name], dress, called);
      }
      worn = dress;
      drawn(data, caption);
    };
    const values = () =>
      Object.fromEntries(
        film.controls.map(({name, kind, stops}, i) => [
          name,
          kind === 'list'
            ? stops[places[i]]
            : kind === 'box'
              ? Boolean(places[i])
              : Number(stops[places[i]]),
        ]),
      );
    // Return data and caption of where the controls stand, and the scene's constants if they are
    // others.
    const frame = async moved => {
      const given = own || (moved === undefined ? null : engine?.given);
      const found = given && (await live().catch(() => null));
      if (found) return [...found.pictures[engine.name].frame(given, values()), given.constants];
      if (film.parts && moved !== undefined)
        return composed(await loaded(film.parts), film, places);
      return [film.data, film.caption];
    };
    let asked = 0;
    const draw = async moved => {
      const turn = ++asked,
        row = index(film, places);
      figure.setAttribute('aria-busy', 'true');
      film.controls.forEach(({name, stops, ends}, i) => {
        const last = (own ? own.ends?.[name] : ends?.[row]) ?? stops.length - 1;
        // It is back where it was where there is more to show.
        shows[i](Math.min(places[i], last), last);
      });
      const [data, caption, dress] = await frame(moved);
      // Another one was asked for, and picture and words change together.
      if (turn !== asked) return;
      paint(data, caption, dress);
      said.textContent = caption;
      // What stands below does not come up again.
      if (said.offsetHeight) said.style.minHeight = `${said.offsetHeight}px`;
      figure.setAttribute('aria-busy', 'false');
    };
    const home = () => {
      // back to the lesson's own, whatever is still asked
      own = null;
      question += 1;
      figure.querySelectorAll('.lablib-said').forEach(each => {
        each.textContent = KNOWS;
      });
    };
    const move = (moved, place) => {
      const {kind, name} = film.controls[moved];
      if (kind === 'list' && !window.lablibLive?.pictures[engine?.name]?.keeps?.includes(name))
        home();
      places[moved] = place;
      draw(moved);
    };
    const rows = [],
      shows = film.controls.map((control, i) => {
        const id = `film-${number}-${i}`;
        const [parts, show] = inputs(control, id, place => move(i, place));
        rows.push(make('div', {}, make('label', {htmlFor: id}, control.label), ...parts));
        show(start[i], control.ends?.[index(film, start)] ?? control.stops.length - 1);
        return show;
      });
    const reset = make('button', {type: 'button'}, 'Reset');
    reset.addEventListener('click', () => {
      places = [...start];
      home();
      draw();
    });
    const controls = make('div', {className: 'lablib-controls'}, ...rows, reset);
    const stops = name => film.controls.find(control => control.name === name).stops.map(Number);
    // Return what a question has to know, what shows its answer, with which controls may move, and
    // whether it still stands: none was asked after it, and the lesson's own picture is not back.
    const asked_now = () => {
      const turn = ++question,
        stands = () => turn === question;
      const show = (given, moves = {}) => {
        if (!stands()) return;
        own = given;
        film.controls.forEach(({name, stops}, i) => {
          if (name in moves) places[i] = stops.indexOf(String(moves[name]));
        });
        draw();
      };
      return {about: {constants, stops, before: own}, show, stands};
    };
    if (engine) figure.prepend(asking(engine, number, asked_now));
    if (film.parts && !engine?.given)
      controls.addEventListener('pointerenter', () => loaded(film.parts), {once: true});
    if (film.controls.length) figure.prepend(controls);
    draw();
  };

  const KNOWS =
    'The model knows stories, sums and edits. The first question loads it, some 7 MB; it runs in this page.';

  // Return the line in which a reader writes a text of their own for a picture.
  const asking = ({name, prompt, seed}, number, asked_now) => {
    const id = `film-${number}-own`,
      seeded = seed !== undefined;
    const from = make('input', {
      id: `${id}-seed`,
      type: 'number',
      value: seed,
      min: 0,
      max: Number.MAX_SAFE_INTEGER,
      step: 1,
      required: seeded,
    });
    const seeds = seeded ? [make('span', {}, make('label', {htmlFor: from.id}, 'seed'), from)] : [];
    const text = make('input', {
      id,
      type: 'text',
      value: prompt,
      spellcheck: false,
      autocomplete: 'off',
    });
    const button = make('button', {type: 'submit'}, 'Ask the model');
    const said = make('p', {className: 'lablib-said'}, KNOWS);
    said.setAttribute('role', 'status');
    const form = make(
      'form',
      {className: 'lablib-controls lablib-own'},
      make('div', {}, make('label', {htmlFor: id}, 'A text of your own'), text, ...seeds, button),
      said,
    );
    form.addEventListener('submit', async event => {
      event.preventDefault();
      const {about, show, stands} = asked_now();
      const say = words => {
        if (stands()) said.textContent = words;
      };
      try {
        const {lab, pictures} = await live();
        await lab.bring(say);
        say('The model reads …');
        const more = await pictures[name].ask(
          lab,
          text.value,
          {...about, seed: Number(from.value), say},
          show,
        );
        say(`This is the model’s own answer. ${more ?? 'Reset brings the lesson’s picture back.'}`);
      } catch (error) {
        say(error.message);
      }
    });
    return form;
  };

  // Lay a veil on what answers a question: seen through, it makes one guess; one click, and it is
  // gone.
  const veil = box => {
    const inside = make('div', {className: 'lablib-veiled', inert: true}, ...box.childNodes);
    const button = make(
      'button',
      {type: 'button', className: 'lablib-veil'},
      'Guess first. Then look.',
    );
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
    document.querySelectorAll(folds).forEach(each => {
      each.open = true;
    });
  };

  document.querySelectorAll('.lablib-film').forEach(begin);
  document.querySelectorAll('.lablib-asks').forEach(veil);
  const title = document.querySelector('article h1');
  if (title && document.querySelector('.lablib-asks')) {
    const all = make(
      'button',
      {type: 'button', className: 'lablib-all'},
      'Show all pictures and answers',
    );
    all.addEventListener('click', () => {
      show_all();
      all.remove();
    });
    title.after(all);
  }

  // Paper folds nothing and waits for nothing.
  window.addEventListener('beforeprint', () => {
    show_all();
    document.querySelectorAll('img[loading=lazy]').forEach(image => {
      image.loading = 'eager';
    });
  });

  // What is larger than its place can be reached, and moved, with the keyboard.
  const wide = new ResizeObserver(changes =>
    changes.forEach(({target}) => {
      const {scrollWidth, clientWidth, scrollHeight, clientHeight} = target;
      target.tabIndex = scrollWidth > clientWidth || scrollHeight > clientHeight ? 0 : -1;
    }),
  );
  document
    .querySelectorAll('pre, .table-wrapper, .math-wrapper, .lablib-slides')
    .forEach(box => wide.observe(box));
})();
