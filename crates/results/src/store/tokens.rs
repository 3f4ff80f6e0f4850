//! Tokens, of which only digests are kept, and the audit: who did what, which is only ever added to.
//!
//! Whether a token may do something is decided by whoever asks; here stands what it was given. Both lie in the tables that
//! a server was started with, not in those of its projects.

use super::Store;
use super::database::{Error, Row, given, sql};
use super::read::from_json;
use anyhow::{Context, ensure};

/// Milliseconds of an hour: uses of a token are noted no more often.
const HOUR_MS: i64 = 3_600_000;

/// What a token allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// To read.
    Read,
    /// To push, and to read what was pushed.
    Push,
    /// To judge changes, and to read.
    Judge,
    /// Everything.
    Admin,
}

impl Scope {
    /// All, with their names.
    pub const NAMES: [(&'static str, Scope); 4] = [
        ("read", Scope::Read),
        ("push", Scope::Push),
        ("judge", Scope::Judge),
        ("admin", Scope::Admin),
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        let known = Scope::NAMES.iter().find(|(_, scope)| *scope == self);
        known.map_or("", |(name, _)| name)
    }

    fn of(name: &str) -> Option<Scope> {
        let known = Scope::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, scope)| *scope)
    }
}

/// A token as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// What it is found by; no secret.
    pub id: String,
    /// The SHA-256 of the token.
    pub digest: Vec<u8>,
    /// What people call it.
    pub name: String,
    /// What it allows.
    pub scopes: Vec<Scope>,
    /// The only project in which; all if `None`.
    pub project: Option<String>,
    /// The only branches whose sessions it may push; all if `None`.
    pub branches: Option<Vec<String>>,
    /// The only machines whose sessions it may push; all if `None`.
    pub machines: Option<Vec<String>>,
    /// In milliseconds since the Unix epoch, as all times here.
    pub created_unix_ms: i64,
    /// From when on it is none.
    pub expires_unix_ms: Option<i64>,
    /// When it was used last, to an hour.
    pub used_unix_ms: Option<i64>,
    /// Since when it is none.
    pub revoked_unix_ms: Option<i64>,
}

impl StoredToken {
    /// Whether it is one at this moment.
    pub fn is_valid(&self, unix_ms: i64) -> bool {
        self.revoked_unix_ms.is_none() && self.expires_unix_ms.is_none_or(|end| unix_ms < end)
    }
}

/// What somebody did, or was not allowed to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditLine {
    /// When, in milliseconds since the Unix epoch.
    pub at_unix_ms: i64,
    /// The name of the token, or what stands for one.
    pub who: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Where the request came from.
    pub address: Option<String>,
    /// The project.
    pub project: Option<String>,
    /// What was done.
    pub what: String,
    /// To what.
    pub subject: Option<String>,
    /// `done`, or why not.
    pub result: String,
}

impl Store {
    /// Keeps a new token.
    ///
    /// # Errors
    /// Its id is known already, or the file fails.
    pub fn add_token(&mut self, token: &StoredToken) -> anyhow::Result<()> {
        let names: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        let list = |names: &Option<Vec<String>>| names.as_ref().map(serde_json::to_string);
        let (branches, machines) = (list(&token.branches), list(&token.machines));
        let (branches, machines) = (branches.transpose()?, machines.transpose()?);
        let scopes = serde_json::to_string(&names)?;
        self.change(|file| {
            file.execute(
                sql!(
                    "INSERT INTO token (id, digest, name, scopes, project, branches, machines,
                                        created_unix_ms, expires_unix_ms)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
                ),
                given![
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
            )?;
            Ok(())
        })
    }

