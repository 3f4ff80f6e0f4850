
// What a page of a server can do beyond that: be walked through by keys, and show what is being measured. All of it can be
// done without keys and without scripts, by links, forms and loading the page again.

/** Keys that follow `g`, and the page whose link in the bar they follow. */
const GOES = { o: 'Speedwell', s: 'Sessions', b: 'Benchmarks', t: 'Trend', c: 'Compare', a: 'Changes', m: 'Machines', l: 'Live' };

const KEYS = [
  ['/', 'search'], ['?', 'this list'], ['g then o s b t c a m l', `go to ${Object.values(GOES).slice(1).join(', ')}`],
  ['j k', 'next and previous row'], ['Enter', 'open the row'], ['x', 'choose the row'], ['c', 'compare the chosen rows'],
  ['Esc', 'leave'],
];

/** Whether what is typed belongs to a field. */
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
      const link = [...document.querySelectorAll('.bar nav a')].find((each) => each.textContent === GOES[event.key]);
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

  /** The rows that are seen, from top to bottom. */
  rows() {
    return [...document.querySelectorAll('tr.row')].filter((row) => row.getClientRects().length);
  }

  walk(step) {
    const rows = this.rows();
    const at = rows.indexOf(this.row) + step;
    this.choose(rows[Math.max(0, Math.min(at, rows.length - 1))] ?? null);
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

/** The chosen rows stand out, and a third choice undoes the first: two sessions are compared. */
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

/** Empty fields would only make the address longer. */
function shortenAddresses() {
  for (const form of document.querySelectorAll('.filters form')) {
    form.addEventListener('formdata', (event) => {
      for (const [name, value] of [...event.formData]) if (value === '') event.formData.delete(name);
    });
  }
}

/** What is being measured: the server sends the main part of the page anew whenever something was measured. */
function follow(address) {
  const events = new EventSource(address);
  const main = document.getElementById('main');
  const said = make('p', { class: 'hint', role: 'status' });
  main.before(said);
  events.addEventListener('progress', (event) => {
    const { html, title } = JSON.parse(event.data);
    const opened = [...main.querySelectorAll('details[open] > summary')].map((each) => each.textContent);
    main.replaceChildren(...new DOMParser().parseFromString(html, 'text/html').getElementById('main').childNodes);
    for (const summary of main.querySelectorAll('details > summary')) {
      if (opened.includes(summary.textContent)) summary.parentNode.open = true;
    }
    document.querySelector('h1').textContent = title;
    for (const section of main.querySelectorAll('.sheet')) new Sheet(section);
    said.textContent = '';
  });
  events.addEventListener('over', () => {
    events.close();
    location.reload();
  });
  events.addEventListener('error', () => {
    said.textContent = 'The server cannot be reached just now; the page goes on by itself when it can.';
  });
}

new Keys();
addChoices();
shortenAddresses();
if (document.body.dataset.events) follow(document.body.dataset.events);
