//! `speedwell push`: uploads sessions of the local store to a team's server.
//!
//! The module decides which sessions to send and how long to retry;
//! `speedwell_server::clients::push` uploads. Sessions stay in the store's outbox until the server
//! has them. Start at [`run`]; measuring commands end with [`push_pending`].

use crate::import::ImportSummary;
use crate::options::{OutputArgs, PushTarget, StoreArgs, hide_unused, parse, read_token_file};
use crate::source::{self, FileWarnings};
use crate::{CommandStatus, status, stored_session};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use indexmap::IndexSet;
use speedwell_formats::MetricDirections;
use speedwell_machine::environment::env_variable;
use speedwell_machine::process::{self, ScratchFolder};
use speedwell_model::stored::{OutboxEntry, UploadState};
use speedwell_model::{Session, SessionState};
use speedwell_report as report;
use speedwell_server::clients::SecretToken;
use speedwell_server::clients::push::{
    SessionLines, UploadClient, UploadError, UploadOutcome, UploadTarget, parse_authorities,
};
use speedwell_store::{MAX_DELAY_MS, SessionDigest, SessionFilter, Store, UploadSelection};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Seek, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long to retry an unavailable server without `--wait`.
const DEFAULT_RETRY_TIME: Duration = Duration::from_secs(3);
/// Delay after the first failure. It doubles with each further failure.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum delay. The server may ask for a longer delay.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Interval between checks for an interrupt during a delay.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Push sessions to a team server
///
/// Sessions are always stored locally first, and stay in the outbox until the server has them: nothing is lost while
/// the server is unavailable. Without a source, all finished sessions in the outbox are sent. Files are imported first;
/// they may have any format that 'speedwell import' accepts. The token is read from SPEEDWELL_TOKEN.
///
/// Exit status 2 if a session could not be sent, unless --spool wrote it to a file.
#[derive(Debug, Args)]
#[command(
    mut_arg("no_save", |arg| arg.conflicts_with_all(["sources", "all"])),
    mut_args(|arg| hide_unused(arg, "no_save chart unit no_progress")),
    after_help = "Examples:
  speedwell push @latest --to https://perf.example/core
  speedwell push @5..@12 --to https://perf.example/core
  speedwell push results.json --to https://perf.example/core
  speedwell push --wait 10m --spool unsent.jsonl
  speedwell push --list"
)]
pub struct PushArgs {
    /// Sessions such as @latest, @12 or @5..@12, or files to import
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    /// Push all sessions in the store
    #[arg(long, conflicts_with = "sources")]
    all: bool,
    /// Project on the server
    ///
    /// [default: $SPEEDWELL_SERVER, else the project that each session is queued for]
    #[arg(long, value_name = "URL")]
    to: Option<UploadTarget>,
    /// How long to retry an unavailable server [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    wait: Option<Duration>,
    /// Write unsent sessions to this file, as JSON Lines
    #[arg(long, value_name = "FILE")]
    spool: Option<PathBuf>,
    /// List the outbox without sending anything
    #[arg(long, conflicts_with_all = ["sources", "all", "to", "wait", "spool", "ca"])]
    list: bool,
    /// Read the token from this file, not from the environment
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Also trust the authorities in this file [env: SPEEDWELL_CA]
    ///
    /// The file contains certificates in PEM format.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl PushArgs {
    /// Returns the project on the server, if one is given.
    fn target_project(&self) -> Result<Option<UploadTarget>> {
        if self.to.is_some() {
            return Ok(self.to.clone());
        }
        let from_environment = env_variable("SPEEDWELL_SERVER");
        let target = from_environment.map(|url| url.parse::<UploadTarget>()).transpose();
        target.context("in SPEEDWELL_SERVER")
    }
}

/// Uploads the sessions.
///
/// # Errors
/// Fails if a source is invalid, the token cannot be read, or the store cannot be written.
pub fn run(args: PushArgs) -> Result<CommandStatus> {
    let mut store = args.store.open_store()?;
    if args.list {
        args.output.print_document(&report::report_outbox(&store.list_uploads()?))?;
        return Ok(CommandStatus::DONE);
    }
    let client = build_client(args.token_file.as_deref(), args.ca.as_deref())?;
    let target = args.target_project()?;
    let mut named_sessions = NamedSessions::default();
    if args.all || !args.sources.is_empty() {
        let target = target.as_ref().context(
            "no server given\nhint: use --to https://HOST/PROJECT, or set SPEEDWELL_SERVER",
        )?;
        if args.all {
            named_sessions.add_range(i64::MIN..=i64::MAX, &store)?;
        }
        for source in &args.sources {
            named_sessions.add_source(source, &args, &mut store)?;
        }
        named_sessions.report_unfinished();
        if named_sessions.finished.is_empty() {
            return Ok(named_sessions.exit_status());
        }
        for number in &named_sessions.finished {
            store.queue_upload(*number, &target.to_string(), process::unix_time_ms())?;
        }
    }
    store.retry_uploads_now()?;
    let url = target.as_ref().map(ToString::to_string);
    let sessions: Vec<i64> = named_sessions.finished.iter().copied().collect();
    let upload_job = UploadJob {
        sessions: &sessions,
        url: url.as_deref(),
        retry_time: args.wait.unwrap_or(DEFAULT_RETRY_TIME),
        is_quiet: args.output.quiet,
    };
    process::install_handlers()?;
    let unsent = upload_job.send_all(&mut store, &client)?;
    let upload_status = report_unsent(&unsent, &store, args.spool.as_deref())?;
    Ok(upload_status.worse_of(named_sessions.exit_status()))
}

