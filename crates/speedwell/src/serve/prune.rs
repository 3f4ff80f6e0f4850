//! Implements `speedwell serve prune`, which deletes sessions that the retention rules no longer
//! keep.

use super::backup::open_project_store;
use crate::options::{DatabaseArgs, OutputArgs, parse};
use crate::{CommandStatus, status};
use anyhow::ensure;
use clap::Args;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::stored::SessionOverview;
use speedwell_report::{self as report, format_count};
use speedwell_store::RetentionRules;
use std::time::Duration;

/// How long a deletion can be undone.
const UNDELETE_PERIOD: Duration = Duration::from_secs(7 * 86_400);

/// Delete old sessions that failed or belong to branches
///
/// Nothing is deleted automatically. Tagged sessions, sessions of the main branch and sessions that confirm a change
/// are always kept. The store remembers deleted sessions and refuses later pushes of them; a deletion can be undone for
/// 7 days.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell serve prune --failed 90d --branches 30d --dry-run
  speedwell serve prune --project core --failed 90d --main main,release
  speedwell serve prune --undelete 019731f2-...")]
pub struct PruneArgs {
    /// Project name [default: the first]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Delete interrupted and empty sessions older than this
    #[arg(long, value_name = "TIME", value_parser = days)]
    failed: Option<Duration>,
    /// Delete sessions of branches other than --main, older than this
    #[arg(long, value_name = "TIME", value_parser = days)]
    branches: Option<Duration>,
    /// Branches whose sessions are always kept
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["main", "master"])]
    main: Vec<String>,
    /// List what would be deleted, without deleting it
    #[arg(long)]
    dry_run: bool,
    /// Undo the deletion of this session
    #[arg(long, value_name = "ID", conflicts_with_all = ["failed", "branches", "dry_run"])]
    undelete: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: DatabaseArgs,
}

fn days(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match number {
        Some(days) => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        None => parse::duration(text)
            .map_err(|error| format!("{error}, or a number of days such as 90d")),
    }
}

/// Deletes sessions, or undoes a deletion.
///
/// # Errors
/// Fails if the store cannot be written, or there is no such session.
pub fn run(args: &PruneArgs) -> anyhow::Result<CommandStatus> {
    let mut store = open_project_store(&args.store.database_path()?, args.project.as_deref())?;
    if let Some(id) = &args.undelete {
        let number = store.restore_deleted(id)?;
        status::print_note(&format!("restored session '{id}' as @{number}"));
        return Ok(CommandStatus::DONE);
    }
    ensure!(
        args.failed.is_some() || args.branches.is_some(),
        "no sessions selected to delete\nhint: use --failed 90d or --branches 30d; --dry-run lists the sessions"
    );
    let now = unix_time_ms();
    let cutoff = |age: Option<Duration>| age.map(|age| now - age.as_millis() as i64);
    let rules = RetentionRules {
        failed_since: cutoff(args.failed),
        branches_since: cutoff(args.branches),
        main: &args.main,
    };
    let expired = store.expired_sessions(&rules)?;
    if args.dry_run {
        let sessions: Vec<SessionOverview> =
            expired.iter().map(|(session, _)| session.clone()).collect();
        let page = report::SessionsPage {
            sessions: &sessions,
            number: 1,
            all: sessions.len(),
            is_chosen: true,
        };
        args.output.print_document(&report::list_sessions(&page))?;
        return Ok(CommandStatus::DONE);
    }
    for (session, reason) in &expired {
        store.delete_session(session.number, "command line", reason, now)?;
    }
    let purged = store.purge_deleted_before(now - UNDELETE_PERIOD.as_millis() as i64)?;
    status::print_note(&format!("deleted {}", format_count(expired.len(), "session", "sessions")));
    if purged > 0 {
        status::print_note(&format!("{purged} earlier deletions can no longer be undone"));
    }
    Ok(CommandStatus::DONE)
}
