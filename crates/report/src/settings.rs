//! Reports the configuration of a server: its projects, its tokens and the audit log. The command
//! line and the server's settings page show the same report.

use crate::columns::column_set;
use crate::document::{Document, ReportBlock};
use crate::figure::format_count;
use crate::table::ReportCell;
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
        "Speedwell {}. To manage tokens, projects and comments on pull requests, use 'speedwell \
         serve token', 'speedwell serve project' and 'speedwell serve forge' on the server's \
         machine.",
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
    let has_forge = projects.iter().any(|project| project.forge.is_some());
    let columns = column_set! { project: ServedProject;
        label("project", "project") =>
            ReportCell::words(&project.name).with_link(format!("/{}/", project.name)),
        words("read", "read by") => if project.is_public { "everybody" } else { "tokens" },
        figure("sessions", "sessions") => ReportCell::large_count(project.sessions),
        figure("bytes", "file") =>
            ReportCell::quantity(project.bytes.map(|bytes| bytes as f64), "B"),
        words("forge", "comments on") if has_forge => project.forge.as_deref().unwrap_or_default(),
    };
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
    let columns = column_set! { token: StoredToken;
        label("id", "token") => &token.id,
        words("name", "name") => &token.name,
        words("scopes", "may") => scope_names(token),
        words("project", "in") => token.project.as_deref().unwrap_or("all projects"),
        words("branches", "branches") => name_list(token.branches.as_deref()),
        words("machines", "machines") => name_list(token.machines.as_deref()),
        words("state", "state") => token_state(token, now_unix_ms),
        words("created_unix_ms", "made (UTC)") => ReportCell::moment(token.created_unix_ms),
        words("expires_unix_ms", "expires (UTC)") => token.expires_unix_ms.map(ReportCell::moment),
        // The time is stored as the beginning of an hour, so it may be earlier than the creation of
        // the token.
        words("used_unix_ms", "last used (UTC, by the hour)") =>
            token.used_unix_ms.map(|ms| ReportCell::moment(ms.max(token.created_unix_ms))),
    };
    document.push(ReportBlock::Table(columns.build_table("tokens", tokens)));
    document
}

fn scope_names(token: &StoredToken) -> String {
    let names: Vec<&str> = token.scopes.iter().map(|scope| scope.name()).collect();
    names.join(", ")
}

/// Joins names. `None` stands for all.
fn name_list(names: Option<&[String]>) -> String {
    names.map_or_else(|| "all".to_owned(), |names| names.join(", "))
}

fn token_state(token: &StoredToken, now_unix_ms: i64) -> &'static str {
    if token.is_valid(now_unix_ms) {
        "valid"
    } else if token.revoked_unix_ms.is_some() {
        "revoked"
    } else {
        "expired"
    }
}

/// Lists the audit log: who did what.
pub fn list_audit(lines: &[AuditEntry]) -> Document {
    let mut document = Document::new("audit");
    if lines.is_empty() {
        document.push(ReportBlock::Paragraph("No changes yet.".into()));
        return document;
    }
    let columns = column_set! { line: AuditEntry;
        label("at_unix_ms", "when (UTC)") => ReportCell::moment(line.at_unix_ms),
        words("actor", "actor") => &line.actor,
        words("action", "action") => &line.action,
        words("token", "token") => line.token.as_ref(),
        words("address", "address") => line.address.as_ref(),
        words("project", "project") => line.project.as_ref(),
        words("subject", "subject") => line.subject.as_ref(),
        words("result", "result") => &line.result,
    };
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
    fn a_token_is_never_shown_as_used_before_its_creation() {
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