/// Reports unsent sessions, and writes them to the spool file if one was requested.
fn report_unsent(
    unsent: &[OutboxEntry],
    store: &Store,
    spool: Option<&Path>,
) -> Result<CommandStatus> {
    if unsent.is_empty() {
        return Ok(CommandStatus::DONE);
    }
    for item in unsent {
        status::print_warning(&describe_item(item));
    }
    let Some(spool) = spool else {
        if unsent.iter().any(|item| item.state == UploadState::Waiting) {
            status::print_hint(
                "unsent sessions stay in the outbox; retry with: speedwell push --wait 10m",
            );
        }
        return Ok(CommandStatus::FAILED);
    };
    let context = || format!("cannot write '{}'", spool.display());
    let mut lines = BufWriter::new(File::create(spool).with_context(context)?);
    for item in unsent {
        store.write_lines(item.session, &mut lines).with_context(context)?;
    }
    lines.flush().with_context(context)?;
    status::print_note(&format!(
        "wrote unsent sessions to '{0}'; send them with: speedwell push {0} --to {1}",
        spool.display(),
        unsent[0].url
    ));
    Ok(CommandStatus::DONE)
}

fn describe_item(item: &OutboxEntry) -> String {
    let reason = item.reason.as_deref().unwrap_or("not tried yet");
    match item.state {
        UploadState::Refused => format!("{} rejected @{}: {reason}.", item.url, item.session),
        _ => format!("@{} could not be sent to {}: {reason}.", item.session, item.url),
    }
}

/// Sessions named on the command line.
#[derive(Debug, Default)]
struct NamedSessions {
    /// Sessions that can be sent, without duplicates.
    finished: IndexSet<i64>,
    /// Sessions that are running or were killed.
    unfinished: Vec<i64>,
    /// Whether an unfinished session was named individually instead of as part of a range.
    misses_named_session: bool,
}

impl NamedSessions {
    /// Adds the sessions of a source; files are imported first.
    fn add_source(&mut self, source: &str, args: &PushArgs, store: &mut Store) -> Result<()> {
        if let Some((first, last)) = source.split_once("..").filter(|_| source.starts_with('@')) {
            let first = stored_session::find_session(store, first)?.number;
            let last = format!("@{}", last.strip_prefix('@').unwrap_or(last));
            let last = stored_session::find_session(store, &last)?.number;
            ensure!(
                first <= last,
                "empty range '{source}': @{first} is newer than @{last}\nhint: use @{last}..@{first}"
            );
            return self.add_range(first..=last, store);
        }
        if !source.starts_with('@') {
            self.finished.extend(import_file(source, args, store)?);
            return Ok(());
        }
        let number = stored_session::find_session(store, source)?.number;
        self.misses_named_session |= !self.add_session(number, store)?;
        Ok(())
    }

    /// Adds the sessions with these numbers, oldest first.
    fn add_range(&mut self, range: RangeInclusive<i64>, store: &Store) -> Result<()> {
        let mut numbers = store.selected_numbers(&SessionFilter::default(), usize::MAX >> 1)?;
        numbers.retain(|number| range.contains(number));
        numbers.sort_unstable();
        for number in numbers {
            self.add_session(number, store)?;
        }
        Ok(())
    }

    /// Adds a session; returns whether it is finished.
    fn add_session(&mut self, number: i64, store: &Store) -> Result<bool> {
        let is_finished = store.session_state(number)? != SessionState::Running;
        if is_finished {
            self.finished.insert(number);
        } else {
            self.unfinished.push(number);
        }
        Ok(is_finished)
    }

    fn report_unfinished(&self) {
        let Some(newest) = self.unfinished.last() else { return };
        let names: Vec<String> =
            self.unfinished.iter().map(|number| format!("@{number}")).collect();
        status::print_warning(&format!(
            "Sessions were not sent, because they are being measured or their measurement was killed: {}.",
            names.join(", ")
        ));
        status::print_hint(&format!(
            "wait until they have ended, or resume them: speedwell run --resume @{newest}"
        ));
    }

