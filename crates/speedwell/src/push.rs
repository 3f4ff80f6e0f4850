//! `speedwell push`: uploads sessions of the local store to a team's server.
//!
//! Decides what is sent when, how long to retry an unavailable server, and what the user sees.
//! Unsent sessions stay in the store's outbox until the server has them; `speedwell_push` sends
//! them. Start at [`run`]; measuring commands end with [`settle`].

use super::import::Taken;
use super::options::{OutputArgs, Owing, StoreArgs, parse, variable};
use super::results_file::{self, Remarks};
use super::{Status, large, results_folder, status};
use anyhow::{Context, bail, ensure};
use clap::Args;
use speedwell_measure::reference;
use speedwell_model::{Session, State};
use speedwell_process::{self as process, Scratch};
use speedwell_push::{
    Client, Failure, Filed, Lines, Misplaced, Place, Sent, Text, Token, authorities,
};
use speedwell_report as report;
use speedwell_results::formats::{Directions, json_lines};
use speedwell_results::store::{Digest, Item, LONGEST_HOLD_MS, Owed, SessionFilter, Store, Wanted};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long to retry an unavailable server without `--wait`.
const PATIENCE: Duration = Duration::from_secs(3);
/// Delay after the first failure; doubles with each further one.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum delay, unless the server asks for a longer one.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Poll interval for interrupts.
const NOTICED: Duration = Duration::from_millis(50);

/// Send sessions to the server of a team
///
/// A session is in the local store first, always, and in the outbox until the server has it: nothing is lost while the
/// server is away. Without a source, everything in the outbox is sent that is over. Files are imported first, in all
/// formats of 'import'. The token is read from SPEEDWELL_TOKEN.
///
/// Exit status 2 if something could not be sent, unless --spool has written it to a file.
#[derive(Debug, Args)]
#[command(
    mut_arg("no_save", |arg| arg.hide(true).conflicts_with_all(["sources", "all"])),
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
    /// All sessions of the store
    #[arg(long, conflicts_with = "sources")]
    all: bool,
    /// The project on the server
    ///
    /// [default: $SPEEDWELL_SERVER, else where each session is to go]
    #[arg(long, value_name = "URL")]
    to: Option<Place>,
    /// For how long a server that is away is tried again [default: 3s]
    #[arg(long, value_name = "TIME", value_parser = parse::duration)]
    wait: Option<Duration>,
    /// Write what could not be sent to this file, as JSON Lines
    #[arg(long, value_name = "FILE")]
    spool: Option<PathBuf>,
    /// List what is in the outbox, and send nothing
    #[arg(long, conflicts_with_all = ["sources", "all", "to", "wait", "spool", "ca"])]
    list: bool,
    /// A file with the token, instead of a variable
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trust the authorities in this file as well [env: SPEEDWELL_CA]
    ///
    /// The file holds certificates in PEM.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    store: StoreArgs,
}

impl PushArgs {
    /// The project on the server, if one is given.
    fn project(&self) -> anyhow::Result<Option<Place>> {
        let of_variable = || {
            let place = variable("SPEEDWELL_SERVER")?.parse::<Place>();
            Some(place.context("in SPEEDWELL_SERVER"))
        };
        match &self.to {
            Some(place) => Ok(Some(place.clone())),
            None => of_variable().transpose(),
        }
    }
}

/// Uploads the sessions.
///
/// # Errors
/// Fails on an invalid source, a token that cannot be read, and a store that cannot be written.
pub fn run(args: PushArgs) -> anyhow::Result<Status> {
    let mut store = args.store.open()?;
    if args.list {
        args.output.print(&report::outbox(&store.outbox()?))?;
        return Ok(Status::DONE);
    }
    let client = client(args.token_file.as_deref(), args.ca.as_deref())?;
    let to = args.project()?;
    let mut named = NamedSessions::default();
    if args.all || !args.sources.is_empty() {
        let place = to.as_ref().context(
            "where to?\nhint: --to https://HOST/PROJECT, or the variable SPEEDWELL_SERVER",
        )?;
        if args.all {
            named.add_range(i64::MIN..=i64::MAX, &store)?;
        }
        for source in &args.sources {
            named.add(source, &args, &mut store)?;
        }
        named.report_unfinished();
        if named.finished.is_empty() {
            return Ok(named.status());
        }
        for number in &named.finished {
            store.owe(*number, &place.to_string(), now())?;
        }
    }
    store.hurry_outbox()?;
    let url = to.as_ref().map(ToString::to_string);
    let errand = Errand {
        sessions: &named.finished,
        url: url.as_deref(),
        patience: args.wait.unwrap_or(PATIENCE),
        is_quiet: args.output.quiet,
    };
    process::on_interrupt()?;
    let left = errand.send(&mut store, &client)?;
    let concluded = conclude(&left, &store, args.spool.as_deref())?;
    Ok(concluded.or(named.status()))
}

