//! Dumps the projects of a store as JSON Lines, and restores them into either back end.
//!
//! A backup contains the lines that [`json_lines`](speedwell_formats::json_lines) writes for every
//! session. Other lines contain data outside sessions: token digests, triage, the revisions of each
//! branch, deletions. Programs that read sessions ignore these lines, so any such program,
//! including later versions of Speedwell, can read a backup. Derived data (points and detector
//! states) is left out. The last line states the number of projects and sessions, which reveals a
//! file that was cut between two sessions. Start at [`Store::write_backup`]; [`BackupLine`] lists
//! the kinds of lines.

mod rows;
#[cfg(test)]
mod tests;

use super::changes::{StoredChange, insert_change};
use super::database::{Database, sql, sql_params};
use super::lines::{insert_line, read_revision};
use super::points::{PROJECT, read_series_key, upsert_revision, upsert_series};
use super::session_writer::{RUN_BATCH_SIZE, SessionWriter, find_number_by_id};
use super::uploads::{SessionDigest, UploadReceipt, UploadStatus, find_status, insert_upload};
use super::{SessionByCases, Store};
use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use speedwell_formats::json_lines::{ParsedLine, StreamingReader};
use speedwell_model::{RecordedChange, Revision, Run, SeriesKey, Session};
use std::io::{BufRead, Write};

/// Version of the format. It is the only version that can be read: older ones were never released.
const BACKUP_VERSION: u64 = 3;

/// Largest gap between session numbers that a restore reproduces. If a gap is larger, sessions get
/// new numbers.
const MAX_NUMBER_GAP: i64 = 1_000_000;

/// Kinds of lines, other than lines of sessions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "speedwell", rename_all = "kebab-case")]
enum BackupLine {
    /// First line of the file.
    Backup { version: u64, made_unix_ms: i64 },
    /// Start of a project; the first project has no name.
    Project { name: String, is_public: bool },
    /// A row of a table that refers to no other table.
    Row { table: String, values: Vec<rows::ColumnValue> },
    /// The revisions of a branch, oldest first.
    Branch { branch: String, revisions: Vec<Revision> },
    /// Metadata of the session that follows.
    Stored(SessionMetadata),
    /// A change. All changes follow the sessions.
    Change {
        series: SeriesKey,
        branch: String,
        change: RecordedChange,
        confirmed_by: Option<String>,
    },
    /// The last line: the number of projects and sessions in the file.
    End { projects: usize, sessions: usize },
}

/// Data about a session that the store keeps in addition to the session's content.
#[derive(Debug, Default, Serialize, Deserialize)]
struct SessionMetadata {
    number: i64,
    /// The upload through which the session arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upload: Option<UploadRecord>,
    /// Spread between builds of one source: case, metric, number of builds, standard deviation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    layout_spread: Vec<(String, String, i64, f64)>,
    /// Uploads in the outbox, including sent ones, each with its address and state.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pending_uploads: Vec<(String, String)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UploadRecord {
    sha256: String,
    lines: i64,
    bytes: i64,
    token: Option<String>,
    at_unix_ms: i64,
}

/// Result of a restore.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreSummary {
    /// Number of sessions that were restored.
    pub sessions: usize,
    /// Number of sessions that the store already had.
    pub known: usize,
    /// Number of sessions that were deleted in this store earlier. They stay deleted.
    pub deleted: usize,
}

/// Line-by-line reader of a backup.
#[derive(Debug)]
pub struct BackupLines<R> {
    reader: R,
    next: Option<String>,
    /// Number of the next line, counting from 1.
    number: usize,
    /// How many projects and sessions have been read so far.
    counts: [usize; 2],
    has_ended: bool,
}

impl<R: BufRead> BackupLines<R> {
    /// Starts reading.
    ///
    /// # Errors
    /// Fails if the input cannot be read, is not a backup, or was written by a newer or an
    /// unreleased version.
    pub fn new(reader: R) -> Result<BackupLines<R>> {
        let mut lines =
            BackupLines { reader, next: None, number: 0, counts: [0; 2], has_ended: false };
        lines.advance_line()?;
        let first = lines.next.as_deref().unwrap_or_default();
        let Ok(BackupLine::Backup { version, .. }) = serde_json::from_str(first) else {
            bail!(
                "it is not a backup\nhint: 'speedwell import' reads files that only contain sessions"
            )
        };
        ensure!(
            version <= BACKUP_VERSION,
            "it was written by a newer speedwell (format {version}; this one reads up to {BACKUP_VERSION})\n\
             hint: update speedwell"
        );
        ensure!(
            version == BACKUP_VERSION,
            "it was written by an unreleased version of speedwell (format {version})\n\
             hint: write another backup with the last unreleased version (speedwell serve backup FILE)"
        );
        lines.advance_line()?;
        Ok(lines)
    }

