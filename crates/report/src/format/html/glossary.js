
/** Shows the definition of a term beside its question mark, on hover, focus and touch. */
function addDefinitions() {
  const tip = make('p', { class: 'definition', id: 'definition', role: 'tooltip' });
  tip.hidden = true;
  document.body.append(tip);
  const termOf = (event) => event.target.closest?.('a.term');
  const show = (term) => {
    const definition = document.getElementById(term.hash.slice(1));
    if (!definition) return;
    tip.textContent = definition.textContent;
    tip.hidden = false;
    term.setAttribute('aria-describedby', tip.id);
    const { left, bottom } = term.getBoundingClientRect();
    tip.style.top = `${bottom + scrollY + 4}px`;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 16)) + scrollX}px`;
  };
  const hide = () => { tip.hidden = true; };
  const hideUnfocused = () => {
    if (!document.activeElement?.matches('a.term')) hide();
  };
  document.addEventListener('mouseover', (event) => (termOf(event) ? show(termOf(event)) : hideUnfocused()));
  document.addEventListener('focusin', (event) => (termOf(event) ? show(termOf(event)) : hide()));
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') hide();
  });
  document.addEventListener('click', (event) => {
    const term = termOf(event);
    if (!term) return hide();
    // Without the script, the link leads to the definition.
    event.preventDefault();
    show(term);
  });
}

addDefinitions();
