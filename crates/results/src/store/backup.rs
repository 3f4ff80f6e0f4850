//! Dumps all tables as JSON Lines, and restores them into either back end.
//!
//! A backup consists of what [`json_lines`] writes for every session, interleaved with lines for
//! data outside sessions: token digests, triage, lines of revisions, deletions. So any program that
//! reads sessions can read a backup, and so can later versions. Derived data, points and detector
//! states, is left out. The last line counts projects and sessions, so that a file that was cut
//! between two sessions is detected. Start at [`Store::back_up`]; the kinds of lines are [`Line`].

mod rows;

use super::changes::keep_change;
use super::database::{Database, Purpose, given, sql};
use super::points::{PROJECT, keep_revision, keep_series};
use super::read::{better_of, state_of};
use super::sessions::{Entering, number_of_id};
use super::uploads::Digest;
use super::{SessionByCases, Store};
use crate::formats::json_lines::{InTurn, Said};
use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use speedwell_model::{Change, Metric, Revision, SeriesKey, Session, State};
use std::io::{BufRead, Write};

/// Version written, and the highest version that can be read.
const VERSION: u64 = 2;

/// The first version that ends with [`Line::End`].
const FIRST_WITH_END: u64 = 2;

/// Largest gap between session numbers that a restore reproduces; beyond it, sessions get new
/// numbers.
const MOST_SKIPPED: i64 = 1_000_000;

/// Kinds of lines besides those of sessions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "speedwell", rename_all = "kebab-case")]
enum Line {
    /// First line of the file.
    Backup { version: u64, made_unix_ms: i64 },
    /// Start of a project; the first project has no name.
    Project { name: String, is_public: bool },
    /// A row of a table that refers to no other table.
    Row {
        table: String,
        values: Vec<rows::Value>,
    },
    /// A line of revisions, oldest first.
    #[serde(rename = "line")]
    Branch {
        branch: String,
        revisions: Vec<Revision>,
    },
    /// Metadata of the session that follows.
    Stored(Stored),
    /// A change; follows the sessions.
    Change {
        series: SeriesKey,
        branch: String,
        change: Change,
        confirmed_by: Option<String>,
    },
    /// The last of all: how many projects and sessions the file holds.
    End { projects: usize, sessions: usize },
}

/// What the store knows about a session beyond its content.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    number: i64,
    /// The upload that brought the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pushed: Option<Pushed>,
    /// Spread between builds of one source: case, metric, builds, standard deviation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    layout_spread: Vec<(String, String, i64, f64)>,
    /// Pending uploads: address and state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    owed: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Pushed {
    sha256: String,
    lines: i64,
    bytes: i64,
    token: Option<String>,
    at_unix_ms: i64,
}

/// Result of a restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restored {
    /// Sessions restored.
    pub sessions: usize,
    /// Sessions already present.
    pub known: usize,
    /// Sessions deleted in this store, which stay deleted.
    pub deleted: usize,
}

/// Line-by-line reader of a backup.
pub struct BackupLines<R> {
    reader: R,
    next: Option<String>,
    /// Number of the next line, from 1.
    number: usize,
    version: u64,
    /// Projects and sessions read so far.
    found: [usize; 2],
    has_ended: bool,
}

impl<R: BufRead> BackupLines<R> {
    /// Starts reading.
    ///
    /// # Errors
    /// The input cannot be read, is not a backup, or was written by a newer version.
    pub fn new(reader: R) -> anyhow::Result<BackupLines<R>> {
        let mut lines = BackupLines {
            reader,
            next: None,
            number: 0,
            version: 0,
            found: [0; 2],
            has_ended: false,
        };
        lines.advance()?;
        let first = lines.next.as_deref().unwrap_or_default();
        let Ok(Line::Backup { version, .. }) = serde_json::from_str(first) else {
            bail!("it is no backup\nhint: speedwell import reads files with sessions alone")
        };
        ensure!(
            version <= VERSION,
            "it was written by a newer speedwell (format {version}, this one knows {VERSION})\n\
             hint: update speedwell"
        );
        lines.version = version;
        lines.advance()?;
        Ok(lines)
    }

    /// Whether the file says how much it holds. Those of older versions do not, and one that was cut between two sessions
    /// looks whole.
    pub fn has_end(&self) -> bool {
        self.version >= FIRST_WITH_END
    }

