
// The top of a page about sessions: copies the command that made a session, and shows how long ago it started.

/** Replaces the times of a served page by the time since then. A file may be read much later. */
function showElapsedTimes() {
  for (const time of document.querySelectorAll('.session-line time')) {
    const started = Date.parse(time.dateTime);
    // The clock of this machine may be behind the other one.
    if (!(started <= Date.now())) continue;
    time.title = time.textContent;
    time.textContent = ageOf(started);
  }
}

if (document.body.dataset.report) showElapsedTimes();
for (const details of document.querySelectorAll('.made-by')) {
  details.before(copyButton('Copy command', () => details.querySelector('code').textContent));
}
