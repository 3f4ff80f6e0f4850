
// Additional features of a server's pages: keyboard navigation, and live updates. Everything also works without keys
// and scripts, by links, forms and reloading.

/** Keys after `g`, and the navigation link that they follow. */
const GOES = { o: 'Speedwell', s: 'Sessions', b: 'Benchmarks', t: 'Trend', c: 'Compare', a: 'Changes', m: 'Machines', l: 'Live' };

const KEYS = [
  ['/', 'search'], ['?', 'this list'], ['g then o s b t c a m l', `go to ${Object.values(GOES).slice(1).join(', ')}`],
  ['j k', 'next and previous row'], ['Enter', 'open the row'], ['x', 'select the row'], ['c', 'compare the selected rows'],
  ['Esc', 'leave'],
];

/** Whether a key press belongs to a field. */
function isTyping(event) {
  return event.target.closest?.('input:not([type=checkbox]), select, textarea, dialog') || event.ctrlKey || event.metaKey || event.altKey;
}

class Keys {
  constructor() {
    this.row = null;
    this.goes = false;
    addEventListener('keydown', (event) => this.pressed(event));
  }

  pressed(event) {
    if (event.key === 'Escape' && event.target.matches?.('input')) event.target.blur();
    if (event.key === 'Escape') this.choose(null);
    if (isTyping(event)) return;
    if (this.goes) {
      this.goes = false;
      const link = [...document.querySelectorAll('.bar nav a')].find((each) => each.textContent.startsWith(GOES[event.key]));
      if (link) location.href = link.href;
      return;
    }
    const does = {
      '/': () => document.querySelector('.search input')?.focus(),
      '?': () => this.list(),
      g: () => { this.goes = true; },
      j: () => this.walk(1),
      k: () => this.walk(-1),
      x: () => this.mark(),
      c: () => document.querySelector('.choice')?.requestSubmit(),
      Enter: () => (event.target === document.body || event.target === this.row) && this.row?.querySelector('a')?.click(),
    }[event.key];
    if (!does) return;
    if (event.key !== 'Enter') event.preventDefault();
    does();
  }

  /** The visible rows, from top to bottom. */
  rows() {
    return [...document.querySelectorAll('tr.row')].filter((row) => row.getClientRects().length);
  }

  walk(step) {
    const rows = this.rows();
    const index = rows.indexOf(this.row) + step;
    this.choose(rows[Math.max(0, Math.min(index, rows.length - 1))] ?? null);
  }

  choose(row) {
    this.row?.classList.remove('current');
    this.row = row;
    row?.classList.add('current');
    row?.scrollIntoView({ block: 'nearest' });
  }

  mark() {
    const box = this.row?.querySelector('input[type=checkbox]');
    if (!box) return;
    box.checked = !box.checked;
    box.dispatchEvent(new Event('change', { bubbles: true }));
  }

  list() {
    const list = make('dl');
    for (const [key, words] of KEYS) list.append(make('dt', {}, make('kbd', {}, key)), make('dd', {}, words));
    const close = make('button', { type: 'button' }, 'Close');
    const dialog = make('dialog', { 'aria-label': 'Keys' }, make('h2', {}, 'Keys'), list, close);
    close.addEventListener('click', () => dialog.close());
    dialog.addEventListener('close', () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }
}

/** Highlights selected rows; a third selection undoes the first: two sessions are compared. */
function addChoices() {
  const chosen = [];
  document.querySelector('.choice')?.addEventListener('change', (event) => {
    const box = event.target;
    if (box.checked) chosen.push(box);
    else chosen.splice(chosen.indexOf(box), 1);
    if (chosen.length > 2) chosen.shift().checked = false;
    for (const each of document.querySelectorAll('.choice input')) each.closest('tr').classList.toggle('marked', each.checked);
  });
}

/** Empty fields would only lengthen the address. */
function shortenAddresses() {
  for (const form of document.querySelectorAll('.filters form')) {
    form.addEventListener('formdata', (event) => {
      for (const [name, value] of [...event.formData]) if (value === '') event.formData.delete(name);
    });
  }
}

/**
 * Charts on separate pages, many on each: a part is folded and fetched when it is opened, and so are the runs of a case
 * below its row. If fetching fails, the link remains.
 */
class ApartCharts {
  constructor() {
    this.pages = new Map();
    const list = document.querySelector('.parts');
    if (!list) return;
    list.before(...[...list.querySelectorAll('a')].map((link) => this.fold(link)));
    list.remove();
    for (const link of document.querySelectorAll('tr.row > th a[href*="charts="]')) this.addInset(link);
  }

  /** Fetches the page at an address, once. */
  async page(address) {
    if (!this.pages.has(address)) this.pages.set(address, this.fetch(address));
    try {
      return await this.pages.get(address);
    } catch (error) {
      this.pages.delete(address);
      throw error;
    }
  }

  async fetch(address) {
    const answer = await fetch(address);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    if (!answer.ok || !page.querySelector('.cases')) throw new Error(answer.statusText);
    return page;
  }

  fold(link) {
    const said = make('p', { class: 'hint', role: 'status' });
    const details = make('details', { class: 'part' }, make('summary', {}, link.textContent), said);
    let isWanted = true;
    details.addEventListener('toggle', async () => {
      if (!details.open || !isWanted) return;
      isWanted = false;
      said.textContent = 'Loading the charts.';
      try {
        const page = await this.page(link.getAttribute('href'));
        said.replaceWith(...[...page.querySelectorAll('.cases')].map((cases) => document.importNode(cases, true)));
        showCases();
      } catch {
        isWanted = true;
        said.replaceChildren('Cannot load the charts. ', link);
      }
    });
    return details;
  }

  /** Adds a button beside the name of a case that shows its runs below the row. */
  addInset(link) {
    const row = link.closest('tr');
    const name = row.firstChild.dataset.v;
    const button = make('button', { type: 'button', class: 'more', 'aria-expanded': 'false', 'aria-label': `Runs of ${name}` });
    button.addEventListener('click', () => {
      if (button.getAttribute('aria-expanded') === 'true') Sheet.prototype.closeInset(row);
      else this.openInset(row, button, link);
    });
    link.before(button);
    link.closest('table').classList.add('expandable');
  }

  async openInset(row, button, link) {
    const cell = make('td', { colspan: row.children.length });
    row.after(make('tr', { class: 'inset' }, cell));
    button.setAttribute('aria-expanded', 'true');
    const [address, id] = link.getAttribute('href').split('#');
    try {
      const page = await this.page(address);
      for (const drawing of page.getElementById(id).querySelectorAll('svg')) {
        const copy = document.importNode(drawing, true);
        // Ids must be unique, and the part of this case may be open as well.
        for (const shape of copy.querySelectorAll('*')) {
          if (shape.id) shape.id = `inset-${shape.id}`;
          for (const attribute of shape.attributes) attribute.value = attribute.value.replace(/^(url\()?#/, '$&inset-');
        }
        cell.append(copy);
      }
    } catch {
      cell.append(make('p', { class: 'hint', role: 'status' }, 'Cannot load the runs.'));
    }
  }
}

new Keys();
addChoices();
shortenAddresses();
new ApartCharts();