    fn advance(&mut self) -> anyhow::Result<()> {
        let mut text = String::new();
        loop {
            text.clear();
            self.number += 1;
            if self.reader.read_line(&mut text)? == 0 {
                self.next = None;
                return Ok(());
            }
            if !text.trim().is_empty() {
                self.next = Some(text);
                return Ok(());
            }
        }
    }

    /// Returns the next project and whether it is public; `None` at the end.
    ///
    /// # Errors
    /// The next line does not start a project, or the end line is missing.
    pub fn project(&mut self) -> anyhow::Result<Option<(String, bool)>> {
        let Some(text) = self.next.as_deref() else {
            let is_whole = self.has_ended || !self.has_end();
            ensure!(is_whole, "{}", self.cut("its last line is missing"));
            return Ok(None);
        };
        match serde_json::from_str(text) {
            Ok(Line::Project { name, is_public }) => {
                self.found[0] += 1;
                self.advance()?;
                Ok(Some((name, is_public)))
            }
            Ok(Line::End { projects, sessions }) => {
                let counted = format!("its last line counts {projects} and {sessions}");
                ensure!([projects, sessions] == self.found, "{}", self.cut(&counted));
                self.advance()?;
                ensure!(
                    self.next.is_none(),
                    "line {}: the backup ends before this line",
                    self.number
                );
                self.has_ended = true;
                Ok(None)
            }
            _ => bail!("line {}: a project was expected", self.number),
        }
    }

    fn cut(&self, why: &str) -> String {
        let [projects, sessions] = self.found;
        format!(
            "the backup is incomplete: {projects} projects and {sessions} sessions were read, and {why}\n\
             hint: copy the file again, or write another with 'speedwell serve backup'"
        )
    }

    /// Returns the next line unless it starts a project or is the end line.
    fn of_project(&self) -> Option<&str> {
        let text = self.next.as_deref()?;
        let is_other = |kind: &str| text.starts_with(&format!("{{\"speedwell\":\"{kind}\""));
        (!["project", "end"].into_iter().any(is_other)).then_some(text)
    }

    /// Returns the next line of the current session.
    fn of_session(&self) -> Option<&str> {
        let text = self.next.as_deref()?;
        (!text.starts_with("{\"speedwell\":")).then_some(text)
    }
}

impl<R> std::fmt::Debug for BackupLines<R> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "BackupLines(at {})", self.number)
    }
}

/// Writes the first line of a backup.
///
/// # Errors
/// `out` fails.
pub fn begin_backup(out: &mut dyn Write, made_unix_ms: i64) -> anyhow::Result<()> {
    let version = VERSION;
    put(
        out,
        &Line::Backup {
            version,
            made_unix_ms,
        },
    )
}

/// Writes the last line of a backup, which says how much it holds.
///
/// # Errors
/// `out` fails.
pub fn end_backup(out: &mut dyn Write, (projects, sessions): (usize, usize)) -> anyhow::Result<()> {
    put(out, &Line::End { projects, sessions })
}

fn put(out: &mut dyn Write, line: &Line) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    Ok(out.write_all(b"\n")?)
}

