//! What a server is set to: its projects, its tokens, and who did what. The command line and the page say the same.

use crate::document::{Block, Document};
use crate::figure::{Uncertainty, count, moment, quantity, spell};
use crate::table::{Cell, Column, Columns, Kind};
use speedwell_results::store::{AuditLine, StoredToken};

/// A project of a server.
#[derive(Debug, Clone)]
pub struct ServedProject {
    /// Its name.
    pub name: String,
    /// Whether it is read without a token.
    pub is_public: bool,
    /// How many sessions it has.
    pub sessions: usize,
    /// The size of its file, if it is one.
    pub bytes: Option<u64>,
    /// Where the server comments on pull requests.
    pub forge: Option<String>,
}

/// What a server is set to.
#[derive(Debug, Clone, Copy)]
pub struct Settings<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// What keeps the results.
    pub store: &'a str,
    /// Now, in milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
    /// The projects.
    pub projects: &'a [ServedProject],
    /// The tokens.
    pub tokens: &'a [StoredToken],
    /// The newest lines of the audit, the newest first.
    pub audit: &'a [AuditLine],
}

/// All of it.
pub fn settings(settings: &Settings<'_>) -> Document {
    let mut document = Document::new("settings");
    let now = settings.now_unix_ms;
    let valid = settings.tokens.iter().filter(|token| token.is_valid(now));
    document.push(Block::Headline(format!(
        "{}, {} valid, on {}",
        count(settings.projects.len(), "project", "projects"),
        count(valid.count(), "token is", "tokens are"),
        settings.store
    )));
    document.push(Block::Paragraph(format!(
        "Speedwell {}. Tokens are made and revoked by 'speedwell serve token', projects by 'speedwell serve project', and \
         comments on pull requests by 'speedwell serve forge', on the machine of the server.",
        settings.version
    )));
    document.push_heading(2, "Projects");
    document.append(projects_served(settings.projects));
    document.push_heading(2, "Tokens");
    document.append(tokens(settings.tokens, now));
    document.push_heading(2, "Audit");
    document.append(audit(settings.audit));
    document
}

/// The projects of a server.
pub fn projects_served(projects: &[ServedProject]) -> Document {
    let mut document = Document::new("projects");
    let mut columns = Columns::<ServedProject>::new();
    columns.add(
        Column::new("project", "project", Kind::Label),
        |project: &ServedProject| Cell::words(&project.name).linked(format!("/{}/", project.name)),
    );
    columns.add(Column::words("read", "read by"), |project| {
        Cell::words(if project.is_public {
            "everybody"
        } else {
            "tokens"
        })
    });
    columns.add(Column::figure("sessions", "sessions"), |project| {
        Cell::value(project.sessions).shown(spell(project.sessions as f64, 0))
    });
    columns.add(Column::figure("bytes", "file"), |project| {
        project.bytes.map_or_else(Cell::default, |bytes| {
            let words = quantity(bytes as f64, "B", Uncertainty::Unknown);
            Cell::value(bytes).shown(words)
        })
    });
    if projects.iter().any(|project| project.forge.is_some()) {
        columns.add(Column::words("forge", "comments on"), |project| {
            Cell::words(project.forge.as_deref().unwrap_or_default())
        });
    }
    document.push(Block::Table(columns.table("projects", projects)));
    document
}