/// Reports unsent sessions, and writes them to the spool file if one was requested.
fn conclude(left: &[Item], store: &Store, spool: Option<&Path>) -> anyhow::Result<Status> {
    if left.is_empty() {
        return Ok(Status::DONE);
    }
    for item in left {
        status::warn(&words_of(item));
    }
    let Some(spool) = spool else {
        let is_passing = left.iter().any(|item| item.state == Owed::Waiting);
        if is_passing {
            status::hint("it stays in the outbox; send it again with: speedwell push --wait 10m");
        }
        return Ok(Status::COULD_NOT);
    };
    let cannot = || format!("cannot write '{}'", spool.display());
    let mut lines = BufWriter::new(File::create(spool).with_context(cannot)?);
    for item in left {
        store
            .write_lines(item.session, &mut lines)
            .with_context(cannot)?;
    }
    lines.flush().with_context(cannot)?;
    status::note(&format!(
        "wrote what could not be sent to '{0}'; send it with: speedwell push {0} --to {1}",
        spool.display(),
        left[0].url
    ));
    Ok(Status::DONE)
}

fn words_of(item: &Item) -> String {
    let reason = item.reason.as_deref().unwrap_or("it was not tried yet");
    match item.state {
        Owed::Refused => format!("{} does not take @{}: {reason}.", item.url, item.session),
        _ => format!(
            "@{} could not be sent to {}: {reason}.",
            item.session, item.url
        ),
    }
}

/// Sessions named on the command line. An unfinished one does not prevent the others from being
/// sent.
#[derive(Debug, Default)]
struct NamedSessions {
    /// Sessions that can be sent, each once.
    finished: Vec<i64>,
    /// Sessions that are being measured, or were killed.
    unfinished: Vec<i64>,
    /// Whether an unfinished session was named by itself rather than as part of a range.
    is_one_missed: bool,
}

impl NamedSessions {
    /// Adds the sessions of a source; files are imported first.
    fn add(&mut self, source: &str, args: &PushArgs, store: &mut Store) -> anyhow::Result<()> {
        if let Some((first, last)) = source.split_once("..").filter(|_| source.starts_with('@')) {
            let first = reference::find(store, first)?.number;
            let last = match last.strip_prefix('@') {
                Some(_) => reference::find(store, last)?.number,
                None => reference::find(store, &format!("@{last}"))?.number,
            };
            ensure!(
                first <= last,
                "'{source}' names no session: @{first} is newer than @{last}\nhint: @{last}..@{first}"
            );
            return self.add_range(first..=last, store);
        }
        if !source.starts_with('@') {
            self.add_numbers(imported(source, args, store)?);
            return Ok(());
        }
        let number = reference::find(store, source)?.number;
        if store.state(number)? == State::Running {
            self.unfinished.push(number);
            self.is_one_missed = true;
        } else {
            self.add_numbers([number]);
        }
        Ok(())
    }

    /// Adds the sessions with these numbers, oldest first.
    fn add_range(&mut self, range: RangeInclusive<i64>, store: &Store) -> anyhow::Result<()> {
        let mut numbers = store.selected_numbers(&SessionFilter::default(), usize::MAX >> 1)?;
        numbers.retain(|number| range.contains(number));
        numbers.sort_unstable();
        for number in numbers {
            if store.state(number)? == State::Running {
                self.unfinished.push(number);
            } else {
                self.add_numbers([number]);
            }
        }
        Ok(())
    }

    fn add_numbers(&mut self, numbers: impl IntoIterator<Item = i64>) {
        for number in numbers {
            if !self.finished.contains(&number) {
                self.finished.push(number);
            }
        }
    }

    fn report_unfinished(&self) {
        let Some(newest) = self.unfinished.last() else {
            return;
        };
        let names: Vec<String> = self
            .unfinished
            .iter()
            .map(|number| format!("@{number}"))
            .collect();
        status::warn(&format!(
            "Not sent, because they are being measured or were killed: {}.",
            names.join(", ")
        ));
        status::hint(&format!(
            "wait until they have ended, or resume them: speedwell run --resume @{newest}"
        ));
    }

    /// The exit status: an error if a session named by itself could not be sent.
    fn status(&self) -> Status {
        if self.is_one_missed {
            Status::COULD_NOT
        } else {
            Status::DONE
        }
    }
}