impl Store {
    /// Writes a snapshot of these tables as those of a project; returns the number of sessions.
    ///
    /// # Errors
    /// The database fails, or `out` does.
    pub fn back_up(
        &self,
        (name, is_public): (&str, bool),
        out: &mut dyn Write,
    ) -> anyhow::Result<usize> {
        let name = name.to_owned();
        put(out, &Line::Project { name, is_public })?;
        let written = self.database.transaction(Purpose::Reading, |file| {
            rows::write(file, &mut |table, values| {
                let table = table.to_owned();
                put(out, &Line::Row { table, values })
            })?;
            self.back_up_lines(out)?;
            let sql = sql!("SELECT number, state FROM session ORDER BY number");
            let all: Vec<(i64, String)> =
                file.query(sql, given![], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut written = 0;
            for (number, state) in all {
                if state_of(&state)? == State::Running && self.is_recorded_here(number)? {
                    continue;
                }
                put(out, &Line::Stored(stored(file, number)?))?;
                // A killed session cannot be resumed from a backup, which does not include its
                // plan.
                let session = SessionByCases::new(self, number)?;
                session.ended().write_lines(out)?;
                written += 1;
            }
            self.back_up_changes(out)?;
            Ok(written)
        });
        written.map_err(|error| self.in_words(error))
    }

    fn back_up_lines(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        for branch in self.lines()? {
            let sql = sql!(
                "SELECT id, tree, parents, committed_unix_ms, subject FROM line
                 JOIN revision ON number = revision
                 WHERE line.project = $1 AND branch = $2 ORDER BY position"
            );
            let revisions = self.rows(sql, given![PROJECT, &branch], |row| {
                let parents = row.text_or_null(2)?;
                let parents = parents.and_then(|parents| serde_json::from_str(parents).ok());
                Ok(Revision {
                    id: row.get(0)?,
                    tree: row.get(1)?,
                    parents: parents.unwrap_or_default(),
                    committed_unix_ms: row.get(3)?,
                    subject: row.get(4)?,
                })
            })?;
            put(out, &Line::Branch { branch, revisions })?;
        }
        Ok(())
    }

    fn back_up_changes(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let numbers: Vec<i64> = self.rows(
            sql!("SELECT number FROM change ORDER BY number"),
            given![],
            |row| row.get(0),
        )?;
        for number in numbers {
            let found = self.change_numbered(number)?;
            let series = self.series_numbered(found.series)?;
            let sql = sql!("SELECT id FROM session WHERE number = $1");
            let confirmed_by = found.change.confirmed_by;
            let confirmed_by = self.first_row(sql, given![confirmed_by], |row| row.get(0))?;
            put(
                out,
                &Line::Change {
                    series,
                    branch: found.branch,
                    change: found.change,
                    confirmed_by,
                },
            )?;
        }
        Ok(())
    }

    fn series_numbered(&self, number: i64) -> anyhow::Result<SeriesKey> {
        let sql =
            sql!("SELECT case_id, variant, metric, unit, better FROM series WHERE number = $1");
        let read = self.first_row(sql, given![number], |row| {
            let texts = [
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                row.get(3)?,
                row.get(4)?,
            ];
            Ok(texts)
        })?;
        let [case, variant, name, unit, better]: [String; 5] =
            read.with_context(|| format!("there is no series {number}"))?;
        let better = better_of(&better, &name)?;
        Ok(SeriesKey {
            case,
            variant,
            metric: Metric { name, unit, better },
        })
    }

    /// Restores the current project of a backup in one transaction. Existing sessions stay as they
    /// are.
    ///
    /// # Errors
    /// A line is invalid (the error names it), or the database fails.
    pub fn restore<R: BufRead>(&mut self, lines: &mut BackupLines<R>) -> anyhow::Result<Restored> {
        self.change(|file| {
            let mut restoring = Restoring::default();
            lines.parts(&mut |part| restoring.take(file, part))?;
            Ok(restoring.done)
        })
    }
}

fn stored(file: &Database, number: i64) -> anyhow::Result<Stored> {
    let pushed = sql!(
        "SELECT digest, lines, bytes, token, at_unix_ms FROM upload
         WHERE session = $1 AND digest IS NOT NULL"
    );
    let pushed = file.first(pushed, given![number], |row| {
        let digest: Vec<u8> = row.get(0)?;
        Ok(Pushed {
            sha256: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
            lines: row.get(1)?,
            bytes: row.get(2)?,
            token: row.get(3)?,
            at_unix_ms: row.get(4)?,
        })
    })?;
    let spread = sql!(
        "SELECT case_id, metric, builds, sd FROM layout_spread WHERE session = $1
         ORDER BY case_id COLLATE {{binary}}, metric COLLATE {{binary}}"
    );
    let owed =
        sql!("SELECT url, state FROM outbox WHERE session = $1 ORDER BY url COLLATE {{binary}}");
    Ok(Stored {
        number,
        pushed,
        layout_spread: file.query(spread, given![number], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?,
        owed: file.query(owed, given![number], |row| Ok((row.get(0)?, row.get(1)?)))?,
    })
}

/// Item of a project's lines.
enum Part {
    /// A line outside sessions.
    Beside(Box<Line>),
    /// Start of a session, with its header.
    Begins(Box<Session>),
    /// A line of the current session.
    Says(Box<Said>),
    /// End of the session.
    Ends,
}

impl<R: BufRead> BackupLines<R> {
    /// Reads the rest of a backup without restoring it.
    ///
    /// # Errors
    /// As for [`Store::restore`], as far as the lines are at fault.
    pub fn check(mut self) -> anyhow::Result<()> {
        while self.project()?.is_some() {
            self.parts(&mut |_| Ok(()))?;
        }
        Ok(())
    }

    /// Reads the lines of the current project and passes them to `take`.
    fn parts(&mut self, take: &mut dyn FnMut(Part) -> anyhow::Result<()>) -> anyhow::Result<()> {
        while let Some(text) = self.of_project() {
            let number = self.number;
            let part = if text.starts_with("{\"speedwell\":\"session\"") {
                self.session(take)
            } else {
                self.beside()
                    .and_then(|line| take(Part::Beside(Box::new(line))))
            };
            part.with_context(|| format!("line {number}"))?;
        }
        Ok(())
    }

    /// Reads a line outside sessions.
    fn beside(&mut self) -> anyhow::Result<Line> {
        let line: Line = serde_json::from_str(self.of_project().unwrap_or_default())?;
        match &line {
            Line::Row { table, values } => rows::check(table, values)?,
            Line::Stored(stored) => stored.check()?,
            Line::Branch { .. } | Line::Change { .. } => {}
            Line::Backup { .. } | Line::Project { .. } | Line::End { .. } => {
                bail!("it does not belong here")
            }
        }
        self.advance()?;
        Ok(line)
    }

    /// Reads the session that starts here, one run at a time.
    fn session(&mut self, take: &mut dyn FnMut(Part) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let mut turn = InTurn::default();
        let text = self.of_project().unwrap_or_default();
        let header = turn.line(text, 1).context("line 1")?.header;
        take(Part::Begins(header.context("there is no session")?))?;
        self.advance()?;
        let mut at = 1;
        while let Some(text) = self.of_session() {
            at += 1;
            let said = turn.line(text, at).with_context(|| format!("line {at}"))?;
            take(Part::Says(Box::new(said)))?;
            self.advance()?;
        }
        turn.end()?;
        self.found[1] += 1;
        take(Part::Ends)
    }
}

impl Stored {
    fn check(&self) -> anyhow::Result<()> {
        let digest = self
            .pushed
            .as_ref()
            .map(|pushed| Digest::parse(&pushed.sha256));
        ensure!(digest != Some(None), "the digest is none");
        Ok(())
    }
}

#[derive(Default)]
struct Restoring {
    done: Restored,
    /// Metadata of the session that follows.
    stored: Stored,
    /// The session being restored; `None` also while one is skipped.
    entering: Option<(Box<Session>, Entering)>,
}

impl Restoring {
    fn take(&mut self, file: &Database, part: Part) -> anyhow::Result<()> {
        match part {
            Part::Beside(line) => self.beside(file, *line),
            Part::Begins(header) => self.begin(file, header),
            Part::Says(said) => match &mut self.entering {
                Some((_, entering)) => entering.take(file, *said),
                None => Ok(()),
            },
            Part::Ends => {
                let stored = std::mem::take(&mut self.stored);
                let Some((header, entering)) = self.entering.take() else {
                    return Ok(());
                };
                let number = entering.end(file)?;
                self.done.sessions += 1;
                remember(file, &header, number, &stored)
            }
        }
    }

    fn beside(&mut self, file: &Database, line: Line) -> anyhow::Result<()> {
        match line {
            Line::Row { table, values } => rows::enter(file, &table, &values)?,
            Line::Branch { branch, revisions } => restore_line(file, &branch, &revisions)?,
            Line::Stored(stored) => self.stored = stored,
            Line::Change {
                series,
                branch,
                change,
                confirmed_by,
            } => restore_change(file, &series, &branch, change, confirmed_by)?,
            // Not among the lines of a project.
            Line::Backup { .. } | Line::Project { .. } | Line::End { .. } => {}
        }
        Ok(())
    }

    fn begin(&mut self, file: &Database, header: Box<Session>) -> anyhow::Result<()> {
        let deleted = sql!("SELECT at_unix_ms FROM deleted WHERE id = $1");
        let is_known = number_of_id(file, &header.id)?.is_some();
        let is_deleted = file.first(deleted, given![&header.id], |row| row.get::<i64>(0))?;
        if is_known || is_deleted.is_some() {
            self.done.known += usize::from(is_known);
            self.done.deleted += usize::from(!is_known);
            return Ok(());
        }
        skip_numbers(file, &header, self.stored.number)?;
        let entering = Entering::begin(file, &header)?;
        self.entering = Some((header, entering));
        Ok(())
    }
}

/// Inserts the metadata that the other store held about a session.
fn remember(
    file: &Database,
    session: &Session,
    number: i64,
    stored: &Stored,
) -> anyhow::Result<()> {
    if let Some(pushed) = &stored.pushed {
        let digest = Digest::parse(&pushed.sha256).context("the digest is none")?;
        file.execute(
            sql!(
                "INSERT INTO upload (id, session, lines, bytes, digest, token, begun_unix_ms,
                         at_unix_ms) VALUES ($1, $2, $3, $4, $5, $6, $7, $7)"
            ),
            given![
                &session.id,
                number,
                pushed.lines,
                pushed.bytes,
                &digest.bytes().to_vec(),
                &pushed.token,
                pushed.at_unix_ms,
            ],
        )?;
    }
    for (case, metric, builds, sd) in &stored.layout_spread {
        let sql = sql!(
            "INSERT INTO layout_spread (session, case_id, metric, builds, sd)
                 VALUES ($1, $2, $3, $4, $5)"
        );
        file.execute(sql, given![number, case, metric, *builds, *sd])?;
    }
    for (url, state) in &stored.owed {
        let sql =
            sql!("INSERT INTO outbox (session, url, added_unix_ms, state) VALUES ($1, $2, $3, $4)");
        file.execute(sql, given![number, url, session.started_unix_ms, state])?;
    }
    Ok(())
}

/// Burns the numbers before `wanted`, so that a session keeps the number users know. A number is
/// never assigned twice.
fn skip_numbers(file: &Database, session: &Session, wanted: i64) -> anyhow::Result<()> {
    let newest = sql!("SELECT coalesce(max(number), 0) FROM session");
    let newest: i64 = file.one(newest, given![])?;
    if wanted - newest > MOST_SKIPPED {
        return Ok(());
    }
    let mut given = newest;
    while given + 1 < wanted {
        given = file.one(
            sql!(
                "INSERT INTO session (id, started_unix_ms, state, command, design, variants,
                                      environment)
                 VALUES ($1, 0, 'imported', '[]', '{}', '[]', '{}') RETURNING number"
            ),
            given![&session.id],
        )?;
        file.execute(sql!("DELETE FROM session WHERE number = $1"), given![given])?;
    }
    Ok(())
}

