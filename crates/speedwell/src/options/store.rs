//! Defines the options for the store, the dashboard, and the origin of the measured code. Adds facts
//! from the store to a comparison ([`mark_known`]).
//!
//! This module decides which comparisons get a warning or lose their verdict. In the analysis
//! crate, `calibration` evaluates calibrations, and `builds` evaluates several builds of the same
//! source.

use anyhow::Context;
use clap::{Args, ValueEnum};
use speedwell_analysis::{self as analysis, AnalysisFindings, WithheldReason};
use speedwell_engine::SessionRequest;
use speedwell_machine::environment::{self, env_variable};
use speedwell_model::{
    CodeOrigin, NoiseCalibration, OriginRequest, OriginSource, Session, SessionState, quote,
};
use speedwell_server::clients::SecretToken;
use speedwell_server::clients::push::UploadTarget;
use speedwell_store::Store;
use std::path::{Path, PathBuf};

/// Reads the token in a file.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_token_file(file: &Path) -> anyhow::Result<SecretToken> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read the token in '{}'", file.display()))?;
    Ok(SecretToken::new(text))
}

/// Database location.
#[derive(Debug, Clone, Default, Args)]
pub struct DatabaseArgs {
    /// Database: a file, or postgres://HOST/NAME
    ///
    /// [default: $SPEEDWELL_DB, else .speedwell/results.db of the project, else the user's database]
    #[arg(long, value_name = "FILE", help_heading = "Store")]
    pub db: Option<PathBuf>,
}

impl DatabaseArgs {
    /// Returns the path of the database. The database need not exist.
    ///
    /// # Errors
    /// Fails if there is no current folder.
    pub fn database_path(&self) -> anyhow::Result<PathBuf> {
        // Do not use clap's `env`: `--db` conflicts with options such as `--no-save`, but the
        // variable must not.
        let explicit = self.db.clone().or_else(|| env_variable("SPEEDWELL_DB").map(PathBuf::from));
        Ok(Store::locate(explicit.as_deref(), &std::env::current_dir()?))
    }

    /// Names the database in a sentence, ` in '.speedwell/results.db'`, if it is that of a project.
    /// Users know the others: they named them, or have only one.
    pub fn describe_place(&self) -> String {
        let Ok(path) = self.database_path() else { return String::new() };
        let is_named = self.db.is_some() || env_variable("SPEEDWELL_DB").is_some();
        if is_named || Store::locate_for_user().is_some_and(|usual| usual == path) {
            return String::new();
        }
        let current_folder = std::env::current_dir().unwrap_or_default();
        format!(" in '{}'", path.strip_prefix(&current_folder).unwrap_or(&path).display())
    }

    /// Formats the option for a command line, with a leading space. The result is empty without
    /// `--db`.
    pub fn db_option(&self) -> String {
        let format_option = |db: &PathBuf| format!(" --db {}", quote(&db.to_string_lossy()));
        self.db.as_ref().map(format_option).unwrap_or_default()
    }
}

/// Store options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Store")]
pub struct StoreArgs {
    #[command(flatten)]
    pub database: DatabaseArgs,
    /// Tag this session, for later use as @NAME (repeatable)
    #[arg(long, value_name = "NAME")]
    pub tag: Vec<String>,
    /// Do not store the session
    #[arg(long, conflicts_with_all = ["db", "tag"])]
    pub no_save: bool,
}

/// Origin of the measured code as given by the user.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Store")]
pub struct OriginArgs {
    /// Measured revision [default: as checked out]
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Branch of the revision [default: as checked out]
    #[arg(long, value_name = "NAME")]
    pub branch: Option<String>,
    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Name of the machine.
#[derive(Debug, Clone, Default, Args)]
pub struct MachineArgs {
    /// Name of this machine; same name means same machine
    ///
    /// [default: $SPEEDWELL_MACHINE, else the host name and processors]
    #[arg(long, value_name = "NAME", help_heading = "Store")]
    machine: Option<String>,
}

impl MachineArgs {
    /// Returns the name, if one is given.
    pub fn machine_name(&self) -> Option<String> {
        self.machine.clone().or_else(|| env_variable("SPEEDWELL_MACHINE"))
    }
}

impl OriginArgs {
    /// Applies the given revision, branch and machine name to a session that was measured
    /// elsewhere.
    pub fn apply_to(&self, session: &mut Session) {
        if let Some(revision) = &self.revision {
            session.origin = Some(CodeOrigin {
                revision: revision.clone(),
                source: OriginSource::Option,
                ..CodeOrigin::default()
            });
        }
        if let Some(origin) = &mut session.origin {
            origin.branch = self.branch.clone().or(origin.branch.take());
        }
        if let Some(name) = self.machine.machine_name() {
            session.environment.machine = Some(name);
        }
    }
}

/// Push options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Store")]
pub struct PushTarget {
    /// Push the finished session to this project on a server
    ///
    /// The token is read from SPEEDWELL_TOKEN.
    #[arg(long, value_name = "URL", conflicts_with = "no_save")]
    push: Option<UploadTarget>,
    /// Exit with status 2 if the session cannot be pushed
    #[arg(long, requires = "push")]
    pub push_required: bool,
}

impl PushTarget {
    /// Returns the URL to push to.
    pub fn push_url(&self) -> Option<String> {
        self.push.as_ref().map(ToString::to_string)
    }
}

impl StoreArgs {
    /// Builds the request for the session. With `--no-save`, the revision of the code is not looked
    /// up.
    pub fn session_request(&self, origin: &OriginArgs) -> SessionRequest {
        SessionRequest {
            tags: self.tag.clone(),
            command: std::env::args().collect(),
            origin: (!self.no_save).then(|| OriginRequest {
                revision: origin.revision.clone(),
                branch: origin.branch.clone(),
            }),
            machine: origin.machine.machine_name(),
            ..SessionRequest::default()
        }
    }

