
// The top of a page about sessions: copies the command that made a session, and shows how long ago it started.

/** The largest unit of a duration in milliseconds, and the duration in this unit. */
function inWords(elapsed) {
  const units = [['day', 86_400_000], ['hour', 3_600_000], ['minute', 60_000]];
  const [unit, length] = units.find(([, each]) => elapsed >= each) ?? ['second', 1000];
  return [unit, Math.round(elapsed / length)];
}

/** Replaces the times of a served page by the time since then. A file may be read much later. */
function showElapsedTimes() {
  const words = new Intl.RelativeTimeFormat('en', { numeric: 'always' });
  for (const time of document.querySelectorAll('.session-line time')) {
    const elapsed = Date.now() - Date.parse(time.dateTime);
    // The clock of this machine may be behind the other one.
    if (!(elapsed >= 0)) continue;
    const [unit, number] = inWords(elapsed);
    time.title = time.textContent;
    time.textContent = words.format(-number, unit);
  }
}

if (document.body.dataset.report) showElapsedTimes();
for (const details of document.querySelectorAll('.made-by')) {
  details.before(copyButton('Copy command', () => details.querySelector('code').textContent));
}
