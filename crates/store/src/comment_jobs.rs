//! Stores the settings for comments on a project's pull requests, the queue of pending comments,
//! and the posted comments.
//!
//! A comment is queued in the same transaction that inserts its session, so that no comment is lost
//! when the server is killed. If several servers share a store, each claims a comment before it
//! posts the comment. The text of a comment is written elsewhere. Start at [`Store::set_forge`].

use super::Store;
use super::database::{Database, Error, SqlRow, sql, sql_params};
use super::read::parse_json;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use speedwell_model::{CodeOrigin, name_variants};

/// Settings for comments on a project's pull requests. The token is in a file, never in a table of
/// the database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgeSetting {
    /// Kind, server, owner and name, such as `gitea:https://forge.example/owner/name`.
    pub repository: String,
    /// The file that holds the token.
    pub token_file: String,
    /// Name of the comment and of its status. It distinguishes several comments on one pull
    /// request.
    pub check: String,
    /// Options of the comparison with their values, as on the command line.
    pub options: Vec<(String, String)>,
}

/// Delivery state of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommentState {
    /// Not posted yet.
    Waiting,
    /// Rejected by the forge permanently.
    Refused,
    /// Posted.
    Posted,
}

name_variants!(CommentState: Waiting = "waiting", Refused = "refused", Posted = "posted");

/// A comment to post on a pull request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommentJob {
    /// Number of the pull request.
    pub pull: String,
    /// Head revision of the pull request.
    pub revision: String,
    /// Newest session of `revision`; `None` while the session is being uploaded.
    pub session: Option<i64>,
    /// Number of attempts so far.
    pub attempts: u32,
    /// Time of the next attempt, in milliseconds since the Unix epoch.
    pub next_unix_ms: i64,
    /// Delivery state.
    pub state: CommentState,
    /// Why the last attempt failed.
    pub reason: Option<String>,
}

/// Name of the row in the table `setting`.
const FORGE: &str = "forge";

/// Duration of a server's claim on a comment, in milliseconds.
const CLAIM_MS: i64 = 120_000;

impl Store {
    /// Returns the settings for comments on pull requests; `None` if the server posts no comments.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn forge_setting(&self) -> Result<Option<ForgeSetting>> {
        let found = self.explain(read_forge(&self.database))?;
        found.map(|text| parse_json(&text)).transpose()
    }

    /// Stores the settings for comments on pull requests; after `None`, the server posts no
    /// comments. Comments that the forge rejected earlier are tried again.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn set_forge(&mut self, setting: Option<&ForgeSetting>) -> Result<()> {
        let text = setting.map(serde_json::to_string).transpose()?;
        self.transact(|file| {
            file.execute(sql!("DELETE FROM setting WHERE name = $1"), sql_params![FORGE])?;
            if let Some(text) = &text {
                let insert = sql!("INSERT INTO setting (name, value) VALUES ($1, $2)");
                file.execute(insert, sql_params![FORGE, text])?;
            }
            let retry_sql = sql!(
                "UPDATE comment_job SET state = 'waiting', attempts = 0, next_unix_ms = 0
                 WHERE state = 'refused'"
            );
            Ok(file.execute(retry_sql, sql_params![])?)
        })
    }

    /// Records that a session of a pull request is being uploaded, if the server posts comments.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn queue_pending_comment(&mut self, origin: &CodeOrigin, now_unix_ms: i64) -> Result<()> {
        self.transact(|file| Ok(queue_comment(file, Some(origin), None, now_unix_ms)?))
    }

    /// Returns the comment job of a pull request, posted or not.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn comment_job(&self, pull: &str) -> Result<Option<CommentJob>> {
        let sql = sql!(
            "SELECT pull, revision, session, attempts, next_unix_ms, state, reason
             FROM comment_job WHERE pull = $1"
        );
        self.query_first(sql, sql_params![pull], read_job)
    }

    /// Returns whether a comment is due.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn has_due_comments(&self, now_unix_ms: i64) -> Result<bool> {
        Ok(self.explain(next_due_job(&self.database, now_unix_ms))?.is_some())
    }

    /// Claims the next comment that is due. The claim expires after two minutes.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn claim_comment(&mut self, now_unix_ms: i64) -> Result<Option<CommentJob>> {
        self.transact(|file| {
            let Some(job) = next_due_job(file, now_unix_ms)? else { return Ok(None) };
            let update = sql!("UPDATE comment_job SET claimed_until_unix_ms = $1 WHERE pull = $2");
            file.execute(update, sql_params![now_unix_ms + CLAIM_MS, &job.pull])?;
            Ok(Some(job))
        })
    }

    /// Records the outcome of an attempt and releases the claim. If a newer job has replaced this
    /// job in the meantime, the newer job stays queued.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn finish_comment(&mut self, job: &CommentJob) -> Result<()> {
        self.transact(|file| {
            file.execute(
                sql!(
                    "UPDATE comment_job SET state = $1, attempts = $2, next_unix_ms = $3, reason = $4
                     WHERE pull = $5 AND revision = $6
                     AND session IS NOT DISTINCT FROM CAST($7 AS BIGINT)"
                ),
                sql_params![
                    job.state.name(),
                    job.attempts,
                    job.next_unix_ms,
                    &job.reason,
                    &job.pull,
                    &job.revision,
                    job.session,
                ],
            )?;
            let update = sql!("UPDATE comment_job SET claimed_until_unix_ms = 0 WHERE pull = $1");
            Ok(file.execute(update, sql_params![&job.pull])?)
        })
    }
}