    fn advance_line(&mut self) -> Result<()> {
        let mut text = String::new();
        while text.trim().is_empty() {
            text.clear();
            self.number += 1;
            if self.reader.read_line(&mut text)? == 0 {
                break;
            }
        }
        self.next = Some(text).filter(|text| !text.is_empty());
        Ok(())
    }

    /// Returns the next project and whether it is public; `None` at the end.
    ///
    /// # Errors
    /// Fails if the next line does not start a project, or if the end line is missing or its counts
    /// are wrong.
    pub fn next_project(&mut self) -> Result<Option<(String, bool)>> {
        let Some(text) = self.next.as_deref() else {
            ensure!(self.has_ended, "{}", self.incomplete_message("its last line is missing"));
            return Ok(None);
        };
        match serde_json::from_str(text) {
            Ok(BackupLine::Project { name, is_public }) => {
                self.counts[0] += 1;
                self.advance_line()?;
                Ok(Some((name, is_public)))
            }
            Ok(BackupLine::End { projects, sessions }) => {
                let counted =
                    format!("its last line counts {projects} projects and {sessions} sessions");
                ensure!(
                    [projects, sessions] == self.counts,
                    "{}",
                    self.incomplete_message(&counted)
                );
                self.advance_line()?;
                ensure!(
                    self.next.is_none(),
                    "line {}: unexpected line after the end of the backup",
                    self.number
                );
                self.has_ended = true;
                Ok(None)
            }
            _ => bail!("line {}: expected a project", self.number),
        }
    }

    fn incomplete_message(&self, reason: &str) -> String {
        let [projects, sessions] = self.counts;
        format!(
            "the backup is incomplete: {projects} projects and {sessions} sessions were read, but {reason}\n\
             hint: copy the file again, or write another with 'speedwell serve backup'"
        )
    }

    /// Returns the next line unless it starts a project or is the end line.
    fn next_in_project(&self) -> Option<&str> {
        let text = self.next.as_deref()?;
        let is_other = |kind: &str| text.starts_with(&format!("{{\"speedwell\":\"{kind}\""));
        (!["project", "end"].into_iter().any(is_other)).then_some(text)
    }

    /// Returns the next line of the current session; `None` after its last line.
    fn next_in_session(&self) -> Option<&str> {
        let text = self.next.as_deref()?;
        (!text.starts_with("{\"speedwell\":")).then_some(text)
    }
}

/// Writes the first line of a backup.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn write_backup_header(out: &mut dyn Write, made_unix_ms: i64) -> Result<()> {
    let version = BACKUP_VERSION;
    write_line(out, &BackupLine::Backup { version, made_unix_ms })
}

/// Writes the last line of a backup, which states the number of projects and sessions.
///
/// # Errors
/// Fails if `out` cannot be written.
pub fn end_backup(out: &mut dyn Write, (projects, sessions): (usize, usize)) -> Result<()> {
    write_line(out, &BackupLine::End { projects, sessions })
}

fn write_line(out: &mut dyn Write, line: &BackupLine) -> Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    Ok(out.write_all(b"\n")?)
}

