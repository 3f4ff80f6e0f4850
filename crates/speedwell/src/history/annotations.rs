//! Stores annotations of the history: `history triage`, `history rename` and `history note`.

use crate::CommandStatus;
use crate::history::project::summarize_sessions;
use crate::options::StoreArgs;
use crate::status;
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use regex::Regex;
use speedwell_machine::environment::GitRepository;
use speedwell_machine::process::unix_time_ms;
use speedwell_model::{ChangeTriage, RecordedChange, check_note};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Timeout of a git command.
const GIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Mark a change as accepted, wrong, fixed or open
#[derive(Debug, Args)]
pub struct TriageArgs {
    /// Number of the change, as shown by 'history changes'
    #[arg(value_name = "CHANGE")]
    change: i64,
    /// Outcome of the triage
    outcome: TriageOutcome,
    /// Reason for the outcome
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
}

/// Outcome of a triage.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum TriageOutcome {
    /// Intended, or worth its cost
    Accepted,
    /// False alarm
    Wrong,
    /// Undone in a later revision
    Fixed,
    /// Not triaged yet
    Open,
}

/// Stores the triage of a change.
///
/// # Errors
/// Fails if the note is too long, there is no such change, or the store cannot be written.
pub fn triage_change(args: TriageArgs) -> anyhow::Result<CommandStatus> {
    check_note(args.note.as_deref().unwrap_or_default())?;
    let mut store = args.store.open_store()?;
    let triage = match args.outcome {
        TriageOutcome::Accepted => ChangeTriage::Accepted,
        TriageOutcome::Wrong => ChangeTriage::Wrong,
        TriageOutcome::Fixed => ChangeTriage::Fixed,
        TriageOutcome::Open => ChangeTriage::Open,
    };
    let stored_change = store.find_change(args.change)?;
    let user = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT)
        .try_git_output(&["config", "user.name"])
        .or_else(|| std::env::var("USER").ok());
    store.store_triage(&RecordedChange {
        triage,
        note: args.note.or(stored_change.change.note),
        triaged_by: user,
        triaged_unix_ms: Some(unix_time_ms()),
        ..stored_change.change
    })?;
    status::print_note(&format!("change {} is {triage}", args.change));
    Ok(CommandStatus::DONE)
}

/// Join the history of a benchmark or case with its history under another name
#[derive(Debug, Args)]
pub struct RenameArgs {
    /// Old name: a benchmark, or a case with its parameters
    old: String,
    /// Current name
    #[arg(required_unless_present = "undo")]
    new: Option<String>,
    /// Treat OLD as a pattern for case names; NEW may contain $1
    #[arg(long, conflicts_with = "undo")]
    regex: bool,
    /// Undo the rename of OLD
    #[arg(long, conflicts_with = "new")]
    undo: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Stores or undoes a rename.
///
/// # Errors
/// Fails if no benchmark or case has the old name, there is no rename to undo, the renames form a
/// cycle, or the store cannot be written.
pub fn rename_case(args: RenameArgs) -> anyhow::Result<CommandStatus> {
    let mut store = args.store.open_store()?;
    let Some(new) = args.new else {
        ensure!(
            store.undo_rename(&args.old)?,
            "'{}' has not been renamed, so there is nothing to undo",
            args.old
        );
        status::print_note(&format!("'{}' has its own history again", args.old));
        return Ok(CommandStatus::DONE);
    };
    summarize_sessions(&mut store, usize::MAX)?;
    let cases: BTreeSet<String> =
        store.list_series()?.into_iter().map(|series| series.key.case).collect();
    let pairs: Vec<(String, String)> = if args.regex {
        let pattern = Regex::new(&args.old).context("cannot parse OLD as a pattern")?;
        let renamed =
            cases.iter().map(|case| (case.clone(), pattern.replace_all(case, &*new).into_owned()));
        renamed.filter(|(old, new)| old != new).collect()
    } else {
        let is_named = |case: &String| {
            let benchmark = case.split(' ').next();
            *case == args.old || benchmark == Some(&args.old)
        };
        cases.iter().any(is_named).then(|| (args.old.clone(), new)).into_iter().collect()
    };
    if pairs.is_empty() {
        bail!(
            "no benchmark or case in the history is named '{}'\nhint: 'speedwell history trend' lists the names",
            args.old
        );
    }
    for (old, new) in &pairs {
        store.add_rename(old, new)?;
        status::print_note(&format!("'{old}' is now '{new}'"));
    }
    Ok(CommandStatus::DONE)
}

/// Add a note to a revision, shown in trends
#[derive(Debug, Args)]
pub struct NoteArgs {
    /// Revision
    revision: String,
    /// Text of the note
    text: String,
    #[command(flatten)]
    store: StoreArgs,
}

/// Stores a note on a revision.
///
/// # Errors
/// Fails if the note is too long, or the store cannot be written.
pub fn add_note(args: NoteArgs) -> anyhow::Result<CommandStatus> {
    check_note(&args.text)?;
    let mut store = args.store.open_store()?;
    let id = GitRepository::for_folder(Path::new("."), GIT_TIMEOUT).commit_id(&args.revision);
    store.add_note(&id.unwrap_or(args.revision), &args.text)?;
    Ok(CommandStatus::DONE)
}