/// Queues a comment that reports a session. Does nothing if the session belongs to no pull request,
/// or if the server posts no comments. The comment replaces the earlier job of the pull request.
/// `session` is `None` while the session is being uploaded; in this case, the comment does not
/// replace a job for the same revision.
pub(super) fn queue_comment(
    file: &Database,
    origin: Option<&CodeOrigin>,
    session: Option<i64>,
    now_unix_ms: i64,
) -> Result<(), Error> {
    if let Some(origin) = origin
        && let Some(pull) = origin.pull.as_ref().filter(|pull| !pull.is_empty())
        && read_forge(file)?.is_some()
    {
        let insert = sql!(
            "INSERT INTO comment_job (pull, revision, session, added_unix_ms)
             VALUES ($1, $2, $3, $4) ON CONFLICT (pull) DO UPDATE SET
                 revision = excluded.revision, session = excluded.session,
                 added_unix_ms = excluded.added_unix_ms, attempts = 0, next_unix_ms = 0,
                 state = 'waiting', reason = NULL
             WHERE excluded.session IS NOT NULL OR comment_job.revision <> excluded.revision"
        );
        file.execute(insert, sql_params![pull, &origin.revision, session, now_unix_ms])?;
    }
    Ok(())
}

fn read_forge(file: &Database) -> Result<Option<String>, Error> {
    let sql = sql!("SELECT value FROM setting WHERE name = $1");
    file.query_first(sql, sql_params![FORGE], |row| row.get(0))
}

/// Returns the due job with the fewest attempts; if there are several, the oldest.
fn next_due_job(file: &Database, now_unix_ms: i64) -> Result<Option<CommentJob>, Error> {
    // A claim that ends too far in the future was made before the clock was set back. It is
    // ignored.
    let sql = sql!(
        "SELECT pull, revision, session, attempts, next_unix_ms, state, reason FROM comment_job
         WHERE state = 'waiting' AND next_unix_ms <= $1
         AND (claimed_until_unix_ms <= $1 OR claimed_until_unix_ms > $2)
         ORDER BY attempts, added_unix_ms, pull COLLATE {{binary}} LIMIT 1"
    );
    file.query_first(sql, sql_params![now_unix_ms, now_unix_ms + 2 * CLAIM_MS], read_job)
}

fn read_job(row: SqlRow<'_>) -> Result<CommentJob, Error> {
    Ok(CommentJob {
        pull: row.get(0)?,
        revision: row.get(1)?,
        session: row.get(2)?,
        attempts: row.get(3)?,
        next_unix_ms: row.get(4)?,
        state: CommentState::from_name(row.get(5)?).unwrap_or(CommentState::Waiting),
        reason: row.get(6)?,
    })
}

