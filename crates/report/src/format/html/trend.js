
// Trend charts of served pages: a tooltip at the nearest point by mouse, touch and keyboard, zooming by dragging, and two
// points that are picked for a comparison. The form of the page does the same without scripts.

/** A pointer that moved less than this, in pixels, clicked. */
const CLICK_PX = 6;

/** The coordinates of the points of a drawing. All drawings of a chart have the same points in the same order. */
function placesOf(svg) {
  const places = [];
  const addPairs = (text, most) => {
    const numbers = text.match(/-?[\d.]+/g).map(Number);
    for (let at = 0; at + 1 < numbers.length && at < 2 * most; at += 2) places.push([numbers[at], numbers[at + 1]]);
  };
  for (const group of svg.querySelectorAll('.points')) {
    if (group.localName === 'path') addPairs(group.getAttribute('d'), Infinity);
    else for (const mark of group.children) places.push([Number(mark.getAttribute('x')), Number(mark.getAttribute('y'))]);
  }
  for (const stray of svg.querySelectorAll('.strays > *')) addPairs(stray.getAttribute('d'), 1);
  return places;
}

/** The times in the second line of a tooltip, as in an address. */
function timesOf(text) {
  return (text.split('\n')[1]?.match(/\d{4}-\d\d-\d\d \d\d:\d\d/g) ?? []).map((time) => time.replace(' ', 'T'));
}

class TrendView {
  constructor(figure) {
    this.figure = figure;
    this.drawings = [...figure.querySelectorAll('svg')];
    const titles = [...this.drawings[0].querySelectorAll('.points title, .strays title')];
    this.texts = titles.map((title) => title.textContent);
    this.places = this.drawings.map(placesOf);
    if (titles.length === 0 || this.places.some((places) => places.length !== titles.length)) return;
    // The browser would show a second tooltip.
    for (const title of titles) title.remove();
    const places = this.places[0];
    this.order = places.map((_, index) => index).sort((a, b) => places[a][0] - places[b][0] || a - b);
    this.project = location.pathname.split('/')[1];
    const variant = document.querySelector('.at-hand [name=variant]')?.value;
    this.suffix = variant && variant !== 'default' ? `[${variant}]` : '';
    this.zooms = Boolean(document.querySelector('.at-hand [name=from]'));
    this.at = null;
    this.isPinned = false;
    this.picked = [];
    this.tip = make('div', { class: 'tip', role: 'status' });
    this.tip.hidden = true;
    this.picks = make('p', { class: 'picks', role: 'status' });
    this.picks.hidden = true;
    this.below = make('div', { class: 'below-trend' }, this.tip, this.picks);
    figure.after(this.below);
    figure.tabIndex = 0;
    figure.setAttribute('role', 'group');
    figure.setAttribute('aria-label', `Trend of ${titles.length} points. Arrow keys move from point to point, Enter opens its links.`);
    this.listen();
  }

  listen() {
    const { figure } = this;
    figure.addEventListener('pointermove', (event) => this.moved(event));
    figure.addEventListener('pointerdown', (event) => this.pressed(event));
    figure.addEventListener('pointerup', (event) => this.released(event));
    figure.addEventListener('pointercancel', () => this.endBrush());
    figure.addEventListener('pointerleave', () => { if (!this.isPinned) this.hide(); });
    figure.addEventListener('keydown', (event) => this.keyed(event));
    this.tip.addEventListener('keydown', (event) => {
      if (event.key !== 'Escape') return;
      this.hide();
      figure.focus();
    });
    document.addEventListener('pointerdown', (event) => {
      if (!figure.contains(event.target) && !this.below.contains(event.target)) this.hide();
    });
    addEventListener('resize', () => this.hide());
  }

  /** The index of the drawing that is shown. */
  shown() {
    return Math.max(0, this.drawings.findIndex((svg) => svg.getClientRects().length));
  }

  /** Where a pointer is, in units of the drawing. */
  pointerPlace(event) {
    const svg = this.drawings[this.shown()];
    const { left, top, width } = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / width;
    return [(event.clientX - left) * scale, (event.clientY - top) * scale];
  }

  nearest(event) {
    const [x, y] = this.pointerPlace(event);
    const distances = this.places[this.shown()].map(([left, top]) => Math.hypot(left - x, (top - y) / 4));
    return distances.indexOf(Math.min(...distances));
  }

  /** Whether the event is about something else in the chart. */
  isElsewhere(event) {
    return !event.target.closest('svg') || event.target.closest('.change');
  }

  moved(event) {
    if (this.brush) this.stretch(event);
    else if (!this.isPinned && event.pointerType === 'mouse' && !this.isElsewhere(event)) this.show(this.nearest(event));
  }

  pressed(event) {
    if (event.button !== 0 || this.isElsewhere(event)) return;
    const [from] = this.pointerPlace(event);
    this.brush = { from, clientX: event.clientX, rect: makeShape('rect', { class: 'brush', y: 0, height: '100%' }) };
    if (this.zooms) event.target.closest('svg').append(this.brush.rect);
    event.target.setPointerCapture?.(event.pointerId);
  }

  stretch(event) {
    const [to] = this.pointerPlace(event);
    this.brush.rect.setAttribute('x', Math.min(this.brush.from, to));
    this.brush.rect.setAttribute('width', Math.abs(to - this.brush.from));
  }

