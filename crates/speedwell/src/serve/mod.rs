//! Implements `speedwell serve`, which shows the dashboard and manages the settings of a server,
//! such as tokens and projects.
//!
//! This file selects the subcommand, and serves a dashboard while another command works.
//! `ready_server.rs` starts the server.

#[cfg(feature = "serve")]
mod forge;
#[cfg(feature = "serve")]
mod lookups;
#[cfg(feature = "serve")]
mod ready_server;
#[cfg(feature = "serve")]
mod settings;

use crate::CommandStatus;
use crate::options::DashboardArgs;
use clap::{Args, Subcommand};
use std::path::Path;

/// Show stored sessions, their comparisons and their history in a browser
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:
  speedwell serve
  speedwell serve --open
  speedwell serve token add ci --scope push --project core --expires 365d
  speedwell serve --db postgres://host/db --bind 0.0.0.0:443 --cert c.pem --key k.pem --public-url https://perf.example"
)]
pub struct ServeArgs {
    #[command(subcommand)]
    command: Option<ServeCommand>,
    #[command(flatten)]
    dashboard: DashboardArgs,
}

/// Subcommands for the settings of a server.
#[derive(Debug, Subcommand)]
enum ServeCommand {
    /// Create, list and revoke tokens of a server
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Token(settings::TokenCommand),
    /// Create projects on a server, and control who may read them
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Project(settings::ProjectCommand),
    /// Let the server comment on pull requests when their sessions are pushed
    ///
    /// Each session of a pull request is compared with a session of its base revision from the same machine. If a session
    /// has several variants, these are compared instead. A single comment is kept up to date, and the commit status
    /// 'speedwell/CHECK' is set.
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    Forge(forge::ForgeCommand),
    #[cfg(feature = "serve")]
    Backup(settings::BackupArgs),
    #[cfg(feature = "serve")]
    Restore(settings::RestoreArgs),
    #[cfg(feature = "serve")]
    Prune(settings::PruneArgs),
}

/// Starts the server, or runs a subcommand.
///
/// # Errors
/// Fails if the store cannot be read, or the server cannot listen on the address.
#[cfg(feature = "serve")]
pub fn run(args: &ServeArgs) -> anyhow::Result<CommandStatus> {
    match &args.command {
        None => ready_server::run(&args.dashboard),
        Some(ServeCommand::Token(command)) => settings::manage_tokens(command),
        Some(ServeCommand::Project(command)) => settings::manage_projects(command),
        Some(ServeCommand::Forge(command)) => forge::run(command),
        Some(ServeCommand::Backup(args)) => settings::back_up(args),
        Some(ServeCommand::Restore(args)) => settings::restore_backup(args),
        Some(ServeCommand::Prune(args)) => settings::prune(args),
    }
}

/// Reports that this program was built without the dashboard.
///
/// # Errors
/// Always fails.
#[cfg(not(feature = "serve"))]
pub fn run(args: &ServeArgs) -> anyhow::Result<CommandStatus> {
    let _ = (&args.dashboard, &args.command);
    Err(missing_dashboard())
}

#[cfg(not(feature = "serve"))]
fn missing_dashboard() -> anyhow::Error {
    anyhow::anyhow!(
        "this speedwell was built without the dashboard\nhint: \
         cargo install --locked --path crates/speedwell (in a checkout)"
    )
}

/// What a command measures, and on which page of its dashboard that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredSubject {
    /// A session, which has a page of its own.
    Session,
    /// Loads, which are stored at their end. The page of running measurements shows them.
    Loads,
}

/// Runs `work`. If `path` is given, also serves a dashboard for the store at that path, and opens
/// the page of the measurement.
///
/// # Errors
/// Fails if the dashboard cannot be served, or `work` fails.
pub fn with_dashboard<T>(
    path: Option<&Path>,
    subject: MeasuredSubject,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let Some(path) = path else { return work() };
    #[cfg(feature = "serve")]
    {
        let dashboard = ready_server::DashboardThread::start(path, subject)?;
        let result = work()?;
        dashboard.wait_for_viewers();
        Ok(result)
    }
    #[cfg(not(feature = "serve"))]
    {
        let _ = (path, subject);
        Err(missing_dashboard())
    }
}