    /// All tokens, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn tokens(&self) -> anyhow::Result<Vec<StoredToken>> {
        let sql = sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                    expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token ORDER BY number DESC"
        );
        let rows: Vec<TokenRow> = self.rows(sql, given![], TokenRow::read)?;
        rows.into_iter().map(TokenRow::token).collect()
    }

    /// A token by its id.
    ///
    /// # Errors
    /// The file fails.
    pub fn token(&self, id: &str) -> anyhow::Result<Option<StoredToken>> {
        let sql = sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                    expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token WHERE id = $1"
        );
        let row = self.first_row(sql, given![id], TokenRow::read)?;
        row.map(TokenRow::token).transpose()
    }

    /// A token by its id and its digest. The time that this takes does not tell which of them is unknown.
    ///
    /// # Errors
    /// The file fails.
    pub fn token_of(&self, id: &str, digest: &[u8]) -> anyhow::Result<Option<StoredToken>> {
        let sql = sql!(
            "SELECT id, digest, name, scopes, project, branches, machines, created_unix_ms,
                    expires_unix_ms, used_unix_ms, revoked_unix_ms FROM token WHERE id = $1 AND digest = $2"
        );
        let row = self.first_row(sql, given![id, &digest.to_vec()], TokenRow::read)?;
        row.map(TokenRow::token).transpose()
    }

    /// Ends all valid tokens of this name or id, and tells which.
    ///
    /// # Errors
    /// There is none, or the file fails.
    pub fn revoke_tokens(&mut self, word: &str, unix_ms: i64) -> anyhow::Result<Vec<String>> {
        let is_meant = |token: &StoredToken| {
            token.revoked_unix_ms.is_none() && (token.id == word || token.name == word)
        };
        let mut tokens = self.tokens()?;
        tokens.retain(is_meant);
        ensure!(
            !tokens.is_empty(),
            "there is no token '{word}' that could be revoked\nhint: speedwell serve token list"
        );
        self.change(|file| {
            let sql = sql!("UPDATE token SET revoked_unix_ms = $1 WHERE id = $2");
            for token in &tokens {
                file.execute(sql, given![unix_ms, &token.id])?;
            }
            Ok(())
        })?;
        Ok(tokens.into_iter().map(|token| token.id).collect())
    }

    /// Notes that a token was used, to the hour.
    ///
    /// # Errors
    /// The file fails.
    pub fn note_use(&mut self, token: &StoredToken, unix_ms: i64) -> anyhow::Result<()> {
        let hour = unix_ms - unix_ms.rem_euclid(HOUR_MS);
        if token.used_unix_ms.is_some_and(|used| used >= hour) {
            return Ok(());
        }
        self.change(|file| {
            let sql = sql!("UPDATE token SET used_unix_ms = $1 WHERE id = $2");
            file.execute(sql, given![hour, &token.id])?;
            Ok(())
        })
    }

    /// Adds a line to the audit.
    ///
    /// # Errors
    /// The file fails.
    pub fn note_in_audit(&mut self, line: &AuditLine) -> anyhow::Result<()> {
        self.change(|file| {
            file.execute(
                sql!(
                    "INSERT INTO audit (at_unix_ms, who, token, address, project, what, subject,
                                        result)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
                ),
                given![
                    line.at_unix_ms,
                    &line.who,
                    &line.token,
                    &line.address,
                    &line.project,
                    &line.what,
                    &line.subject,
                    &line.result,
                ],
            )?;
            Ok(())
        })
    }

    /// The newest lines of the audit, the newest first.
    ///
    /// # Errors
    /// The file fails.
    pub fn audit(&self, most: usize) -> anyhow::Result<Vec<AuditLine>> {
        let sql = sql!(
            "SELECT at_unix_ms, who, token, address, project, what, subject, result
             FROM audit ORDER BY number DESC LIMIT $1"
        );
        self.rows(sql, given![most as i64], |row| {
            Ok(AuditLine {
                at_unix_ms: row.get(0)?,
                who: row.get(1)?,
                token: row.get(2)?,
                address: row.get(3)?,
                project: row.get(4)?,
                what: row.get(5)?,
                subject: row.get(6)?,
                result: row.get(7)?,
            })
        })
    }
}

/// A row, whose lists are not read yet.
struct TokenRow {
    token: StoredToken,
    scopes: String,
    branches: Option<String>,
    machines: Option<String>,
}

impl TokenRow {
    fn read(row: Row<'_>) -> Result<TokenRow, Error> {
        Ok(TokenRow {
            token: StoredToken {
                id: row.get(0)?,
                digest: row.bytes_or_null(1)?.unwrap_or_default().to_vec(),
                name: row.get(2)?,
                scopes: Vec::new(),
                project: row.get(4)?,
                branches: None,
                machines: None,
                created_unix_ms: row.get(7)?,
                expires_unix_ms: row.get(8)?,
                used_unix_ms: row.get(9)?,
                revoked_unix_ms: row.get(10)?,
            },
            scopes: row.get(3)?,
            branches: row.get(5)?,
            machines: row.get(6)?,
        })
    }

    /// A scope that a later version may have added allows nothing here.
    fn token(self) -> anyhow::Result<StoredToken> {
        let list = |text: &Option<String>| text.as_deref().map(from_json).transpose();
        let scopes: Vec<String> = from_json(&self.scopes).context("a token's scopes")?;
        Ok(StoredToken {
            scopes: scopes.iter().filter_map(|name| Scope::of(name)).collect(),
            branches: list(&self.branches)?,
            machines: list(&self.machines)?,
            ..self.token
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::back_end_tests::places;

    #[test]
    fn a_token_is_kept_found_and_ended_by_id_or_name() {
        for place in places() {
            let mut store = place.open();
            let token = StoredToken {
                id: "abc".into(),
                digest: vec![0, 255, 7],
                name: "ci".into(),
                scopes: vec![Scope::Push, Scope::Judge],
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
            assert_eq!(store.token("abc").unwrap(), Some(token.clone()));
            assert_eq!(store.token("ci").unwrap(), None, "a name is no id");
            let presented = |id, digest: &[u8]| store.token_of(id, digest).unwrap();
            assert_eq!(presented("abc", &[0, 255, 7]), Some(token.clone()));
            assert_eq!(presented("abc", &[0, 255, 8]), None, "another secret");
            assert_eq!(presented("abd", &[0, 255, 7]), None, "another id");
            assert!(token.is_valid(HOUR_MS * 9 - 1) && !token.is_valid(HOUR_MS * 9));
            store.note_use(&token, HOUR_MS + 7).unwrap();
            let used = store.token("abc").unwrap().unwrap();
            assert_eq!(used.used_unix_ms, Some(HOUR_MS));
            assert_eq!(store.revoke_tokens("ci", 77).unwrap(), ["abc"]);
            assert!(!store.tokens().unwrap()[0].is_valid(78));
            let again = store.revoke_tokens("abc", 78).unwrap_err().to_string();
            assert!(again.contains("no token 'abc'"), "{again}");
        }
    }

    #[test]
    fn the_audit_gives_the_newest_lines_first() {
        for place in places() {
            let mut store = place.open();
            for what in ["push", "judge", "login"] {
                let line = AuditLine {
                    what: what.into(),
                    result: "done".into(),
                    ..AuditLine::default()
                };
                store.note_in_audit(&line).unwrap();
            }
            let whats: Vec<String> = (store.audit(2).unwrap().into_iter())
                .map(|line| line.what)
                .collect();
            assert_eq!(whats, ["login", "judge"]);
        }
    }
}