    /// Opens the database with `open`, a function of [`Store`] or, with `--no-save`, an empty store
    /// in memory.
    ///
    /// # Errors
    /// Fails if the database cannot be opened or is not a Speedwell database.
    pub fn open_with(&self, open: fn(&Path) -> anyhow::Result<Store>) -> anyhow::Result<Store> {
        if self.no_save { Store::in_memory() } else { open(&self.database.database_path()?) }
    }

    /// Opens the database or, with `--no-save`, an empty store in memory.
    ///
    /// # Errors
    /// Fails if the database cannot be opened or is not a Speedwell database.
    pub fn open_store(&self) -> anyhow::Result<Store> {
        self.open_with(Store::open)
    }

    /// Opens the database for reading if it exists. Never creates a file.
    ///
    /// # Errors
    /// Fails if the database cannot be opened or is not a Speedwell database.
    pub fn open_existing(&self) -> anyhow::Result<Option<Store>> {
        let path = self.database.database_path()?;
        Store::exists(&path).then(|| Store::open_to_read(&path)).transpose()
    }

    /// Adds facts from the store to comparisons, and withholds the verdicts of running sessions.
    ///
    /// Comparing files needs no store, so an unreadable store is ignored.
    pub fn mark_findings(&self, findings: &mut AnalysisFindings, sessions: &[&Session]) {
        if findings.comparisons.is_empty() {
            return;
        }
        if let Ok(Some(store)) = self.open_existing() {
            mark_known(findings, sessions, &store);
        }
    }

    /// Returns the latest calibration of this machine, if the store has one.
    pub fn calibration_of_this_machine(&self) -> Option<NoiseCalibration> {
        self.open_existing()
            .ok()??
            .latest_calibration(&environment::capture_environment(&[]))
            .ok()?
    }
}

/// Warns of machines with an unexpected rate of false alarms, and of changes that rebuilding the
/// same source could have caused. Withholds the verdicts of running sessions.
pub fn mark_known(findings: &mut AnalysisFindings, sessions: &[&Session], store: &Store) {
    if findings.comparisons.is_empty() {
        return;
    }
    if let Some(number) = sessions.iter().find_map(|session| running_session_number(session, store))
    {
        findings.withhold(&WithheldReason::HasNotEnded(number));
    }
    if sessions.iter().all(|session| session.design.layout.builds == 0) {
        let layout_spread =
            |case: &str, metric: &str| store.latest_layout_spread(case, metric).ok()?;
        analysis::note_layout_effects(findings, &layout_spread);
    }
    for session in sessions {
        let machine = &session.environment;
        let Ok(Some(calibration)) = store.latest_calibration(machine) else { continue };
        let warning = analysis::warn_uncalibrated(machine, &calibration);
        findings.warnings.extend(warning.filter(|text: &String| !findings.warnings.contains(text)));
    }
}

/// Returns the number of the session if it is running: its recording process is not known to have
/// ended.
fn running_session_number(session: &Session, store: &Store) -> Option<i64> {
    let number = session.number.filter(|_| session.state == SessionState::Running)?;
    let overview = store.find_overview(number).ok()??;
    (overview.id == session.id && !overview.is_killed).then_some(number)
}

/// Format of the request log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// No log
    Off,
    /// Plain text
    Text,
    /// JSON objects
    Json,
}

/// Options of the dashboard.
#[derive(Debug, Clone, Default, Args)]
pub struct DashboardArgs {
    /// Port to listen on [default: first free one from 7600 to 7609]
    ///
    /// Only this machine can reach the server, unless --bind is given.
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Open the dashboard in a browser
    #[arg(long)]
    pub open: bool,
    /// Listen on this address: ADDRESS:PORT or unix:PATH
    #[arg(long, value_name = "WHERE", conflicts_with = "port", help_heading = "Network")]
    pub bind: Option<String>,
    /// Server certificate with its chain, in PEM format
    #[arg(long, value_name = "FILE", requires = "key", help_heading = "Network")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM format
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "Network")]
    pub key: Option<PathBuf>,
    /// URL at which other machines reach the server
    #[arg(long, value_name = "URL", help_heading = "Network")]
    pub public_url: Option<String>,
    /// Trust forwarded headers from this TLS-terminating proxy
    ///
    /// ADDRESS is the address of the proxy, or 'unix' for a proxy that connects to a Unix socket.
    #[arg(long, value_name = "ADDRESS", help_heading = "Network")]
    pub behind_proxy: Option<String>,
    /// Allow N concurrent connections per client address [default: 16]
    ///
    /// Logged-in clients may open 128 more.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Network")]
    pub connections_per_address: Option<u16>,
    /// Require the startup key for read access, too
    #[arg(long, help_heading = "Network")]
    pub private: bool,
    /// Log requests to stderr [default: off, or text if public]
    ///
    /// By default, requests are logged as text if other machines can reach the server.
    #[arg(long, value_name = "FORM", help_heading = "Network")]
    pub log: Option<LogFormat>,
    #[command(flatten)]
    pub store: DatabaseArgs,
}