/// A posted comment. It keeps the posted text, even if the comment is edited later.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostedComment {
    /// Kind of forge: `github`, `gitlab`, `gitea`.
    pub forge: String,
    /// Owner and name of the repository.
    pub repository: String,
    /// Number of the pull request.
    pub pull: String,
    /// The revision the comment reports on.
    pub revision: String,
    /// When the comment was posted, in milliseconds since the Unix epoch.
    pub posted_unix_ms: i64,
    /// Text in Markdown.
    pub text: String,
}

impl Store {
    /// Stores a comment.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn store_comment(&mut self, comment: &PostedComment) -> Result<()> {
        self.execute(
            sql!(
                "INSERT INTO comment (forge, repository, pull, revision, posted_unix_ms, text)
                 VALUES ($1, $2, $3, $4, $5, $6)"
            ),
            sql_params![
                &comment.forge,
                &comment.repository,
                &comment.pull,
                &comment.revision,
                comment.posted_unix_ms,
                &comment.text,
            ],
        )
    }

    /// Returns the comments on a pull request, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn posted_comments(&self, pull: &str) -> Result<Vec<PostedComment>> {
        let sql = sql!(
            "SELECT forge, repository, pull, revision, posted_unix_ms, text FROM comment
             WHERE pull = $1 ORDER BY posted_unix_ms DESC, number DESC"
        );
        self.query_rows(sql, sql_params![pull], |row| {
            Ok(PostedComment {
                forge: row.get(0)?,
                repository: row.get(1)?,
                pull: row.get(2)?,
                revision: row.get(3)?,
                posted_unix_ms: row.get(4)?,
                text: row.get(5)?,
            })
        })
    }

    /// Returns the newest comment on a pull request.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn newest_comment(&self, pull: &str) -> Result<Option<PostedComment>> {
        Ok(self.posted_comments(pull)?.into_iter().next())
    }

    /// Returns the numbers of up to `max_count` pull requests that were measured or whose results
    /// are arriving, each with its newest session, if it has one. The one with the newest session
    /// comes first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_pulls(&self, max_count: usize) -> Result<Vec<(String, Option<i64>)>> {
        let sql = sql!(
            "SELECT pull, max(session) FROM (
                 SELECT pull, session FROM origin WHERE pull IS NOT NULL AND pull <> ''
                 UNION ALL SELECT pull, coalesce(session, 0) FROM comment_job) AS known
             GROUP BY pull ORDER BY max(session) DESC, pull COLLATE {{binary}} LIMIT $1"
        );
        self.query_rows(sql, sql_params![max_count], |row| {
            let newest: i64 = row.get(1)?;
            Ok((row.get(0)?, (newest > 0).then_some(newest)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;
    use crate::{SessionDigest, UploadReceipt};
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Session, SessionState};

    fn sample_session(id: &str, revision: &str) -> Session {
        Session {
            id: id.to_owned(),
            state: SessionState::Imported,
            origin: Some(CodeOrigin {
                revision: revision.to_owned(),
                pull: Some("12".into()),
                ..CodeOrigin::default()
            }),
            ..FakeSession::with_fixed_blocks(&["a"], 1).build()
        }
    }

    fn push_session(store: &mut Store, session: &Session, at: i64) {
        let digest = SessionDigest::hash_lines(session.id.as_bytes());
        let receipt = UploadReceipt { digest, lines: 1, bytes: 1, token: None, at_unix_ms: at };
        store.accept_session(session, &receipt).unwrap();
    }

    fn sample_setting() -> ForgeSetting {
        ForgeSetting {
            repository: "gitea:https://forge.example/o/n".into(),
            token_file: "/etc/token".into(),
            check: "compare".into(),
            options: vec![("threshold".into(), "5%".into())],
        }
    }

    #[test]
    fn a_push_queues_a_comment_if_requested_and_one_server_claims_it() {
        for backend in test_backends() {
            let mut store = backend.open();
            push_session(&mut store, &sample_session("a", "r1"), 1);
            assert_eq!(store.comment_job("12").unwrap(), None, "not requested");
            store.set_forge(Some(&sample_setting())).unwrap();
            assert_eq!(store.forge_setting().unwrap(), Some(sample_setting()));
            push_session(&mut store, &sample_session("b", "r2"), 2);
            let mut other = backend.open();
            let job = store.claim_comment(10).unwrap().unwrap();
            assert_eq!((job.session, &*job.revision), (Some(2), "r2"));
            assert_eq!(other.claim_comment(10).unwrap(), None, "already claimed");
            // The claim of a killed server expires.
            assert!(other.claim_comment(10 + CLAIM_MS).unwrap().is_some());
            let done = CommentJob { state: CommentState::Posted, ..job };
            store.finish_comment(&done).unwrap();
            assert!(!store.has_due_comments(i64::MAX / 2).unwrap());
        }
    }

    #[test]
    fn updates_that_arrive_during_a_comment_job_are_posted_afterwards() {
        for backend in test_backends() {
            let mut store = backend.open();
            store.set_forge(Some(&sample_setting())).unwrap();
            let pending = sample_session("a", "r1").origin.unwrap();
            store.queue_pending_comment(&pending, 1).unwrap();
            let first = store.claim_comment(2).unwrap().unwrap();
            assert_eq!(first.session, None, "still being uploaded");
            push_session(&mut store, &sample_session("a", "r1"), 3);
            store.queue_pending_comment(&pending, 4).unwrap();
            let refused = CommentJob {
                state: CommentState::Refused,
                reason: Some("no right".into()),
                ..first
            };
            store.finish_comment(&refused).unwrap();
            let second = store.claim_comment(5).unwrap().unwrap();
            assert_eq!((second.session, second.state), (Some(1), CommentState::Waiting));
            let refused = CommentJob {
                state: CommentState::Refused,
                reason: Some("no right".into()),
                ..second
            };
            store.finish_comment(&refused).unwrap();
            assert_eq!(store.comment_job("12").unwrap(), Some(refused));
            assert_eq!(store.claim_comment(6).unwrap(), None);
            store.set_forge(Some(&sample_setting())).unwrap();
            assert!(store.has_due_comments(7).unwrap(), "retried, in case the token is new");
            store.set_forge(None).unwrap();
            assert_eq!(store.forge_setting().unwrap(), None);
        }
    }

    #[test]
    fn pull_requests_are_listed_by_their_newest_session() {
        for backend in test_backends() {
            let mut store = backend.open();
            let session = |id: &str, pull: Option<&str>| {
                let session = sample_session(id, id);
                let origin = session.origin.clone().unwrap();
                let origin = CodeOrigin { pull: pull.map(str::to_owned), ..origin };
                Session { origin: Some(origin), ..session }
            };
            store.set_forge(Some(&sample_setting())).unwrap();
            for (id, pull) in [("a", Some("7")), ("b", Some("12")), ("c", None), ("d", Some("7"))] {
                push_session(&mut store, &session(id, pull), 1);
            }
            let arriving = session("e", Some("9")).origin.unwrap();
            store.queue_pending_comment(&arriving, 2).unwrap();
            let line = |pull: &str, newest| (pull.to_owned(), newest);
            let all = [line("7", Some(4)), line("12", Some(2)), line("9", None)];
            assert_eq!(store.list_pulls(9).unwrap(), all);
            assert_eq!(store.list_pulls(1).unwrap(), all[..1]);
        }
    }

    #[test]
    fn earlier_comments_are_kept_newest_first() {
        for backend in test_backends() {
            let mut store = backend.open();
            let first = PostedComment {
                forge: "gitea".into(),
                repository: "o/n".into(),
                pull: "7".into(),
                revision: "aaaa".into(),
                posted_unix_ms: 1,
                text: "**worse**".into(),
            };
            let second =
                PostedComment { posted_unix_ms: 2, text: "it's better".into(), ..first.clone() };
            store.store_comment(&first).unwrap();
            store.store_comment(&second).unwrap();
            assert_eq!(store.newest_comment("7").unwrap().as_ref(), Some(&second));
            assert_eq!(store.posted_comments("7").unwrap(), [second, first]);
            assert_eq!(store.posted_comments("8").unwrap(), []);
            assert_eq!(store.newest_comment("8").unwrap(), None);
        }
    }
}
