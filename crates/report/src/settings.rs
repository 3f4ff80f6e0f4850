//! Reports the configuration of a server: its projects, its tokens and the audit log. The command
//! line and the server's settings page show the same report.

use crate::document::{Document, ReportBlock};
use crate::figure::{Uncertainty, format_count, format_moment, format_number, format_quantity};
use crate::table::{ColumnKind, ColumnSet, ReportCell, ReportColumn};
use speedwell_model::stored::{AuditEntry, StoredToken};

/// A project of a server.
#[derive(Debug, Clone)]
pub struct ServedProject {
    /// The project's name.
    pub name: String,
    /// Whether the project can be read without a token.
    pub is_public: bool,
    /// The number of sessions.
    pub sessions: usize,
    /// The size in bytes of the project's file, if there is one.
    pub bytes: Option<u64>,
    /// The repository on whose pull requests the server comments, if any.
    pub forge: Option<String>,
}

/// The configuration of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerSettings<'a> {
    /// The version of the program.
    pub version: &'a str,
    /// A description of the store.
    pub store: &'a str,
    /// The current time, in milliseconds since the Unix epoch.
    pub now_unix_ms: i64,
    /// The projects.
    pub projects: &'a [ServedProject],
    /// The tokens.
    pub tokens: &'a [StoredToken],
    /// The latest audit entries, newest first.
    pub audit: &'a [AuditEntry],
}

/// Reports all settings.
pub fn report_settings(settings: &ServerSettings<'_>) -> Document {
    let mut document = Document::new("settings");
    let now = settings.now_unix_ms;
    let valid = settings.tokens.iter().filter(|token| token.is_valid(now));
    document.push(ReportBlock::Headline(format!(
        "{} and {}, on {}",
        format_count(settings.projects.len(), "project", "projects"),
        format_count(valid.count(), "valid token", "valid tokens"),
        settings.store
    )));
    document.push(ReportBlock::Paragraph(format!(
        "Speedwell {}. Tokens are made and revoked by 'speedwell serve token', projects by 'speedwell serve project', and \
         comments on pull requests by 'speedwell serve forge', on the machine of the server.",
        settings.version
    )));
    document.push_heading(2, "Projects");
    document.append_document(list_served_projects(settings.projects));
    document.push_heading(2, "Tokens");
    document.append_document(list_tokens(settings.tokens, now));
    document.push_heading(2, "Audit");
    document.append_document(list_audit(settings.audit));
    document
}

/// Lists the projects of a server.
pub fn list_served_projects(projects: &[ServedProject]) -> Document {
    let mut document = Document::new("projects");
    let mut columns = ColumnSet::<ServedProject>::new();
    columns.add_column(
        ReportColumn::new("project", "project", ColumnKind::Label),
        |project: &ServedProject| {
            ReportCell::words(&project.name).with_link(format!("/{}/", project.name))
        },
    );
    columns.add_column(ReportColumn::words("read", "read by"), |project| {
        ReportCell::words(if project.is_public { "everybody" } else { "tokens" })
    });
    columns.add_column(ReportColumn::figure("sessions", "sessions"), |project| {
        ReportCell::value(project.sessions).with_text(format_number(project.sessions as f64, 0))
    });
    columns.add_column(ReportColumn::figure("bytes", "file"), |project| {
        project.bytes.map_or_else(ReportCell::default, |bytes| {
            let size = format_quantity(bytes as f64, "B", Uncertainty::Unknown);
            ReportCell::value(bytes).with_text(size)
        })
    });
    if projects.iter().any(|project| project.forge.is_some()) {
        columns.add_column(ReportColumn::words("forge", "comments on"), |project| {
            ReportCell::words(project.forge.as_deref().unwrap_or_default())
        });
    }
    document.push(ReportBlock::Table(columns.build_table("projects", projects)));
    document
}