/// Imports the sessions of a file into the store.
fn imported(source: &str, args: &PushArgs, store: &mut Store) -> anyhow::Result<Vec<i64>> {
    let file = Path::new(source);
    if !file.exists() {
        bail!(
            "'{source}' is neither a session nor a file\nhint: sessions are written @latest, @12, @5..@12, @TAG"
        );
    }
    let (better, mut remarks) = (Directions::default(), Remarks::default());
    let sessions = if file.is_dir() {
        results_folder::read(file, &better, &mut remarks)?
    } else {
        results_file::read_with(file, &better, &mut remarks)?
    };
    remarks.tell();
    let mut taken = Taken::default();
    let mut found = Vec::new();
    for mut session in sessions {
        session.tags.extend(args.store.tag.iter().cloned());
        let id = session.id.clone();
        let number = match taken.take(store, &mut session)? {
            Some(number) => Some(number),
            None => store.number_of_id(&id)?,
        };
        found.extend(number);
    }
    taken.tell(source, args.output.quiet);
    Ok(found)
}

/// Creates the client, with token and certificate authorities from the options, else from
/// environment variables.
fn client(token_file: Option<&Path>, ca: Option<&Path>) -> anyhow::Result<Client> {
    let token = token(token_file)?;
    let by_variable = std::env::var_os("SPEEDWELL_CA").filter(|value| !value.is_empty());
    let Some(path) = ca.map(Path::to_owned).or(by_variable.map(PathBuf::from)) else {
        return Ok(Client::new(token));
    };
    let cannot = || format!("cannot read the certificate authority '{}'", path.display());
    let pem = fs::read(&path).with_context(cannot)?;
    let authorities = authorities(&pem)
        .map_err(anyhow::Error::msg)
        .with_context(cannot)?;
    Ok(Client::trusting(token, authorities))
}

/// Returns the server's token, if there is one.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn token(file: Option<&Path>) -> anyhow::Result<Option<Token>> {
    let Some(path) = file else {
        let value = variable("SPEEDWELL_TOKEN");
        return Ok(value.map(Token::new));
    };
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the token in '{}'", path.display()))?;
    Ok(Some(Token::new(text)))
}

/// A set of sessions to upload.
#[derive(Debug)]
struct Errand<'a> {
    /// These sessions; if empty, all finished ones.
    sessions: &'a [i64],
    /// Only to this server.
    url: Option<&'a str>,
    /// How long to retry an unavailable server.
    patience: Duration,
    is_quiet: bool,
}

impl Errand<'_> {
    /// Sends until nothing is waiting or the time is up; returns the unsent items.
    fn send(&self, store: &mut Store, client: &Client) -> anyhow::Result<Vec<Item>> {
        let begun = Instant::now();
        let mut failed: HashMap<String, u32> = HashMap::new();
        while !process::interrupted() {
            let claimed = store.claim(&Wanted {
                sessions: self.sessions,
                url: self.url,
                now_unix_ms: now(),
            })?;
            if let Some(mut item) = claimed {
                self.attempt(store, client, &mut item, &mut failed)?;
                continue;
            }
            // The remaining items are due later, or are being sent by another process.
            let left = self.left(store)?;
            let waiting = left.iter().filter(|item| item.state == Owed::Waiting);
            let Some(next) = waiting.map(|item| item.next_unix_ms).min() else {
                break;
            };
            let pause = u64::try_from(next - now()).unwrap_or(0).max(100);
            let until = begun.elapsed() + Duration::from_millis(pause);
            if until > self.patience {
                break;
            }
            while begun.elapsed() < until && !process::interrupted() {
                std::thread::sleep(NOTICED.min(until.saturating_sub(begun.elapsed())));
            }
        }
        self.left(store)
    }

    /// Lists the items that are still unsent.
    fn left(&self, store: &Store) -> anyhow::Result<Vec<Item>> {
        let mut items = store.outbox()?;
        items.retain(|item| {
            let is_over = ["complete", "imported"].contains(&item.ended.as_str());
            let is_wanted = match self.sessions {
                [] => is_over && item.state == Owed::Waiting,
                named => named.contains(&item.session),
            };
            let is_there = self.url.is_none_or(|url| url == item.url);
            is_wanted && is_there && item.state != Owed::Sent
        });
        Ok(items)
    }

    /// Sends one session and records the outcome.
    fn attempt(
        &self,
        store: &mut Store,
        client: &Client,
        item: &mut Item,
        failed: &mut HashMap<String, u32>,
    ) -> anyhow::Result<()> {
        let sent = Written::of(store, item.session)?.and_then(|own| own.send(client, &item.url));
        item.attempts += 1;
        match sent {
            Ok(sent) => {
                failed.remove(&item.url);
                item.state = Owed::Sent;
                item.sent_unix_ms = Some(now());
                item.reason = None;
                if !self.is_quiet {
                    let known = if sent == Sent::Known {
                        ", which had it"
                    } else {
                        ""
                    };
                    status::note(&format!("sent @{} to {}{known}", item.session, item.url));
                }
            }
            Err(Failure::Refused { reason }) => {
                item.state = Owed::Refused;
                item.reason = Some(reason);
                if self.sessions.is_empty() {
                    status::warn(&words_of(item));
                }
            }
            Err(Failure::Passing { reason, after }) => {
                let times = failed.entry(item.url.clone()).or_default();
                let wait = FIRST_WAIT
                    .saturating_mul(1 << (*times).min(6))
                    .min(LONGEST_WAIT);
                *times += 1;
                let wait = after.unwrap_or_else(|| with_jitter(wait));
                let wait_ms = i64::try_from(wait.as_millis()).unwrap_or(LONGEST_HOLD_MS);
                item.next_unix_ms = now() + wait_ms.min(LONGEST_HOLD_MS);
                item.reason = Some(reason);
                // A server that is unavailable for one session is so for all.
                store.hold_outbox(&item.url, item.next_unix_ms)?;
            }
        }
        store.settle_owed(item)
    }
}