  endBrush() {
    const { brush } = this;
    brush?.rect.remove();
    this.brush = null;
    return brush;
  }

  released(event) {
    const brush = this.endBrush();
    if (!brush) return;
    if (Math.abs(event.clientX - brush.clientX) < CLICK_PX) {
      this.show(this.nearest(event), true);
      return;
    }
    const [to] = this.pointerPlace(event);
    if (this.zooms) this.zoom(Math.min(brush.from, to), Math.max(brush.from, to));
  }

  /** Opens the page of the points between two coordinates. */
  zoom(low, high) {
    const places = this.places[this.shown()];
    const inside = this.texts.filter((_, index) => places[index][0] >= low && places[index][0] <= high);
    const times = inside.flatMap(timesOf).sort();
    if (times.length === 0) return;
    // The last minute is included.
    const end = new Date(Date.parse(`${times.at(-1)}Z`) + 60_000).toISOString().slice(0, 16);
    const address = new URL(location.href);
    address.searchParams.set('from', times[0]);
    address.searchParams.set('to', end);
    location.href = address;
  }

  keyed(event) {
    if (event.target !== this.figure || event.ctrlKey || event.metaKey || event.altKey) return;
    const last = this.order.length - 1;
    const position = this.at === null ? null : this.order.indexOf(this.at);
    const next = {
      ArrowRight: position === null ? 0 : Math.min(position + 1, last),
      ArrowLeft: position === null ? last : Math.max(position - 1, 0),
      Home: 0,
      End: last,
    }[event.key];
    if (next !== undefined) this.show(this.order[next], true);
    else if (event.key === 'Escape') this.hide();
    else if (event.key === 'Enter' && this.at !== null) this.tip.querySelector('button, a')?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  hide() {
    this.tip.hidden = true;
    this.isPinned = false;
    this.at = null;
    this.mark('at', []);
  }

  /** Rings points in all drawings. */
  mark(name, indices) {
    this.drawings.forEach((svg, drawing) => {
      for (const ring of svg.querySelectorAll(`circle.${name}`)) ring.remove();
      for (const index of indices) {
        const [cx, cy] = this.places[drawing][index];
        svg.append(makeShape('circle', { class: name, cx, cy, r: 7 }));
      }
    });
  }

  sessionOf(index) {
    return this.texts[index].match(/(?:^|, )@(\d+)$/m)?.[1];
  }

  show(index, isPinned = false) {
    this.isPinned = isPinned;
    if (index === this.at && !this.tip.hidden) return;
    this.at = index;
    const [first, ...others] = this.texts[index].split('\n');
    const lines = others.map((line) => make('span', {}, line));
    this.tip.replaceChildren(make('b', {}, first), ...lines, ...this.actions(index));
    this.tip.hidden = false;
    this.mark('at', [index]);
    const svg = this.drawings[this.shown()];
    const box = svg.getBoundingClientRect();
    const below = this.below.getBoundingClientRect();
    const scale = box.width / svg.viewBox.baseVal.width;
    const [x, y] = this.places[this.shown()][index];
    const { offsetWidth: width } = this.tip;
    const left = box.left - below.left + x * scale;
    // To the right of the point or, near the end, to its left.
    const isRight = left + width + 12 <= below.width;
    this.tip.style.setProperty('--x', `${isRight ? left + 12 : Math.max(left - width - 12, 0)}px`);
    this.tip.style.setProperty('--y', `${box.top - below.top + y * scale + 12}px`);
  }

  /** The buttons of a point. Several points that are drawn as one have none. */
  actions(index) {
    const session = this.sessionOf(index);
    if (!session) return [];
    const pick = make('button', { type: 'button' }, this.picked.includes(index) ? 'Unpick' : 'Pick');
    pick.addEventListener('click', () => {
      this.pick(index);
      pick.textContent = this.picked.includes(index) ? 'Unpick' : 'Pick';
    });
    const link = make('a', { href: `/${this.project}/@${session}` }, `session @${session}`);
    return [make('div', { class: 'actions' }, pick, link)];
  }

  /** Picks a point, or no longer; a third one replaces the first. */
  pick(index) {
    if (this.picked.includes(index)) this.picked = this.picked.filter((other) => other !== index);
    else this.picked = [...this.picked, index].slice(-2);
    this.mark('picked', this.picked);
    const inOrder = this.order.filter((each) => this.picked.includes(each));
    const names = inOrder.map((each) => this.texts[each].split(/\s/)[0]);
    this.picks.hidden = names.length === 0;
    this.picks.replaceChildren(`Picked: ${names.join(', ')} `);
    if (inOrder.length < 2) {
      this.picks.append('(pick another point to compare)');
      return;
    }
    const [base, other] = inOrder.map((each) => encodeURIComponent(`@${this.sessionOf(each)}${this.suffix}`));
    this.picks.append(make('a', { href: `/${this.project}/compare?base=${base}&with=${other}` }, 'compare'));
  }
}

for (const figure of document.querySelectorAll('figure.trend')) new TrendView(figure);
for (const link of document.querySelectorAll('.links a[href*="/trend.svg"]')) {
  link.after(copyButton('Copy chart', async () => (await fetch(link.href)).text()));
}