/// Lists the tokens of a server, without their secrets.
pub fn list_tokens(tokens: &[StoredToken], now_unix_ms: i64) -> Document {
    let mut document = Document::new("tokens");
    if tokens.is_empty() {
        document.push(ReportBlock::Paragraph("No tokens yet.".into()));
        return document;
    }
    let time_cell = |unix_ms: Option<i64>| {
        unix_ms.map_or_else(ReportCell::default, |unix_ms| {
            ReportCell::value(unix_ms).with_text(format_moment(unix_ms))
        })
    };
    let mut columns = ColumnSet::<StoredToken>::new();
    columns
        .add_column(ReportColumn::new("id", "token", ColumnKind::Label), |token: &StoredToken| {
            ReportCell::words(&token.id)
        });
    columns.add_column(ReportColumn::words("name", "name"), |token| ReportCell::words(&token.name));
    columns.add_column(ReportColumn::words("scopes", "may"), |token| {
        let names: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
        ReportCell::words(names.join(", "))
    });
    columns.add_column(ReportColumn::words("project", "in"), |token| {
        ReportCell::words(token.project.as_deref().unwrap_or("all projects"))
    });
    columns.add_column(ReportColumn::words("branches", "branches"), |token| {
        names_cell(&token.branches)
    });
    columns.add_column(ReportColumn::words("machines", "machines"), |token| {
        names_cell(&token.machines)
    });
    columns.add_column(ReportColumn::words("state", "state"), move |token| {
        ReportCell::words(if token.is_valid(now_unix_ms) {
            "valid"
        } else if token.revoked_unix_ms.is_some() {
            "revoked"
        } else {
            "expired"
        })
    });
    columns.add_column(ReportColumn::words("created_unix_ms", "made (UTC)"), move |token| {
        time_cell(Some(token.created_unix_ms))
    });
    columns.add_column(ReportColumn::words("expires_unix_ms", "expires (UTC)"), move |token| {
        time_cell(token.expires_unix_ms)
    });
    columns.add_column(
        // The time is stored as the beginning of an hour, so it may be earlier than the creation of
        // the token.
        ReportColumn::words("used_unix_ms", "last used (UTC, by the hour)"),
        move |token| time_cell(token.used_unix_ms.map(|ms| ms.max(token.created_unix_ms))),
    );
    document.push(ReportBlock::Table(columns.build_table("tokens", tokens)));
    document
}

fn names_cell(names: &Option<Vec<String>>) -> ReportCell {
    names
        .as_ref()
        .map_or_else(|| ReportCell::words("all"), |names| ReportCell::words(names.join(", ")))
}

/// Lists the audit log: who did what.
pub fn list_audit(lines: &[AuditEntry]) -> Document {
    let mut document = Document::new("audit");
    if lines.is_empty() {
        document.push(ReportBlock::Paragraph("No changes yet.".into()));
        return document;
    }
    let mut columns = ColumnSet::<AuditEntry>::new();
    columns.add_column(
        ReportColumn::new("at_unix_ms", "when (UTC)", ColumnKind::Label),
        |line: &AuditEntry| {
            ReportCell::value(line.at_unix_ms).with_text(format_moment(line.at_unix_ms))
        },
    );
    columns
        .add_column(ReportColumn::words("actor", "actor"), |line| ReportCell::words(&line.actor));
    fn optional_text(text: &Option<String>) -> ReportCell {
        text.as_ref().map_or_else(ReportCell::default, ReportCell::words)
    }
    columns.add_column(ReportColumn::words("action", "action"), |line| {
        ReportCell::words(&line.action)
    });
    columns.add_column(ReportColumn::words("token", "token"), |line| optional_text(&line.token));
    columns
        .add_column(ReportColumn::words("address", "address"), |line| optional_text(&line.address));
    columns
        .add_column(ReportColumn::words("project", "project"), |line| optional_text(&line.project));
    columns
        .add_column(ReportColumn::words("subject", "subject"), |line| optional_text(&line.subject));
    columns.add_column(ReportColumn::words("result", "result"), |line| {
        ReportCell::words(&line.result)
    });
    document.push(ReportBlock::Table(columns.build_table("audit", lines)));
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{RenderDocument as _, TextFormat};
    use speedwell_model::stored::TokenScope;

    /// Times of use are stored as the beginning of an hour. A time before the creation of the token
    /// is not shown.
    #[test]
    fn a_token_is_not_used_before_it_was_made() {
        const HOUR_MS: i64 = 3_600_000;
        let token = |used: i64| StoredToken {
            id: "ab12".into(),
            digest: Vec::new(),
            name: "ci".into(),
            scopes: vec![TokenScope::Push],
            project: None,
            branches: None,
            machines: None,
            created_unix_ms: 20 * HOUR_MS + 1_800_000,
            expires_unix_ms: None,
            used_unix_ms: Some(used * HOUR_MS),
            revoked_unix_ms: None,
        };
        let mut bytes = Vec::new();
        let document = list_tokens(&[token(20), token(22)], 30 * HOUR_MS);
        TextFormat::default().render(&document, &mut bytes).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let times: Vec<&str> = text
            .lines()
            .flat_map(|line| {
                line.match_indices("1970-01-01 ")
                    .map(|(at, day)| &line[at + day.len()..at + day.len() + 5])
            })
            .collect();
        assert_eq!(times, ["20:30", "20:30", "20:30", "22:00"], "{text}");
        // All times are in one zone. Each header names the zone.
        assert_eq!(text.matches("(UTC").count(), 2, "{text}");
    }
}
