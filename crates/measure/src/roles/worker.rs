//! Runs one role of an experiment on this machine: the target or a service. Everything it starts
//! ends with its connection.
//!
//! Messages are lines of JSON: first an [`Order`], then [`Said`] in reply, and an [`Answer`] to
//! each load requested. The target's role covers the whole life of a server (`runner/experiment`)
//! except for its loads, which others send. Start at [`perform`].

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use speedwell_environment as environment;
use speedwell_fleet::{Identity, MachineLock, Turn};
use speedwell_model::Environment;
use speedwell_model::assignment::{Assignment, BackingService};
use speedwell_model::load_run::LoadRun;
use speedwell_model::load_spec::LoadSpec;
use speedwell_model::performed::{Performed, Stage, StageFailure};
use speedwell_process as process;
use speedwell_runner::experiment::{
    Backing, Done, Fallible, SendsLoads, Site, perform_at, stage_failure,
};
use std::io::{self, BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Hidden subcommand that runs [`perform`].
pub const COMMAND: &str = "perform-role";

/// Poll interval while something may happen.
const PULSE: Duration = Duration::from_millis(20);
/// Poll interval while only a lock is held or awaited.
const LOOK: Duration = Duration::from_millis(250);
/// Shorter waits are not reported.
const SOON: Duration = Duration::from_secs(2);
/// How long to wait for an exclusive measurement on the machine to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The first message to a role: what to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Order {
    /// Report identity and environment.
    Greet,
    /// Hold the lock of this machine, where this is the fleet folder.
    Hold(PathBuf),
    /// Start a service.
    Serve(Box<ServiceOrder>),
    /// Run the target.
    Perform(Box<TargetOrder>),
}

/// A request to start a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct ServiceOrder {
    pub service: BackingService,
    /// Address at which others reach this machine.
    pub address: IpAddr,
    pub ports: Option<(u16, u16)>,
    /// The fleet folder here.
    pub folder: PathBuf,
}

/// A request to run the target.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct TargetOrder {
    pub assignment: Assignment,
    pub seed: u64,
    /// Address at which others reach this machine.
    pub address: IpAddr,
    /// The fleet folder here.
    pub folder: PathBuf,
}

/// A message from a role.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Said {
    /// Answer to [`Order::Greet`].
    Greeting(Box<Greeting>),
    /// The machine's lock is held, shared with other experiments.
    Has,
    /// Someone measures exclusively on the machine; describes the holder of the lock.
    Waits(String),
    /// The service is ready at this port.
    Ready(u16),
    /// A load is requested.
    Load(Box<Wanted>),
    /// The running load has to end.
    StopLoad,
    /// The role has ended, with this outcome.
    Done(Box<Finished>),
}

/// A load for others to send.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub spec: LoadSpec,
    pub seed: u64,
}

/// Outcome of a role.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Finished {
    pub performed: Performed,
    pub load: Option<LoadRun>,
}

/// Identity and environment of a machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Greeting {
    pub identity: Identity,
    pub environment: Environment,
    /// This end's address of the connection, if it is an ssh connection.
    pub reached_at: Option<IpAddr>,
}

/// The reply to a requested load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The load was sent.
    Sent(Box<LoadRun>),
    /// The load was not sent, with the reason.
    NotSent(String),
}

/// Reads a request from stdin and performs it.
///
/// # Errors
/// Fails if the connection breaks or the request is malformed.
pub fn perform() -> Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let order: Order = serde_json::from_str(&line).context("the order cannot be read")?;
    if let Order::Greet = order {
        return say(&Said::Greeting(Box::new(greeting())));
    }
    let answers = listen();
    let mut done = Done::default();
    let ended = match order {
        Order::Greet => Ok(()),
        Order::Hold(folder) => hold(&folder, &answers),
        Order::Serve(order) => serve(&order, &answers, &mut done),
        Order::Perform(order) => target(&order, answers, &mut done),
    };
    done.performed.failure = ended.err();
    say(&Said::Done(Box::new(Finished {
        performed: done.performed,
        load: done.load,
    })))
}

fn greeting() -> Greeting {
    let environment = environment::capture(&[]);
    // Format: client address, client port, server address, server port (ssh(1), ENVIRONMENT).
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let reached_at = connection.split(' ').nth(2);
    Greeting {
        identity: Identity::of(Path::new("/"), &environment),
        environment,
        reached_at: reached_at.and_then(|address| address.parse().ok()),
    }
}