/// Restores a line, unless one of that name exists, which may have grown since.
fn restore_line(file: &Database, branch: &str, revisions: &[Revision]) -> anyhow::Result<()> {
    let known = sql!("SELECT revision FROM line WHERE project = $1 AND branch = $2 LIMIT 1");
    let known = file.first(known, given![PROJECT, branch], |row| row.get::<i64>(0))?;
    if known.is_some() {
        return Ok(());
    }
    for (position, revision) in (0_i64..).zip(revisions) {
        let number = keep_revision(file, revision)?;
        let sql =
            sql!("INSERT INTO line (project, branch, position, revision) VALUES ($1, $2, $3, $4)");
        file.execute(sql, given![PROJECT, branch, position, number])?;
    }
    Ok(())
}

/// Restores a change, unless it exists, possibly with a newer triage.
fn restore_change(
    file: &Database,
    series: &SeriesKey,
    branch: &str,
    mut change: Change,
    confirmed_by: Option<String>,
) -> anyhow::Result<()> {
    for id in [&change.before, &change.after] {
        let revision = Revision {
            id: id.clone(),
            ..Revision::default()
        };
        keep_revision(file, &revision)?;
    }
    let series = keep_series(file, series, usize::MAX >> 1)?;
    let known = sql!(
        "SELECT change.number FROM change JOIN revision ON revision.number = after
         WHERE series = $1 AND branch = $2 AND revision.id = $3"
    );
    let known = file.first(known, given![series, branch, &change.after], |row| {
        row.get::<i64>(0)
    })?;
    if known.is_some() {
        return Ok(());
    }
    change.confirmed_by = match confirmed_by {
        Some(id) => number_of_id(file, &id)?,
        None => None,
    };
    let wanted = std::mem::take(&mut change.number);
    loop {
        let given = keep_change(file, series, branch, &change)?;
        if given >= wanted || wanted - given > MOST_SKIPPED {
            return Ok(());
        }
        file.execute(sql!("DELETE FROM change WHERE number = $1"), given![given])?;
    }
}
