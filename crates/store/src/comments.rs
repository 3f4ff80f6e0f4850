//! Records the comments that were posted on pull requests. A record keeps the posted text, even if
//! the comment is edited later.

use super::Store;
use super::database::{sql, sql_params};

/// A posted comment.
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
    pub fn store_comment(&mut self, comment: &PostedComment) -> anyhow::Result<()> {
        self.transact(|file| {
            file.execute(
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
            )?;
            Ok(())
        })
    }

    /// Returns the comments on a pull request, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn posted_comments(&self, pull: &str) -> anyhow::Result<Vec<PostedComment>> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;

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
            assert_eq!(store.posted_comments("7").unwrap(), [second, first]);
            assert_eq!(store.posted_comments("8").unwrap(), []);
        }
    }
}
