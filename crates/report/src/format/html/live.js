
/** Elements that scripts add to what the server sends. */
const ADDED = '.theme, .copy, .tools, .inset';

/** Turns an element into another one, and leaves everything that is equal untouched. */
function patch(node, next) {
  if (node.isEqualNode(next)) return;
  if (node.nodeType !== Node.ELEMENT_NODE || node.nodeName !== next.nodeName) {
    node.replaceWith(document.importNode(next, true));
    return;
  }
  if (node.matches('.sheet')) return patchSheet(node, next);
  for (const { name } of [...node.attributes]) {
    // The reader opened it.
    if (name !== 'open' && !next.hasAttribute(name)) node.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  patchChildren(node, next);
}

function patchChildren(node, next) {
  const children = [...node.childNodes].filter((child) => !child.matches?.(ADDED));
  const wanted = [...next.childNodes];
  const end = children.at(-1)?.nextSibling ?? null;
  wanted.forEach((child, index) => {
    if (index < children.length) patch(children[index], child);
    else node.insertBefore(document.importNode(child, true), end);
  });
  for (const child of children.slice(wanted.length)) child.remove();
}

/** Updates the cells of a table, which keeps its order and filters. A table with other rows starts anew. */
function patchSheet(section, next) {
  // The sheet knows the rows in the order of the server.
  const sheet = sheets.get(section);
  const rows = [...next.querySelectorAll('tr.row')];
  if (!sheet || sheet.rows.length !== rows.length || sheet.rows[0]?.row.cells.length !== rows[0]?.cells.length) {
    const fresh = document.importNode(next, true);
    section.replaceWith(fresh);
    new Sheet(fresh);
    return;
  }
  sheet.rows.forEach((entry, index) => {
    [...entry.row.cells].forEach((cell, column) => patch(cell, rows[index].cells[column]));
    entry.text = `${entry.row.firstChild.dataset.v ?? ''} ${entry.row.textContent}`.toLowerCase();
  });
  sheet.apply();
}

/** Shows expected ends in the time zone of the reader. */
function localizeTimes(root) {
  for (const time of root.querySelectorAll('.ends time')) {
    time.textContent = new Date(time.dateTime).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  }
}

/** Follows a measurement: the server sends the page again whenever something has been measured. */
function follow(address) {
  const events = new EventSource(address);
  const main = document.getElementById('main');
  const masthead = document.querySelector('.masthead');
  const said = make('p', { class: 'hint', role: 'status' });
  main.before(said);
  events.addEventListener('progress', (event) => {
    const page = new DOMParser().parseFromString(JSON.parse(event.data).html, 'text/html');
    localizeTimes(page);
    // Tab, masthead and page show the same state.
    document.title = page.title;
    patchChildren(masthead, page.querySelector('.masthead'));
    patchChildren(main, page.getElementById('main'));
    said.textContent = '';
  });
  events.addEventListener('over', () => {
    events.close();
    location.reload();
  });
  events.addEventListener('error', () => {
    said.textContent = 'The server cannot be reached; the page continues when it is back.';
  });
}

localizeTimes(document);
if (document.body.dataset.events) follow(document.body.dataset.events);
