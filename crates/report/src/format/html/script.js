// Interactive features of the report: sorts and filters tables, switches the theme, copies, opens what is
// printed or linked to. All controls are added here, so that a page without scripts has no dead ones.

// Fewer rows need no filter.
const FILTERED_ROWS = 10;

const wide = new Intl.Collator('en', { numeric: true });

/** Creates an element with attributes and children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Creates an SVG element. */
function makeShape(tag, attributes) {
  const shape = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) shape.setAttribute(name, value);
  return shape;
}

/** The lower-case words of a filter. */
function wordsOf(text) {
  return text.toLowerCase().split(/\s+/).filter(Boolean);
}

/** The age of a moment in the words of the server. */
function ageOf(unixMs) {
  const minutes = Math.floor((Date.now() - unixMs) / 60000);
  if (minutes < 1) return 'less than a minute ago';
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
  return `${Math.floor(minutes / 1440)} d ago`;
}

/** Sheets by section. */
const sheets = new WeakMap();

/** A table with its rows in their original order. */
class Sheet {
  constructor(section) {
    this.section = section;
    sheets.set(section, this);
    this.table = section.querySelector('table');
    this.headers = [...this.table.querySelectorAll('thead th')];
    this.rows = [...this.table.querySelectorAll('tr.row')].map((row) => ({
      row,
      home: row.parentNode,
      charts: row.nextElementSibling?.matches('.charts-of') ? row.nextElementSibling : null,
      text: `${row.firstChild.dataset.v ?? ''} ${row.textContent}`.toLowerCase(),
    }));
    this.mixed = make('tbody');
    this.words = [];
    this.addSorting();
    this.addFilters();
  }

  /** Removes the charts that were fetched for a row. */
  closeInset(row) {
    const inset = row.nextElementSibling;
    if (!inset?.classList.contains('inset')) return;
    inset.remove();
    row.querySelector('.more').setAttribute('aria-expanded', 'false');
  }

  /** Turns every heading of figures or texts into a button; narrow screens, which hide headings, get a list. */
  addSorting() {
    this.choice = make('select');
    this.choice.append(new Option('as measured', ''));
    this.headers.forEach((header, column) => {
      const label = [...header.childNodes].filter((node) => !node.classList?.contains('term'));
      const name = label.map((node) => node.textContent).join('').trim();
      if (!header.dataset.k || !name || this.rows.length < 2) return;
      const button = make('button', { type: 'button', 'aria-label': `Sort by ${name}` });
      button.append(...label);
      header.prepend(button);
      header.setAttribute('aria-sort', 'none');
      button.addEventListener('click', () => this.sort(column, this.following(header)));
      for (const [order, words] of [['descending', 'largest first'], ['ascending', 'smallest first']]) {
        this.choice.append(new Option(`${name}, ${words}`, `${column} ${order}`));
      }
    });
    this.choice.addEventListener('change', () => {
      const [column, order] = this.choice.value.split(' ');
      this.sort(Number(column), order ?? 'none');
    });
  }

  /** The next sort order: figures start with the largest, texts with the first. */
  following(header) {
    const orders = header.classList.contains('f')
      ? ['none', 'descending', 'ascending']
      : ['none', 'ascending', 'descending'];
    return orders[(orders.indexOf(header.getAttribute('aria-sort')) + 1) % 3];
  }

  sort(column, order) {
    for (const { row } of this.rows) this.closeInset(row);
    this.headers.forEach((header, index) => {
      if (header.hasAttribute('aria-sort')) header.setAttribute('aria-sort', index === column ? order : 'none');
    });
    this.choice.value = order === 'none' ? '' : `${column} ${order}`;
    this.table.classList.toggle('mixed', order !== 'none');
    if (order === 'none') {
      this.mixed.remove();
      for (const { row, home, charts } of this.rows) home.append(...[row, charts].filter(Boolean));
      this.apply();
      return;
    }
    const keyed = this.rows.map(({ row, charts }) => ({ row, charts, key: keyOf(row.children[column]) }));
    const turn = order === 'descending' ? -1 : 1;
    keyed.sort((a, b) => compare(a.key, b.key, turn));
    this.mixed.append(...keyed.flatMap(({ row, charts }) => [row, charts]).filter(Boolean));
    this.table.append(this.mixed);
    this.apply();
  }

  /** A text box, beside the radio buttons for the values of the facet. */
  addFilters() {
    const tally = this.section.querySelector('.tally');
    if (this.rows.length < 2) return;
    const hasBox = this.rows.length >= FILTERED_ROWS && !document.querySelector('.filters [name="filter"]');
    // Without them only the list of sort keys remains, for narrow screens.
    const named = document.getElementById(this.table.getAttribute('aria-labelledby') ?? '');
    const tools = make('div', {
      class: tally || hasBox ? 'tools' : 'tools sort-by',
      role: 'search',
      'aria-label': `Rows of ${named?.textContent ?? this.table.getAttribute('aria-label')}`,
    });
    if (tally) {
      tally.addEventListener('change', () => this.apply());
      tally.replaceWith(tools);
      tools.append(tally);
    } else {
      this.section.querySelector('.scroll').before(tools);
    }
    if (hasBox) tools.append(this.makeBox());
    this.count = make('output', { class: 'count' });
    const sortBy = make('label', { class: 'sort-by' }, 'Sort by ', this.choice);
    tools.append(sortBy, this.count);
  }

