
// Flame graphs: a click on a box zooms it to the full width, a search highlights the boxes whose name contains a
// text.

/** Width of a letter, and the margin beside a name, in pixels of the drawing. */
const LETTER_PX = 6.2;
const NAME_MARGIN_PX = 6;

/** One box: its original position, and its function. */
class FlameBox {
  constructor(group) {
    this.group = group;
    this.rect = group.querySelector('rect');
    this.label = group.querySelector('text');
    this.left = Number(this.rect.getAttribute('x'));
    this.top = Number(this.rect.getAttribute('y'));
    this.width = Number(this.rect.getAttribute('width'));
    this.name = group.querySelector('title').textContent.split('\n')[0];
    this.drawn = this.label?.textContent;
  }

  get right() {
    return this.left + this.width;
  }

  /** Whether this box is a direct or indirect caller of `other`. */
  isAbove(other) {
    return this.top < other.top && this.left <= other.left + 0.01 && this.right >= other.right - 0.01;
  }

  isWithin(other) {
    return this.top >= other.top && this.left >= other.left - 0.01 && this.right <= other.right + 0.01;
  }

  place(left, width) {
    this.group.removeAttribute('visibility');
    this.rect.setAttribute('x', left);
    this.rect.setAttribute('width', width);
    this.write(left, width);
  }

  /** As much of the name as fits; the original name if nothing is zoomed. */
  write(left, width) {
    const letters = Math.floor((width - NAME_MARGIN_PX) / LETTER_PX);
    const isAsDrawn = width === this.width;
    if (!this.label && !isAsDrawn && letters > 3) {
      this.label = makeShape('text', { y: this.top + 12, 'font-size': 11, fill: 'var(--plot-ink)' });
      this.group.append(this.label);
    }
    if (!this.label) return;
    const cut = this.name.length > letters ? `${this.name.slice(0, Math.max(letters - 1, 0))}…` : this.name;
    this.label.setAttribute('x', left + NAME_MARGIN_PX / 2);
    this.label.textContent = isAsDrawn ? this.drawn ?? '' : letters > 3 ? cut : '';
  }
}

class FlameGraph {
  constructor(drawing) {
    this.boxes = [...drawing.querySelectorAll('g.frame')].map((group) => new FlameBox(group));
    if (this.boxes.length === 0) return;
    this.left = Math.min(...this.boxes.map((box) => box.left));
    this.right = Math.max(...this.boxes.map((box) => box.right));
    for (const box of this.boxes) box.group.addEventListener('click', () => this.zoom(box));
    drawing.prepend(this.makeTools());
  }

  makeTools() {
    this.back = make('button', { type: 'button', hidden: '' }, 'Show everything');
    this.back.addEventListener('click', () => this.reset());
    const words = { type: 'search', placeholder: 'Mark functions', 'aria-label': 'Mark functions whose name contains this text' };
    const box = make('input', words);
    this.count = make('output', { class: 'count' });
    box.addEventListener('input', () => this.mark(box.value.trim().toLowerCase()));
    return make('div', { class: 'tools', role: 'search' }, box, this.back, this.count);
  }

  /** Zooms a box to the full width, with everything that it called; its callers are dimmed above it. */
  zoom(chosen) {
    const scale = (this.right - this.left) / chosen.width;
    for (const box of this.boxes) {
      const isAbove = box.isAbove(chosen);
      box.group.classList.toggle('caller', isAbove);
      if (isAbove) box.place(this.left, this.right - this.left);
      else if (box.isWithin(chosen)) box.place(this.left + (box.left - chosen.left) * scale, box.width * scale);
      else box.group.setAttribute('visibility', 'hidden');
    }
    this.back.hidden = false;
  }

  reset() {
    for (const box of this.boxes) {
      box.group.classList.remove('caller');
      box.place(box.left, box.width);
    }
    this.back.hidden = true;
  }

  /** Highlights matches and shows their share of the width; a match within another one counts once. */
  mark(text) {
    const found = this.boxes.filter((box) => text && box.name.toLowerCase().includes(text));
    for (const box of this.boxes) box.group.classList.toggle('found', found.includes(box));
    const outermost = found.filter((box) => !found.some((other) => other !== box && other.isAbove(box)));
    const width = outermost.reduce((sum, box) => sum + box.width, 0);
    const share = (100 * width) / (this.right - this.left);
    this.count.textContent = text ? `${found.length} boxes, ${share.toFixed(1)}% of the width` : '';
  }
}

for (const drawing of document.querySelectorAll('figure.flame > div')) new FlameGraph(drawing);
