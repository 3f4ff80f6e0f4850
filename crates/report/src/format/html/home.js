
// The list of series of a project: filters it while the reader types. Groups with a match open. Without scripts, the
// form sends the same filter to the server.

class TypedFilter {
  constructor(box) {
    this.box = box;
    this.rows = [...document.querySelectorAll('[id^="series-"] tr.row')].map((row) => ({
      row,
      text: row.firstChild.textContent.toLowerCase(),
    }));
    this.groups = [...document.querySelectorAll('#main details')]
      .filter((group) => group.querySelector('[id^="series-"]'))
      .map((group) => ({ group, isOpen: group.open }));
    this.count = make('output', { class: 'count' });
    box.form.append(this.count);
    box.addEventListener('input', () => this.typed());
    // Sorting shows all rows of its table.
    document.addEventListener('click', (event) => {
      if (event.target.closest?.('thead button')) setTimeout(() => this.apply());
    });
    document.addEventListener('change', (event) => {
      if (event.target.closest?.('.sort-by')) setTimeout(() => this.apply());
    });
    if (box.value !== box.defaultValue) this.apply();
  }

  typed() {
    // The page contains only what matched the filter of its address.
    if (this.box.value === '' && this.box.defaultValue !== '') this.box.form.requestSubmit();
    else this.apply();
  }

  apply() {
    const words = wordsOf(this.box.value);
    let shown = 0;
    for (const { row, text } of this.rows) {
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) shown += 1;
    }
    for (const { group, isOpen } of this.groups) {
      const hasMatch = group.querySelector('tr.row:not([hidden])') !== null;
      group.hidden = !hasMatch;
      group.open = words.length > 0 ? hasMatch : isOpen;
    }
    this.count.textContent = words.length > 0 ? `${shown} of ${this.rows.length}` : '';
  }
}

const typedFilter = document.querySelector('.filters [name="filter"]');
if (typedFilter && document.querySelector('[id^="series-"]')) new TypedFilter(typedFilter);