  makeBox() {
    const box = make('input', { type: 'search', placeholder: 'Filter rows', 'aria-label': 'Filter rows by text' });
    box.addEventListener('input', () => {
      this.words = wordsOf(box.value);
      this.apply();
    });
    return box;
  }

  /** Shows the matching rows, and the groups and cases that have one. */
  apply() {
    let shown = 0;
    const homes = new Map();
    const chosen = this.section.querySelector('.tally input:checked')?.className.replace('pick-', '') ?? '0';
    for (const { row, home, text, charts } of this.rows) {
      const wanted = this.words.every((word) => text.includes(word)) && ['0', row.dataset.f ?? chosen].includes(chosen);
      row.hidden = !wanted;
      if (charts) charts.hidden = !wanted;
      if (!wanted) this.closeInset(row);
      if (wanted) shown += 1;
      homes.set(home, homes.get(home) || wanted);
    }
    for (const [home, wanted] of homes) home.hidden = !wanted;
    if (this.count) {
      const all = this.rows.length;
      this.count.textContent = shown === all ? '' : `${shown} of ${all} rows`;
    }
    showCases();
  }
}

/** The sort key of a cell: its number if it has one, else its text; undefined if it is empty. */
function keyOf(cell) {
  const text = cell.dataset.v ?? cell.textContent.trim();
  if (text === '') return undefined;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

/** Unknown values are last in both directions. */
function compare(a, b, turn) {
  if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
  if (typeof a === 'number' && typeof b === 'number') return turn * (a - b);
  return turn * wide.compare(String(a), String(b));
}

/** A case is shown unless every row that links to it is hidden. */
function showCases() {
  const wanted = new Map();
  for (const link of document.querySelectorAll('tr.row > th a')) {
    const id = link.hash.slice(1);
    wanted.set(id, wanted.get(id) || !link.closest('tr').hidden);
  }
  for (const card of document.querySelectorAll('.case')) card.hidden = wanted.get(card.id) === false;
}

/** Opens the target of the address. */
function openTarget() {
  let target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const found = target;
  for (; target; target = target.parentElement) {
    if (target.localName === 'details') target.open = true;
  }
  found?.scrollIntoView({ block: 'start' });
}

/** Expands everything while printing, and restores it afterwards. */
function openForPrint() {
  let closed = [];
  const begin = () => {
    if (closed.length > 0) return;
    closed = [...document.querySelectorAll('details:not([open])')];
    for (const details of closed) details.open = true;
  };
  const end = () => {
    for (const details of closed) details.open = false;
    closed = [];
  };
  addEventListener('beforeprint', begin);
  addEventListener('afterprint', end);
  matchMedia('print').addEventListener('change', (event) => (event.matches ? begin() : end()));
}

/** Adds a button that cycles through the themes: the system's, dark, light. */
function addThemes() {
  const root = document.documentElement;
  const button = make('button', { type: 'button', class: 'theme' });
  const themes = { '': '◐ Auto', dark: '● Dark', light: '○ Light' };
  const show = () => {
    const words = themes[root.dataset.theme ?? ''];
    button.textContent = words;
    button.setAttribute('aria-label', `Theme: ${words.slice(2)}. Change theme`);
  };
  button.addEventListener('click', () => {
    const names = Object.keys(themes);
    const next = names[(names.indexOf(root.dataset.theme ?? '') + 1) % names.length];
    if (next) root.dataset.theme = next;
    else delete root.dataset.theme;
    try {
      localStorage.setItem('speedwell-theme', next);
    } catch {
      // A page opened as a file has no storage; the choice then lasts until it is closed.
    }
    show();
  });
  show();
  document.querySelector('.masthead').append(button);
}

/** A button that copies, and shows whether it succeeded. */
function copyButton(words, text) {
  const button = make('button', { type: 'button', class: 'copy' }, words);
  button.addEventListener('click', async () => {
    let done = 'Copied';
    try {
      await navigator.clipboard.writeText(await text());
    } catch {
      done = 'Copying not permitted';
    }
    button.textContent = done;
    setTimeout(() => { button.textContent = words; }, 1500);
  });
  return button;
}

function addDataButtons() {
  const data = document.getElementById('raw-data');
  if (!data) return;
  const download = make('button', { type: 'button' }, 'Download JSON');
  download.addEventListener('click', () => {
    const address = URL.createObjectURL(new Blob([data.textContent], { type: 'application/json' }));
    make('a', { href: address, download: 'speedwell-report.json' }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
  data.before(make('p', { class: 'tools' }, download, copyButton('Copy JSON', () => data.textContent)));
}

for (const section of document.querySelectorAll('.sheet')) new Sheet(section);
for (const line of document.querySelectorAll('pre.command')) {
  line.before(copyButton('Copy', () => line.textContent));
}
addThemes();
addDataButtons();
openForPrint();
addEventListener('hashchange', openTarget);
// Following a link again does not change the address, but its case may have been closed.
document.addEventListener('click', (event) => {
  if (event.target.closest?.('a[href^="#"]')) setTimeout(openTarget);
});
if (location.hash) openTarget();
