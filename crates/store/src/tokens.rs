//! Stores access tokens, as digests only, and the append-only audit log.
//!
//! This module stores permissions; callers enforce them. All projects share the tables of tokens
//! and of audit entries. Both tables are in the database with which the server was started.

use super::Store;
use super::database::{Error, SqlRow, sql, sql_params};
use super::read::parse_json;
use anyhow::{Context, Result, ensure};
use speedwell_model::stored::{AuditEntry, StoredToken, TokenScope};

/// An hour in milliseconds. The last use of a token is recorded to the hour.
const HOUR_MS: i64 = 3_600_000;

impl Store {
    /// Stores a new token.
    ///
    /// # Errors
    /// Fails if the id exists already, or on database errors.
    pub fn add_token(&mut self, token: &StoredToken) -> Result<()> {
        let names: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        let list =
            |names: &Option<Vec<String>>| names.as_ref().map(serde_json::to_string).transpose();
        let (branches, machines) = (list(&token.branches)?, list(&token.machines)?);
        let scopes = serde_json::to_string(&names)?;
        self.execute(
            sql!(
                "INSERT INTO token (id, digest, name, scopes, project, branches, machines,
                                    created_unix_ms, expires_unix_ms)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
            ),
            sql_params![
                &token.id,
                &token.digest,
                &token.name,
                &scopes,
                &token.project,
                &branches,
                &machines,
                token.created_unix_ms,
                token.expires_unix_ms,
            ],
        )
    }

    /// Returns all tokens, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn list_tokens(&self) -> Result<Vec<StoredToken>> {
        let sql = sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                    expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token ORDER BY number DESC"
        );
        self.query_rows(sql, sql_params![], read_token)
    }

    /// Returns a token by its id.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_token(&self, id: &str) -> Result<Option<StoredToken>> {
        let sql = sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                    expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token WHERE id = $1"
        );
        self.query_first(sql, sql_params![id], read_token)
    }

    /// Returns a token by its id and digest. The response time does not reveal whether the id or
    /// the digest was wrong.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn find_token_with_digest(&self, id: &str, digest: &[u8]) -> Result<Option<StoredToken>> {
        let sql = sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                    expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token WHERE id = $1 AND digest = $2"
        );
        self.query_first(sql, sql_params![id, &digest.to_vec()], read_token)
    }

    /// Revokes all tokens with this name or id that are not revoked yet, and returns their ids.
    ///
    /// # Errors
    /// Fails if there is no such token, or on database errors.
    pub fn revoke_tokens(&mut self, word: &str, unix_ms: i64) -> Result<Vec<String>> {
        let is_match = |token: &StoredToken| {
            token.revoked_unix_ms.is_none() && (token.id == word || token.name == word)
        };
        let mut tokens = self.list_tokens()?;
        tokens.retain(is_match);
        ensure!(
            !tokens.is_empty(),
            "no active token has the name or id '{word}'\nhint: 'speedwell serve token list' \
             shows all tokens"
        );
        self.transact(|file| {
            let update = sql!("UPDATE token SET revoked_unix_ms = $1 WHERE id = $2");
            for token in &tokens {
                file.execute(update, sql_params![unix_ms, &token.id])?;
            }
            Ok(())
        })?;
        Ok(tokens.into_iter().map(|token| token.id).collect())
    }

    /// Records that a token was used, with the time rounded down to the hour.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn record_token_use(&mut self, token: &StoredToken, unix_ms: i64) -> Result<()> {
        let hour = unix_ms - unix_ms.rem_euclid(HOUR_MS);
        if token.used_unix_ms.is_some_and(|used| used >= hour) {
            return Ok(());
        }
        let update = sql!("UPDATE token SET used_unix_ms = $1 WHERE id = $2");
        self.execute(update, sql_params![hour, &token.id])
    }

    /// Appends an entry to the audit log.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn append_audit(&mut self, line: &AuditEntry) -> Result<()> {
        self.execute(
            sql!(
                "INSERT INTO audit (at_unix_ms, actor, token, address, project, action, subject,
                                    result)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
            ),
            sql_params![
                line.at_unix_ms,
                &line.actor,
                &line.token,
                &line.address,
                &line.project,
                &line.action,
                &line.subject,
                &line.result,
            ],
        )
    }

    /// Returns the latest entries of the audit log, newest first.
    ///
    /// # Errors
    /// Fails on database errors.
    pub fn latest_audit_entries(&self, max_count: usize) -> Result<Vec<AuditEntry>> {
        let sql = sql!(
            "SELECT at_unix_ms, actor, token, address, project, action, subject, result
             FROM audit ORDER BY number DESC LIMIT $1"
        );
        self.query_rows(sql, sql_params![max_count], |row| {
            Ok(AuditEntry {
                at_unix_ms: row.get(0)?,
                actor: row.get(1)?,
                token: row.get(2)?,
                address: row.get(3)?,
                project: row.get(4)?,
                action: row.get(5)?,
                subject: row.get(6)?,
                result: row.get(7)?,
            })
        })
    }
}