/// The lines of a session in the form in which they are sent.
struct Written {
    id: String,
    sha256: String,
    text: Kept,
}

/// Where the lines are held.
enum Kept {
    Here(Vec<u8>),
    /// In a file, because they are too many for memory. Dropping this removes its folder.
    Filed {
        filed: Filed,
        _folder: Scratch,
    },
}

impl Written {
    /// Writes a session of any size; returns a [`Failure`] if it cannot be sent.
    ///
    /// # Errors
    /// Fails if the store or the file fails.
    fn of(store: &Store, number: i64) -> anyhow::Result<Result<Written, Failure>> {
        let filed = large::in_parts((store, number), &large::Wanted::default(), |stored| {
            let scratch = Scratch::new()?;
            let mut options = File::options();
            options.read(true).write(true).create_new(true);
            let file = options.open(scratch.path("lines.jsonl"))?;
            let filed = Filed::write(file, |out| stored.write_lines(out))?;
            let mut failed = Ok(());
            let chunks = filed.chunks().map_while(|chunk| {
                let chunk = chunk.map_err(|error| failed = Err(error));
                chunk.ok()
            });
            let sha256 = Digest::of_parts(chunks).to_string();
            failed?;
            Ok(Written {
                id: stored.header().id.clone(),
                sha256,
                text: Kept::Filed {
                    filed,
                    _folder: scratch,
                },
            })
        });
        if let Some(written) = filed? {
            return Ok(Ok(written));
        }
        let session = store.session(number)?;
        let mut text = Vec::new();
        let done = json_lines::write(&session, &mut text);
        let written = done.map(|()| Written {
            sha256: Digest::of(&text).to_string(),
            id: session.id,
            text: Kept::Here(text),
        });
        Ok(written.map_err(|error| Failure::Refused {
            reason: format!("{error:#}"),
        }))
    }

    fn send(&self, client: &Client, url: &str) -> Result<Sent, Failure> {
        let place: Place = url.parse().map_err(|error: Misplaced| Failure::Refused {
            reason: error.to_string(),
        })?;
        let lines = Lines {
            id: &self.id,
            text: match &self.text {
                Kept::Here(text) => Text::Here(text),
                Kept::Filed { filed, .. } => Text::Filed(filed),
            },
            sha256: &self.sha256,
        };
        client.send(&place, &lines)
    }
}

/// Varies a delay by a quarter either way, so that jobs that failed together do not retry together.
fn with_jitter(wait: Duration) -> Duration {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let part = clock.map_or(0, |since| since.subsec_micros() % 1000);
    wait.mul_f64(0.75 + f64::from(part) / 2000.0)
}

fn now() -> i64 {
    process::unix_ms()
}

/// Uploads what is due to the server. A failed upload is only a warning, because the results are
/// stored.
///
/// # Errors
/// Fails if the store cannot be written.
pub fn settle(owing: &Owing, session: &Session, store: &mut Store) -> anyhow::Result<Status> {
    let (Some(url), Some(number)) = (owing.url(), session.number) else {
        return Ok(Status::DONE);
    };
    let errand = Errand {
        sessions: &[],
        url: Some(&url),
        patience: PATIENCE,
        is_quiet: false,
    };
    store.owe(number, &url, now())?;
    store.hurry_outbox()?;
    let sent = (|| errand.send(store, &client(None, None)?))();
    let owed = store.outbox()?;
    let own = owed
        .into_iter()
        .find(|item| item.session == number && item.url == url);
    let is_sent = own.as_ref().is_some_and(|item| item.state == Owed::Sent);
    if !is_sent {
        let why = own.map(|item| words_of(&item)).unwrap_or_default();
        let why = sent.err().map_or(why, |error| format!("{error}."));
        status::warn(&format!(
            "{why} It stays in the outbox; send it with: speedwell push @{number} --to {url}"
        ));
    }
    Ok(if is_sent || !owing.push_required {
        Status::DONE
    } else {
        Status::COULD_NOT
    })
}