impl Store {
    /// Writes a snapshot of this project's tables, without the sessions that are being measured;
    /// returns the number of sessions.
    ///
    /// # Errors
    /// Fails on database errors, or if `out` cannot be written.
    pub fn write_backup(
        &self,
        (name, is_public): (&str, bool),
        out: &mut dyn Write,
    ) -> Result<usize> {
        let name = name.to_owned();
        write_line(out, &BackupLine::Project { name, is_public })?;
        self.read_snapshot(|file| {
            rows::write_rows(file, &mut |table, values| {
                let table = table.to_owned();
                write_line(out, &BackupLine::Row { table, values })
            })?;
            self.write_branch_lines(out)?;
            let sql = sql!("SELECT number, state = 'running' FROM session ORDER BY number");
            let sessions: Vec<(i64, bool)> =
                file.query(sql, sql_params![], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let mut count = 0;
            for (number, is_running) in sessions {
                if is_running && self.recorder_has_ended(number)? == Some(false) {
                    continue;
                }
                write_line(out, &BackupLine::Stored(read_metadata(file, number)?))?;
                // A backup includes no plans, so a killed session could not be resumed from it.
                // Write such a session as ended.
                let session = SessionByCases::new(self, number)?;
                session.into_ended().write_lines(out)?;
                count += 1;
            }
            self.write_changes(out)?;
            Ok(count)
        })
    }

    fn write_branch_lines(&self, out: &mut dyn Write) -> Result<()> {
        for branch in self.list_lines()? {
            let sql = sql!(
                "SELECT id, tree, committed_unix_ms, subject, parents FROM branch_revision
                 JOIN revision ON number = revision
                 WHERE branch_revision.project = $1 AND branch = $2 ORDER BY position"
            );
            let revisions = self.query_rows(sql, sql_params![PROJECT, &branch], |row| {
                let json: Option<&str> = row.get(4)?;
                let parents = json.and_then(|json| serde_json::from_str(json).ok());
                Ok(Revision { parents: parents.unwrap_or_default(), ..read_revision(row)? })
            })?;
            write_line(out, &BackupLine::Branch { branch, revisions })?;
        }
        Ok(())
    }

    fn write_changes(&self, out: &mut dyn Write) -> Result<()> {
        let sql = sql!("SELECT number FROM change ORDER BY number");
        let numbers: Vec<i64> = self.query_rows(sql, sql_params![], |row| row.get(0))?;
        for number in numbers {
            let StoredChange { change, series, branch } = self.find_change(number)?;
            let series = self.find_series(series)?;
            let sql = sql!("SELECT id FROM session WHERE number = $1");
            let params = sql_params![change.confirmed_by];
            let confirmed_by = self.query_first(sql, params, |row| row.get(0))?;
            write_line(out, &BackupLine::Change { series, branch, change, confirmed_by })?;
        }
        Ok(())
    }

    fn find_series(&self, number: i64) -> Result<SeriesKey> {
        let sql =
            sql!("SELECT case_id, variant, metric, unit, better FROM series WHERE number = $1");
        let key = self.query_first(sql, sql_params![number], |row| read_series_key(row, 0))?;
        key.with_context(|| format!("series {number} does not exist"))
    }

    /// Restores the current project of a backup in one transaction. Existing sessions stay as they
    /// are.
    ///
    /// # Errors
    /// Fails if a line is invalid (the error names it), or on database errors.
    pub fn restore_project<R: BufRead>(
        &mut self,
        lines: &mut BackupLines<R>,
    ) -> Result<RestoreSummary> {
        self.transact(|file| {
            let mut target = RestoreTarget {
                file,
                summary: RestoreSummary::default(),
                stored: SessionMetadata::default(),
            };
            lines.read_project(Some(&mut target))?;
            Ok(target.summary)
        })
    }
}

fn read_metadata(file: &Database, number: i64) -> Result<SessionMetadata> {
    let upload = sql!(
        "SELECT digest, lines, bytes, token, at_unix_ms FROM upload
         WHERE session = $1 AND digest IS NOT NULL"
    );
    let upload = file.query_first(upload, sql_params![number], |row| {
        let digest: Vec<u8> = row.get(0)?;
        Ok(UploadRecord {
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
    let pending_uploads =
        sql!("SELECT url, state FROM outbox WHERE session = $1 ORDER BY url COLLATE {{binary}}");
    Ok(SessionMetadata {
        number,
        upload,
        layout_spread: file.query(spread, sql_params![number], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })?,
        pending_uploads: file
            .query(pending_uploads, sql_params![number], |row| Ok((row.get(0)?, row.get(1)?)))?,
    })
}

impl<R: BufRead> BackupLines<R> {
    /// Reads the rest of a backup without restoring it.
    ///
    /// # Errors
    /// Fails like [`Store::restore_project`] if a line is invalid.
    pub fn validate(mut self) -> Result<()> {
        while self.next_project()?.is_some() {
            self.read_project(None)?;
        }
        Ok(())
    }

    /// Reads the lines of the current project and restores them into `target`, if it is given.
    fn read_project(&mut self, mut target: Option<&mut RestoreTarget<'_>>) -> Result<()> {
        while let Some(text) = self.next_in_project() {
            let number = self.number;
            let target = target.as_deref_mut();
            let part = if text.starts_with("{\"speedwell\":\"session\"") {
                self.read_session(target)
            } else {
                self.read_other_line(target)
            };
            part.with_context(|| format!("line {number}"))?;
        }
        Ok(())
    }

    /// Reads a line outside sessions.
    fn read_other_line(&mut self, target: Option<&mut RestoreTarget<'_>>) -> Result<()> {
        let line: BackupLine = serde_json::from_str(self.next_in_project().unwrap_or_default())?;
        self.advance_line()?;
        match (line, target) {
            (BackupLine::Row { table, values }, target) => {
                rows::validate_row(&table, &values)?;
                target.map_or(Ok(()), |target| rows::insert_row(target.file, &table, &values))
            }
            (BackupLine::Stored(stored), target) => {
                let upload = stored.upload.as_ref();
                let digest = upload.map(|upload| SessionDigest::parse(&upload.sha256));
                ensure!(digest != Some(None), "the digest is invalid");
                if let Some(target) = target {
                    target.stored = stored;
                }
                Ok(())
            }
            (BackupLine::Branch { branch, revisions }, Some(target)) => {
                restore_line(target.file, &branch, &revisions)
            }
            (BackupLine::Change { series, branch, change, confirmed_by }, Some(target)) => {
                restore_change(target.file, &series, &branch, change, confirmed_by)
            }
            (BackupLine::Branch { .. } | BackupLine::Change { .. }, None) => Ok(()),
            _ => bail!("unexpected line"),
        }
    }

    /// Reads the session that starts here, one run at a time.
    fn read_session(&mut self, mut target: Option<&mut RestoreTarget<'_>>) -> Result<()> {
        let mut reader = StreamingReader::default();
        let text = self.next_in_project().unwrap_or_default();
        let header = reader.read_line(text, 1).context("line 1")?.header;
        let header = header.context("the header of a session is missing")?;
        let mut inserter = match &mut target {
            Some(target) => target.begin_session(&header)?,
            None => None,
        };
        self.advance_line()?;
        let mut number = 1;
        while let Some(text) = self.next_in_session() {
            number += 1;
            let parsed =
                reader.read_line(text, number).with_context(|| format!("line {number}"))?;
            if let Some(inserter) = &mut inserter {
                inserter.insert_item(parsed)?;
            }
            self.advance_line()?;
        }
        reader.check_complete()?;
        self.counts[1] += 1;
        match (target, inserter) {
            (Some(target), Some(inserter)) => target.end_session(&header, inserter),
            _ => Ok(()),
        }
    }
}

/// Inserts a session piece by piece, so that its runs need not all be in memory.
struct SessionInserter<'a> {
    file: &'a Database,
    writer: SessionWriter,
    waiting: Vec<Run>,
}

impl SessionInserter<'_> {
    /// Inserts the content of one line of an exported session. Collects runs until there are enough
    /// for a batch.
    fn insert_item(&mut self, line: ParsedLine) -> Result<()> {
        self.waiting.extend(line.run);
        if self.waiting.len() >= RUN_BATCH_SIZE {
            self.flush_runs()?;
        }
        if let Some(failure) = &line.failure {
            self.writer.insert_failure(self.file, failure, true)?;
        }
        if let Some(recording) = &line.profile {
            self.writer.upsert_profile(self.file, recording)?;
        }
        Ok(())
    }

    fn flush_runs(&mut self) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        self.writer.insert_runs(self.file, &waiting, true)
    }
}

/// The database into which a project is restored.
struct RestoreTarget<'a> {
    file: &'a Database,
    summary: RestoreSummary,
    /// Metadata of the session that follows.
    stored: SessionMetadata,
}