/// Reads a token. Drops scopes that this version does not know, so that they grant nothing.
fn read_token(row: SqlRow<'_>) -> Result<StoredToken, Error> {
    let scopes: Vec<String> =
        parse_json(row.get(3)?).context("cannot read the scopes of a token")?;
    Ok(StoredToken {
        id: row.get(0)?,
        digest: row.get::<Option<_>>(1)?.unwrap_or_default(),
        name: row.get(2)?,
        scopes: scopes.iter().filter_map(|name| TokenScope::from_name(name)).collect(),
        project: row.get(4)?,
        branches: row.get::<Option<&str>>(5)?.map(parse_json).transpose()?,
        machines: row.get::<Option<&str>>(6)?.map(parse_json).transpose()?,
        created_unix_ms: row.get(7)?,
        expires_unix_ms: row.get(8)?,
        used_unix_ms: row.get(9)?,
        revoked_unix_ms: row.get(10)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::back_end_tests::test_backends;

    #[test]
    fn a_token_is_found_by_id_and_revoked_by_name() {
        for backend in test_backends() {
            let mut store = backend.open();
            let token = StoredToken {
                id: "abc".into(),
                digest: vec![0, 255, 7],
                name: "ci".into(),
                scopes: vec![TokenScope::Push, TokenScope::Triage],
                project: Some("core".into()),
                branches: Some(vec!["main".into(), "it's".into()]),
                machines: None,
                created_unix_ms: 5,
                expires_unix_ms: Some(HOUR_MS * 9),
                used_unix_ms: None,
                revoked_unix_ms: None,
            };
            store.add_token(&token).unwrap();
            assert!(store.add_token(&token).is_err(), "the same id twice");
            assert_eq!(store.find_token("abc").unwrap(), Some(token.clone()));
            assert_eq!(store.find_token("ci").unwrap(), None, "a name does not identify a token");
            let presented = |id, digest: &[u8]| store.find_token_with_digest(id, digest).unwrap();
            assert_eq!(presented("abc", &[0, 255, 7]), Some(token.clone()));
            assert_eq!(presented("abc", &[0, 255, 8]), None, "another secret");
            assert_eq!(presented("abd", &[0, 255, 7]), None, "another id");
            assert!(token.is_valid(HOUR_MS * 9 - 1) && !token.is_valid(HOUR_MS * 9));
            store.record_token_use(&token, HOUR_MS + 7).unwrap();
            let used = store.find_token("abc").unwrap().unwrap();
            assert_eq!(used.used_unix_ms, Some(HOUR_MS));
            assert_eq!(store.revoke_tokens("ci", 77).unwrap(), ["abc"]);
            assert!(!store.list_tokens().unwrap()[0].is_valid(78));
            let error = store.revoke_tokens("abc", 78).unwrap_err().to_string();
            assert!(error.contains("no active token has the name or id 'abc'"), "{error}");
        }
    }

    #[test]
    fn the_audit_log_lists_the_newest_entries_first() {
        for backend in test_backends() {
            let mut store = backend.open();
            for action in ["push", "triage", "login"] {
                let line = AuditEntry {
                    action: action.into(),
                    result: "done".into(),
                    ..AuditEntry::default()
                };
                store.append_audit(&line).unwrap();
            }
            let actions: Vec<String> = (store.latest_audit_entries(2).unwrap().into_iter())
                .map(|line| line.action)
                .collect();
            assert_eq!(actions, ["login", "triage"]);
        }
    }
}
