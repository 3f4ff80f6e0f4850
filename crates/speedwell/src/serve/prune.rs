//! `speedwell serve prune`: deletes sessions that the retention rules no longer keep.

use super::backup::of_project;
use crate::options::{DatabaseArgs, OutputArgs, parse};
use crate::{Status, status};
use anyhow::ensure;
use clap::Args;
use speedwell_process::unix_ms;
use speedwell_report::{self as report, count};
use speedwell_results::store::{Keep, Overview};
use std::time::Duration;

/// How long a deletion can be undone.
const TAKEN_BACK: Duration = Duration::from_secs(7 * 86_400);
/// Age after which an unfinished upload is dropped.
const ARRIVING: Duration = Duration::from_secs(7 * 86_400);

/// Delete sessions that need not be kept: failed ones and those of branches, after some days
///
/// Nothing is deleted by itself. Tagged sessions, those of the main branch and those that a change is confirmed by are kept
/// always. Of what is deleted stays that it was, so that a later push of it is refused; for 7 days it can be taken back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell serve prune --failed 90d --branches 30d --dry-run
  speedwell serve prune --project core --failed 90d --main main,release
  speedwell serve prune --undelete 019731f2-...")]
pub struct PruneArgs {
    /// Which project [default: the first]
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Delete interrupted and empty sessions after this time
    #[arg(long, value_name = "TIME", value_parser = days)]
    failed: Option<Duration>,
    /// Delete sessions of branches, the main ones excepted, after this
    #[arg(long, value_name = "TIME", value_parser = days)]
    branches: Option<Duration>,
    /// The branches whose sessions are kept always
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["main", "master"])]
    main: Vec<String>,
    /// List what would be deleted, and delete nothing
    #[arg(long)]
    dry_run: bool,
    /// Take the deletion of this session back
    #[arg(long, value_name = "ID", conflicts_with_all = ["failed", "branches", "dry_run"])]
    undelete: Option<String>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: DatabaseArgs,
}

fn days(text: &str) -> Result<Duration, String> {
    let number = text
        .strip_suffix('d')
        .and_then(|days| days.parse::<u32>().ok());
    match number {
        Some(days) => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        None => {
            parse::duration(text).map_err(|why| format!("{why}, nor a number of days such as 90d"))
        }
    }
}

/// Deletes sessions, or undoes a deletion.
///
/// # Errors
/// If the store cannot be written, or there is no such session.
pub fn run(args: &PruneArgs) -> anyhow::Result<Status> {
    let mut store = of_project(&args.store.path()?, args.project.as_deref())?;
    if let Some(id) = &args.undelete {
        let number = store.undelete(id)?;
        status::note(&format!("session '{id}' is here again, as @{number}"));
        return Ok(Status::DONE);
    }
    ensure!(
        args.failed.is_some() || args.branches.is_some(),
        "nothing is to be deleted\nhint: --failed 90d, --branches 30d; --dry-run lists what that means"
    );
    let now = unix_ms();
    let before = |age: Option<Duration>| age.map(|age| now - age.as_millis() as i64);
    let keep = Keep {
        failed_since: before(args.failed),
        branches_since: before(args.branches),
        main: &args.main,
    };
    let all = store.not_kept(&keep)?;
    if args.dry_run {
        let sessions: Vec<Overview> = all.iter().map(|(session, _)| session.clone()).collect();
        let page = report::Page {
            sessions: &sessions,
            number: 1,
            all: sessions.len(),
            is_chosen: true,
        };
        args.output.print(&report::sessions(&page))?;
        return Ok(Status::DONE);
    }
    for (session, why) in &all {
        store.put_away(session.number, "command line", why, now)?;
    }
    let old = store.forget_deleted_before(now - TAKEN_BACK.as_millis() as i64)?;
    let dropped = store.drop_uploads_before(now - ARRIVING.as_millis() as i64)?;
    status::note(&format!(
        "deleted {}",
        count(all.len(), "session", "sessions")
    ));
    if old > 0 {
        status::note(&format!(
            "{old} earlier deletions can no longer be taken back"
        ));
    }
    if dropped > 0 {
        status::note(&format!(
            "{dropped} sessions that never arrived were dropped"
        ));
    }
    Ok(Status::DONE)
}