    /// Returns the exit status. An unfinished session is an error if it was named individually.
    fn exit_status(&self) -> CommandStatus {
        if self.misses_named_session { CommandStatus::FAILED } else { CommandStatus::DONE }
    }
}

/// Imports the sessions of a file into the store.
fn import_file(source: &str, args: &PushArgs, store: &mut Store) -> Result<Vec<i64>> {
    let file = Path::new(source);
    if !file.exists() {
        bail!(
            "'{source}' is neither a session nor a file\nhint: sessions are named @latest, @12, @5..@12, @TAG"
        );
    }
    let (better, mut warnings) = (MetricDirections::default(), FileWarnings::default());
    let sessions = source::read_file_or_folder(file, &better, &mut warnings)?;
    warnings.print_warnings();
    let mut summary = ImportSummary::default();
    let mut numbers = Vec::new();
    for mut session in sessions {
        session.tags.extend(args.store.tag.iter().cloned());
        let id = session.id.clone();
        let added = summary.import_session(store, &mut session)?;
        numbers.extend(added.map_or_else(|| store.find_by_id(&id), |number| Ok(Some(number)))?);
    }
    summary.report_import(source, args.output.quiet);
    Ok(numbers)
}

/// Creates the client. Environment variables are the defaults for token and certificate
/// authorities.
fn build_client(token_file: Option<&Path>, ca: Option<&Path>) -> Result<UploadClient> {
    let from_file = token_file.map(read_token_file).transpose()?;
    let token = from_file.or_else(|| env_variable("SPEEDWELL_TOKEN").map(SecretToken::new));
    let from_environment = std::env::var_os("SPEEDWELL_CA").filter(|value| !value.is_empty());
    let Some(path) = ca.map(Path::to_owned).or(from_environment.map(PathBuf::from)) else {
        return Ok(UploadClient::new(token, Vec::new()));
    };
    let context = || format!("cannot read the certificate authority '{}'", path.display());
    let pem = fs::read(&path).with_context(context)?;
    let authorities = parse_authorities(&pem).map_err(anyhow::Error::msg).with_context(context)?;
    Ok(UploadClient::new(token, authorities))
}

/// A set of sessions to upload.
#[derive(Debug)]
struct UploadJob<'a> {
    /// Numbers of the sessions to upload. If empty, all finished sessions in the outbox are
    /// uploaded.
    sessions: &'a [i64],
    /// If set, uploads only to this server.
    url: Option<&'a str>,
    /// How long to retry an unavailable server.
    retry_time: Duration,
    is_quiet: bool,
}

impl UploadJob<'_> {
    /// Sends sessions until nothing is waiting or the time is up. Returns the unsent items.
    fn send_all(&self, store: &mut Store, client: &UploadClient) -> Result<Vec<OutboxEntry>> {
        let started_at = Instant::now();
        let mut failure_counts: HashMap<String, u32> = HashMap::new();
        while !process::is_interrupt_requested() {
            let claimed_item = store.claim_upload(&UploadSelection {
                sessions: self.sessions,
                url: self.url,
                now_unix_ms: process::unix_time_ms(),
            })?;
            if let Some(mut item) = claimed_item {
                self.send_session(store, client, &mut item, &mut failure_counts)?;
                continue;
            }
            // The remaining items are due later, or another process is sending them.
            let unsent = self.unsent_items(store)?;
            let waiting_items = unsent.iter().filter(|item| item.state == UploadState::Waiting);
            let Some(next) = waiting_items.map(|item| item.next_unix_ms).min() else { break };
            let pause = u64::try_from(next - process::unix_time_ms()).unwrap_or(0).max(100);
            let until = started_at.elapsed() + Duration::from_millis(pause);
            if until > self.retry_time {
                break;
            }
            while started_at.elapsed() < until && !process::is_interrupt_requested() {
                std::thread::sleep(POLL_INTERVAL.min(until.saturating_sub(started_at.elapsed())));
            }
        }
        self.unsent_items(store)
    }

    /// Lists the unsent items.
    fn unsent_items(&self, store: &Store) -> Result<Vec<OutboxEntry>> {
        let mut items = store.list_uploads()?;
        items.retain(|item| {
            let has_ended = ["complete", "imported"].contains(&item.ended.as_str());
            let is_wanted = match self.sessions {
                [] => has_ended && item.state == UploadState::Waiting,
                numbers => numbers.contains(&item.session),
            };
            let is_for_url = self.url.is_none_or(|url| url == item.url);
            is_wanted && is_for_url && item.state != UploadState::Sent
        });
        Ok(items)
    }

    /// Sends one session and records the outcome.
    fn send_session(
        &self,
        store: &mut Store,
        client: &UploadClient,
        item: &mut OutboxEntry,
        failure_counts: &mut HashMap<String, u32>,
    ) -> Result<()> {
        let result = upload_session(store, client, item)?;
        item.attempts += 1;
        match result {
            Ok(result) => {
                failure_counts.remove(&item.url);
                item.state = UploadState::Sent;
                item.sent_unix_ms = Some(process::unix_time_ms());
                item.reason = None;
                if !self.is_quiet {
                    let note =
                        if result == UploadOutcome::Known { ", which already had it" } else { "" };
                    status::print_note(&format!("sent @{} to {}{note}", item.session, item.url));
                }
            }
            Err(UploadError::Rejected { reason }) => {
                item.state = UploadState::Refused;
                item.reason = Some(reason);
                if self.sessions.is_empty() {
                    status::print_warning(&describe_item(item));
                }
            }
            Err(UploadError::Retryable { reason, retry_after }) => {
                let failure_count = failure_counts.entry(item.url.clone()).or_default();
                let wait = MIN_RETRY_DELAY
                    .saturating_mul(1 << (*failure_count).min(6))
                    .min(MAX_RETRY_DELAY);
                *failure_count += 1;
                let wait = retry_after.unwrap_or_else(|| with_jitter(wait));
                let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(MAX_DELAY_MS);
                item.next_unix_ms = process::unix_time_ms() + wait_ms.min(MAX_DELAY_MS);
                item.reason = Some(reason);
                // Delay all uploads to this server, because it is unavailable for all sessions.
                store.delay_uploads(&item.url, item.next_unix_ms)?;
            }
        }
        store.finish_upload(item)
    }
}