impl<'a> RestoreTarget<'a> {
    /// Starts to insert a session. Returns `None` if the session is skipped.
    fn begin_session(&mut self, header: &Session) -> Result<Option<SessionInserter<'a>>> {
        let file = self.file;
        if let Some(status) = find_status(file, &header.id)? {
            let is_deleted = status == UploadStatus::Deleted;
            self.summary.deleted += usize::from(is_deleted);
            self.summary.known += usize::from(!is_deleted);
            self.stored = SessionMetadata::default();
            return Ok(None);
        }
        skip_numbers(file, header, self.stored.number)?;
        let writer = SessionWriter::begin_imported(file, header)?;
        Ok(Some(SessionInserter { file, writer, waiting: Vec::new() }))
    }

    fn end_session(&mut self, header: &Session, mut inserter: SessionInserter<'_>) -> Result<()> {
        inserter.flush_runs()?;
        self.summary.sessions += 1;
        let stored = std::mem::take(&mut self.stored);
        restore_metadata(self.file, header, inserter.writer.session, &stored)
    }
}

fn restore_metadata(
    file: &Database,
    session: &Session,
    number: i64,
    stored: &SessionMetadata,
) -> Result<()> {
    if let Some(upload) = &stored.upload {
        let receipt = UploadReceipt {
            digest: SessionDigest::parse(&upload.sha256).context("the digest is invalid")?,
            lines: upload.lines,
            bytes: upload.bytes,
            token: upload.token.as_deref(),
            at_unix_ms: upload.at_unix_ms,
        };
        insert_upload(file, (&session.id, number), &receipt)?;
    }
    for (case, metric, builds, sd) in &stored.layout_spread {
        let insert = sql!(
            "INSERT INTO layout_spread (session, case_id, metric, builds, sd)
                 VALUES ($1, $2, $3, $4, $5)"
        );
        file.execute(insert, sql_params![number, case, metric, *builds, *sd])?;
    }
    for (url, state) in &stored.pending_uploads {
        let sql =
            sql!("INSERT INTO outbox (session, url, added_unix_ms, state) VALUES ($1, $2, $3, $4)");
        file.execute(sql, sql_params![number, url, session.started_unix_ms, state])?;
    }
    Ok(())
}