/// The tokens of a server, of which nothing shown is secret.
pub fn tokens(tokens: &[StoredToken], now_unix_ms: i64) -> Document {
    let mut document = Document::new("tokens");
    if tokens.is_empty() {
        document.push(Block::Paragraph("There is no token yet.".into()));
        return document;
    }
    let time =
        |at: Option<i64>| at.map_or_else(Cell::default, |at| Cell::value(at).shown(moment(at)));
    let mut columns = Columns::<StoredToken>::new();
    columns.add(
        Column::new("id", "token", Kind::Label),
        |token: &StoredToken| Cell::words(&token.id),
    );
    columns.add(Column::words("name", "name"), |token| {
        Cell::words(&token.name)
    });
    columns.add(Column::words("scopes", "may"), |token| {
        let names: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        Cell::words(names.join(", "))
    });
    columns.add(Column::words("project", "in"), |token| {
        Cell::words(token.project.as_deref().unwrap_or("all projects"))
    });
    columns.add(Column::words("branches", "branches"), |token| {
        listed(&token.branches)
    });
    columns.add(Column::words("machines", "machines"), |token| {
        listed(&token.machines)
    });
    columns.add(Column::words("state", "state"), move |token| {
        Cell::words(if token.is_valid(now_unix_ms) {
            "valid"
        } else if token.revoked_unix_ms.is_some() {
            "revoked"
        } else {
            "expired"
        })
    });
    columns.add(
        Column::words("created_unix_ms", "made (UTC)"),
        move |token| time(Some(token.created_unix_ms)),
    );
    columns.add(
        Column::words("expires_unix_ms", "expires (UTC)"),
        move |token| time(token.expires_unix_ms),
    );
    columns.add(
        // It is kept by the hour, which may have begun before the token was made.
        Column::words("used_unix_ms", "last used (UTC, by the hour)"),
        move |token| time(token.used_unix_ms.map(|at| at.max(token.created_unix_ms))),
    );
    document.push(Block::Table(columns.table("tokens", tokens)));
    document
}

fn listed(names: &Option<Vec<String>>) -> Cell {
    names
        .as_ref()
        .map_or_else(|| Cell::words("all"), |names| Cell::words(names.join(", ")))
}

/// Who did what.
pub fn audit(lines: &[AuditLine]) -> Document {
    let mut document = Document::new("audit");
    if lines.is_empty() {
        document.push(Block::Paragraph("Nothing was changed yet.".into()));
        return document;
    }
    let mut columns = Columns::<AuditLine>::new();
    columns.add(
        Column::new("at_unix_ms", "when (UTC)", Kind::Label),
        |line: &AuditLine| Cell::value(line.at_unix_ms).shown(moment(line.at_unix_ms)),
    );
    columns.add(Column::words("who", "who"), |line| Cell::words(&line.who));
    fn words(text: &Option<String>) -> Cell {
        text.as_ref().map_or_else(Cell::default, Cell::words)
    }
    columns.add(Column::words("what", "did"), |line| Cell::words(&line.what));
    columns.add(Column::words("token", "token"), |line| words(&line.token));
    columns.add(Column::words("address", "from"), |line| {
        words(&line.address)
    });
    columns.add(Column::words("project", "project"), |line| {
        words(&line.project)
    });
    columns.add(Column::words("subject", "of"), |line| words(&line.subject));
    columns.add(Column::words("result", "result"), |line| {
        Cell::words(&line.result)
    });
    document.push(Block::Table(columns.table("audit", lines)));
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Render as _, Text};
    use speedwell_results::store::Scope;

    /// Uses are kept by the hour; one cannot be before the token was made.
    #[test]
    fn a_token_is_not_used_before_it_was_made() {
        const HOUR_MS: i64 = 3_600_000;
        let token = |used: i64| StoredToken {
            id: "ab12".into(),
            digest: Vec::new(),
            name: "ci".into(),
            scopes: vec![Scope::Push],
            project: None,
            branches: None,
            machines: None,
            created_unix_ms: 20 * HOUR_MS + 1_800_000,
            expires_unix_ms: None,
            used_unix_ms: Some(used * HOUR_MS),
            revoked_unix_ms: None,
        };
        let mut bytes = Vec::new();
        let document = tokens(&[token(20), token(22)], 30 * HOUR_MS);
        Text::default().render(&document, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let times: Vec<&str> = text
            .lines()
            .flat_map(|line| {
                line.match_indices("1970-01-01 ")
                    .map(|(at, day)| &line[at + day.len()..at + day.len() + 5])
            })
            .collect();
        assert_eq!(times, ["20:30", "20:30", "20:30", "22:00"], "{text}");
        // All of them in one zone, which each header names.
        assert_eq!(text.matches("(UTC").count(), 2, "{text}");
    }
}
