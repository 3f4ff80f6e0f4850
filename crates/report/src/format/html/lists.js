
// Lists: the age of an entry stays right while its page is open.

/** The age of a moment in the words of the server. */
function ageOf(unixMs) {
  const minutes = Math.floor((Date.now() - unixMs) / 60000);
  if (minutes < 1) return 'less than a minute ago';
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ago`;
  return `${Math.floor(minutes / 1440)} d ago`;
}

setInterval(() => {
  for (const time of document.querySelectorAll('td time')) {
    const cell = time.closest('td');
    // Dates do not age.
    if (time.textContent.endsWith(' ago') && cell.dataset.v) time.textContent = ageOf(Number(cell.dataset.v));
  }
}, 60000);
