
// Lists: the age of an entry stays right while its page is open.

setInterval(() => {
  for (const time of document.querySelectorAll('td time')) {
    const cell = time.closest('td');
    // Dates do not age.
    if (time.textContent.endsWith(' ago') && cell.dataset.v) time.textContent = ageOf(Number(cell.dataset.v));
  }
}, 60000);
