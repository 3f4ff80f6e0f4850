//! Selects the sessions to list: by branch, by day or revision, and by case.
//!
//! This module decides what `--since` means. A day selects sessions measured since that day. A
//! revision selects sessions that measured later commits. Start at [`build_filter`].

use super::project::current_name;
use crate::reference;
use anyhow::{Result, ensure};
use regex::Regex;
use speedwell_formats::point_table::parse_time;
use speedwell_machine::environment::GitRepository;
use speedwell_store::{SessionFilter, Store};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// Timeout of a git query, which `--since REVISION` needs.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which sessions to list; all by default.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Only sessions measured on this branch.
    pub branch: Option<String>,
    /// Only sessions since a day (`2026-01-31`, with or without a time of day) or a revision
    /// (`v1.4`, `@base`).
    pub since: Option<String>,
    /// Only sessions with a matching case. The current name of the case must match one of these
    /// patterns.
    pub filters: Vec<Regex>,
}

/// Translates the request for the store.
///
/// # Errors
/// Fails if the revision is unknown or the store cannot be accessed.
pub fn build_filter(store: &Store, request: &ListRequest) -> Result<SessionFilter> {
    let mut filter = SessionFilter { branch: request.branch.clone(), ..SessionFilter::default() };
    if let Some(word) = &request.since {
        match parse_day(word) {
            Some(unix_ms) => filter.since_unix_ms = Some(unix_ms),
            None => filter.numbers = Some(later_sessions(store, word)?),
        }
    }
    if !request.filters.is_empty() {
        let renames = store.list_renames()?;
        let is_wanted = |case: &str| {
            let name = current_name(case, &renames);
            request.filters.iter().any(|filter| filter.is_match(&name))
        };
        let sessions_with_case = store.numbers_with_case(is_wanted)?;
        filter.numbers = Some(match filter.numbers {
            Some(later) => (later.into_iter())
                .filter(|number| sessions_with_case.binary_search(number).is_ok())
                .collect(),
            None => sessions_with_case,
        });
    }
    Ok(filter)
}

/// Parses a date with an optional time into milliseconds since the Unix epoch. Rejects digits
/// without separators, because they may be the prefix of a revision id.
fn parse_day(word: &str) -> Option<i64> {
    let separator = word.as_bytes().get(4)?;
    matches!(separator, b'-' | b'.' | b'/').then(|| parse_time(word))?
}

/// Returns the sessions that measured descendants of the revision `word`, according to git or to
/// the store.
fn later_sessions(store: &Store, word: &str) -> Result<Vec<i64>> {
    let git = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT);
    let revision = reference::resolve_revision(store, &git, word)?;
    let measured = store.revisions_of_sessions()?;
    let tips: HashSet<&str> = measured.iter().map(|(_, id)| id.as_str()).collect();
    let by_git = git.commits_after(&revision, &tips.into_iter().collect::<Vec<_>>());
    let by_line = store.later_revisions(&revision)?;
    ensure!(
        by_git.is_some() || by_line.is_some(),
        "cannot resolve '{word}': expected a day, or a revision known to git or the store\nhint: \
         --since 2026-01-31, --since v1.4, --since @rev:v1.4"
    );
    let mut later = by_git.unwrap_or_default();
    later.extend(by_line.unwrap_or_default());
    let numbers = measured.iter().filter(|(_, id)| later.contains(id));
    Ok(numbers.map(|(number, _)| *number).collect())
}
