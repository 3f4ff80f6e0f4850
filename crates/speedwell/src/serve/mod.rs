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

use crate::options::DashboardArgs;
use crate::status::CommandStatus;
use clap::Args;
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
    #[cfg(feature = "serve")]
    #[command(subcommand)]
    command: Option<settings::ServeCommand>,
    #[command(flatten)]
    dashboard: DashboardArgs,
}

/// Starts the server, or runs a subcommand.
///
/// # Errors
/// Fails if the store cannot be read, or the server cannot listen on the address.
#[cfg(feature = "serve")]
pub fn run(args: &ServeArgs) -> anyhow::Result<CommandStatus> {
    match &args.command {
        None => ready_server::run(&args.dashboard),
        Some(command) => settings::run(command),
    }
}

/// Reports that this program was built without the dashboard.
///
/// # Errors
/// Always fails.
#[cfg(not(feature = "serve"))]
pub fn run(args: &ServeArgs) -> anyhow::Result<CommandStatus> {
    let _ = &args.dashboard;
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
        let records_session = subject == MeasuredSubject::Session;
        let dashboard = ready_server::DashboardThread::start(path, records_session)?;
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