/// Uses up all numbers before `number`, so that a session keeps the number that users know. Does
/// nothing if there are more than [`MAX_NUMBER_GAP`] such numbers. Inserts and deletes a row with
/// each number: the number is then never assigned again.
fn skip_numbers(file: &Database, session: &Session, number: i64) -> Result<()> {
    let sql = sql!("SELECT coalesce(max(number), 0) FROM session");
    let mut last: i64 = file.query_value(sql, sql_params![])?;
    if number - last > MAX_NUMBER_GAP {
        return Ok(());
    }
    while last + 1 < number {
        let insert = sql!(
            "INSERT INTO session (id, started_unix_ms, state, command, design, variants,
                                  environment)
             VALUES ($1, 0, 'imported', '[]', '{}', '[]', '{}') RETURNING number"
        );
        last = file.query_value(insert, sql_params![&session.id])?;
        file.execute(sql!("DELETE FROM session WHERE number = $1"), sql_params![last])?;
    }
    Ok(())
}

/// Restores the revisions of a branch. Revisions that the store already has for this branch stay as
/// they are, because more may have been added since the backup.
fn restore_line(file: &Database, branch: &str, revisions: &[Revision]) -> Result<()> {
    let sql =
        sql!("SELECT revision FROM branch_revision WHERE project = $1 AND branch = $2 LIMIT 1");
    let first = file.query_first(sql, sql_params![PROJECT, branch], |row| row.get::<i64>(0))?;
    if first.is_some() { Ok(()) } else { insert_line(file, branch, 0, revisions) }
}

/// Restores a change. An existing change stays as it is, because its triage may be newer.
fn restore_change(
    file: &Database,
    series: &SeriesKey,
    branch: &str,
    mut change: RecordedChange,
    confirmed_by: Option<String>,
) -> Result<()> {
    for id in [&change.before, &change.after] {
        let revision = Revision { id: id.clone(), ..Revision::default() };
        upsert_revision(file, &revision)?;
    }
    let series = upsert_series(file, series, usize::MAX >> 1)?;
    let sql = sql!(
        "SELECT change.number FROM change JOIN revision ON revision.number = after
         WHERE series = $1 AND branch = $2 AND revision.id = $3"
    );
    let existing =
        file.query_first(sql, sql_params![series, branch, &change.after], |row| row.get::<i64>(0))?;
    if existing.is_some() {
        return Ok(());
    }
    change.confirmed_by = match confirmed_by {
        Some(id) => find_number_by_id(file, &id)?,
        None => None,
    };
    let old_number = std::mem::take(&mut change.number);
    loop {
        let number = insert_change(file, series, branch, &change)?;
        if number >= old_number || old_number - number > MAX_NUMBER_GAP {
            return Ok(());
        }
        file.execute(sql!("DELETE FROM change WHERE number = $1"), sql_params![number])?;
    }
}