/// Uploads the lines of a session from files, because they may be too large for memory.
/// The inner result is an error if the session was not sent.
///
/// # Errors
/// Fails if the store or a file cannot be accessed.
fn upload_session(
    store: &Store,
    client: &UploadClient,
    item: &OutboxEntry,
) -> Result<Result<UploadOutcome, UploadError>> {
    let target = match item.url.parse::<UploadTarget>() {
        Ok(target) => target,
        Err(error) => return Ok(Err(UploadError::Rejected { reason: error.to_string() })),
    };
    let folder = ScratchFolder::new()?;
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    let text = options.open(folder.path("lines.jsonl"))?;
    let scratch = options.open(folder.path("lines.jsonl.gz"))?;
    let mut out = BufWriter::with_capacity(1 << 20, &text);
    store.write_lines(item.session, &mut out)?;
    out.flush()?;
    drop(out);
    (&text).rewind()?;
    let sha256 = SessionDigest::hash_reader(&text)?.to_string();
    let lines = SessionLines { id: &item.id, text: &text, scratch: &scratch, sha256: &sha256 };
    Ok(client.upload_session(&target, &lines))
}

/// Varies a delay by up to a quarter, so that jobs that failed together do not retry together.
fn with_jitter(wait: Duration) -> Duration {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let thousandths = clock.map_or(0, |elapsed| elapsed.subsec_micros() % 1000);
    wait.mul_f64(0.75 + f64::from(thousandths) / 2000.0)
}

/// Uploads `session`, and others that are waiting for the same server. A failure only prints a
/// warning, because the results are stored. With `--push-required`, the failure also sets the exit
/// status.
///
/// # Errors
/// Fails if the store cannot be written.
pub fn push_pending(
    owing: &PushTarget,
    session: &Session,
    store: &mut Store,
) -> Result<CommandStatus> {
    let (Some(url), Some(number)) = (owing.push_url(), session.number) else {
        return Ok(CommandStatus::DONE);
    };
    let upload_job = UploadJob {
        sessions: &[],
        url: Some(&url),
        retry_time: DEFAULT_RETRY_TIME,
        is_quiet: false,
    };
    store.queue_upload(number, &url, process::unix_time_ms())?;
    store.retry_uploads_now()?;
    let send_result = (|| upload_job.send_all(store, &build_client(None, None)?))();
    let uploads = store.list_uploads()?;
    let upload = uploads.into_iter().find(|item| item.session == number && item.url == url);
    let is_sent = upload.as_ref().is_some_and(|item| item.state == UploadState::Sent);
    if !is_sent {
        let reason = upload.map(|item| describe_item(&item)).unwrap_or_default();
        let reason = send_result.err().map_or(reason, |error| format!("{error}."));
        status::print_warning(&format!(
            "{reason} The session stays in the outbox; send it with: speedwell push @{number} --to {url}"
        ));
    }
    Ok(if is_sent || !owing.push_required { CommandStatus::DONE } else { CommandStatus::FAILED })
}