/// Holds the lock of this machine until the connection ends, so that the roles of the experiment
/// need not queue.
fn hold(folder: &Path, answers: &Receiver<Answer>) -> Fallible<()> {
    let failed = |error: anyhow::Error| stage_failure(Stage::Start, format!("{error:#}"));
    let mut turn = Turn::shared(folder).map_err(failed)?;
    let mut known = None;
    let begin = Instant::now();
    let _lock = loop {
        if let Some(lock) = turn.come().map_err(failed)? {
            break lock;
        }
        if process::interrupted() {
            return Ok(());
        }
        let whom = (begin.elapsed() > SOON).then(|| turn.whom());
        if whom.is_some() && whom != known {
            say(&Said::Waits(whom.clone().unwrap_or_default())).map_err(failed)?;
            known = whom;
        }
        thread::sleep(LOOK);
    };
    say(&Said::Has).map_err(failed)?;
    let is_wanted = || {
        !matches!(
            answers.recv_timeout(LOOK),
            Err(RecvTimeoutError::Disconnected)
        )
    };
    while is_wanted() && !process::interrupted() {}
    Ok(())
}

/// Runs a service until the connection ends.
fn serve(order: &ServiceOrder, answers: &Receiver<Answer>, done: &mut Done) -> Fallible<()> {
    let _lock = share(&order.folder)?;
    let site = Site {
        address: Some(order.address),
        ..Site::default()
    };
    let own = Backing::start(&order.service, &site, order.ports)?;
    let told = say(&Said::Ready(own.port()));
    let mut lost = told.err().map(|error| cut(&error));
    let is_wanted = || matches!(answers.recv_timeout(PULSE), Err(RecvTimeoutError::Timeout));
    while lost.is_none() && is_wanted() {
        lost = own.lost();
    }
    let ended = own.stop(done);
    lost.map_or(ended, Err)
}

/// Runs the target.
fn target(order: &TargetOrder, answers: Receiver<Answer>, done: &mut Done) -> Fallible<()> {
    let _lock = share(&order.folder)?;
    let sender = Others(Mutex::new(answers));
    let site = Site {
        address: Some(order.address),
        sender: &sender,
    };
    perform_at(&order.assignment, &site, order.seed, done)
}

/// Waits until nothing measures exclusively on this machine.
fn share(folder: &Path) -> Fallible<MachineLock> {
    let failed = |reason: String| stage_failure(Stage::Start, reason);
    let begin = Instant::now();
    loop {
        match MachineLock::try_share(folder) {
            Ok(Some(lock)) => return Ok(lock),
            Err(error) => return Err(failed(format!("{error:#}"))),
            Ok(None) if process::interrupted() => return Err(failed("interrupted".to_owned())),
            Ok(None) if begin.elapsed() > PATIENCE => {
                let reason =
                    "somebody else measures on this machine, and has not ended within 30 s";
                return Err(failed(reason.to_owned()));
            }
            Ok(None) => thread::sleep(PULSE),
        }
    }
}

fn cut(error: &anyhow::Error) -> StageFailure {
    stage_failure(Stage::Alive, format!("the line is cut: {error:#}"))
}

fn say(what: &Said) -> Result<()> {
    let text = serde_json::to_string(what)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()?;
    Ok(())
}

/// Receives answers from stdin. Its end ends this role.
fn listen() -> Receiver<Answer> {
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let answer = line.ok().and_then(|line| serde_json::from_str(&line).ok());
            let Some(answer) = answer else { break };
            if sender.send(answer).is_err() {
                break;
            }
        }
        process::interrupt();
    });
    answers
}

/// Delegates loads to the sender of the request.
struct Others(Mutex<Receiver<Answer>>);

impl SendsLoads for Others {
    fn send(
        &self,
        spec: &LoadSpec,
        seed: u64,
        _: SocketAddr,
        stop: &AtomicBool,
    ) -> Result<LoadRun> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let spec = spec.clone();
        say(&Said::Load(Box::new(Wanted { spec, seed })))?;
        let mut is_told = false;
        loop {
            match answers.recv_timeout(PULSE) {
                Ok(Answer::Sent(run)) => return Ok(*run),
                Ok(Answer::NotSent(why)) => bail!(why),
                Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the line was cut")),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !is_told && stop.load(Ordering::Relaxed) {
                is_told = true;
                say(&Said::StopLoad)?;
            }
        }
    }
}
