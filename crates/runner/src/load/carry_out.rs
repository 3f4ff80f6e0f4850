//! Runs one load from begin to end: starts the server, verifies one request, sends the load, and
//! stops the server.
//!
//! Decides the order of steps, and when a load ends early. Start at [`carry_out`].

use super::{
    Begin, LoadJob, LoadRun, ProbeFacts, Sent, ServerOutcome, Share, Snapshot, Url, build, facts,
    processes, target,
};
use crate::server::{Served, shell};
use crate::verify;
use speedwell_load::load::Part;
use speedwell_load::measured::Measured;
use speedwell_model::load_spec::LoadSpec;
use speedwell_process::{self as process, Spec};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval for checking whether the load must end early.
const PULSE: Duration = Duration::from_millis(20);

/// Default time limit until the server accepts connections.
const SERVE_LIMIT: Duration = Duration::from_secs(30);

/// Progress notice of a load.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The server accepts connections.
    Served,
    /// The probe request was answered, at this URL, with this protocol.
    Probed(&'a Url, &'a ProbeFacts, &'static str),
    /// Progress snapshot.
    Standing(&'a Snapshot),
    /// Warning for readers of the results.
    Warning(&'a str),
}

/// A load that is ready to send: its server runs and passed verification.
#[derive(Debug)]
pub struct Ready {
    /// What to send, with redirects followed.
    pub job: LoadJob,
    /// Result of the probe request.
    pub seen: Option<ProbeFacts>,
    /// Warnings so far for readers of the results.
    pub warnings: Vec<String>,
    server: Option<Served>,
}

impl Ready {
    /// Starts the server, if any, and verifies it.
    ///
    /// # Errors
    /// Missing permission, or a server that does not start, answer or succeed.
    pub fn make(
        mut job: LoadJob,
        server: Option<Spec>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<Ready> {
        if job.spec.rt {
            // Fails before anything is started if not permitted; the generator requests it again.
            drop(processes::real_time()?);
        }
        let addresses = &job.load.target.addresses;
        let mut warnings = Vec::new();
        let mut server = match (server, &job.spec.serve) {
            (Some(server), Some(command)) => {
                let limit = job.spec.serve_timeout.unwrap_or(SERVE_LIMIT);
                let server = Served::start(server, command, limit, addresses, &mut warnings)?;
                tell(Notice::Served);
                Some(server)
            }
            _ => None,
        };
        let mut seen = None;
        warnings.extend(target::keep_reachable(&mut job.load));
        if !job.spec.no_verify {
            let (settled, found) = verify::verify(job)?;
            job = settled;
            if !found.redirected_from.is_empty() {
                warnings.extend(target::keep_reachable(&mut job.load));
            }
            let facts = facts::probe_facts_of(&found);
            tell(Notice::Probed(&job.url, &facts, facts::protocol(&job.load)));
            seen = Some(facts);
        }
        if let Some(server) = &mut server {
            server.begin();
        }
        Ok(Ready {
            job,
            seen,
            warnings,
            server,
        })
    }

    /// Stops the server and returns how it ended.
    ///
    /// # Errors
    /// Waiting for its end failed.
    pub fn end(self) -> anyhow::Result<Option<ServerOutcome>> {
        self.server.map(Served::stop).transpose()
    }
}

/// Runs one load with a server of its own; see [`build::job`] and [`Ready::make`].
///
/// # Errors
/// The load could not begin. Later problems are part of the [`LoadRun`].
pub fn carry_out(
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<LoadRun> {
    carry_out_beside(server_of(spec), spec, seed, tell)
}

/// Command of the server that the load starts itself.
pub(super) fn server_of(spec: &LoadSpec) -> Option<Spec> {
    spec.serve.as_deref().map(shell)
}

/// Sends a prepared load and reports progress until it is complete or `stop` is set.
pub type Sender<'s> =
    dyn FnMut(&LoadJob, &AtomicBool, &mut dyn FnMut(&Snapshot)) -> anyhow::Result<Sent> + 's;

/// Runs one load that `send` sends; its server, if any, is started and verified here.
///
/// # Errors
/// As for [`carry_out`].
pub fn carry_out_by(
    spec: &LoadSpec,
    seed: u64,
    send: &mut Sender<'_>,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<LoadRun> {
    carry_out_with(server_of(spec), spec, seed, send, tell)
}

/// Runs one load and starts `server` for it, if given.
///
/// # Errors
/// As for [`carry_out`].
pub fn carry_out_beside(
    server: Option<Spec>,
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<LoadRun> {
    carry_out_with(server, spec, seed, &mut send_from_here, tell)
}

fn carry_out_with(
    server: Option<Spec>,
    spec: &LoadSpec,
    seed: u64,
    send: &mut Sender<'_>,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<LoadRun> {
    let mut ready = Ready::make(build::job(spec, seed, Part::WHOLE)?, server, tell)?;
    let sent = measure(&ready.job, ready.server.as_ref(), send, tell)?;
    let mut run = as_run(&ready.job, sent.measured);
    run.probe = ready.seen.take();
    let is_lost = sent.parts.iter().any(|part| part.lost.is_some());
    if is_lost {
        // The remaining generators were stopped, which looks to them like a user's interrupt.
        run.measured.is_interrupted = process::interrupted();
    }
    run.is_partial = is_lost || !sent.losses.is_empty();
    run.parts = sent.parts;
    run.warnings = std::mem::take(&mut ready.warnings);
    run.warnings.extend(sent.losses);
    if run.measured.has_lost_server() {
        // Waits for a dying server, so that its end is not attributed to our signal.
        let _ = ready.server.as_ref().map(Served::is_dying);
    }
    run.server = ready.end()?;
    let died = run.server.as_ref().and_then(|server| server.died.clone());
    if let Some(died) = died {
        run.is_partial = true;
        run.warnings.push(format!(
            "The server {died} during the load, and the load was stopped."
        ));
        // The generator cannot tell whether the user or the watcher stopped it.
        run.measured.is_interrupted = process::interrupted();
    }
    Ok(run)
}

/// Wraps measured results in a run without probe, server or parts.
pub fn as_run(job: &LoadJob, measured: Measured) -> LoadRun {
    LoadRun {
        label: job.url.to_string(),
        url: job.url.to_string(),
        round: 0,
        slot: 0,
        requested: facts::facts_of(job),
        probe: None,
        measured,
        server: None,
        parts: Vec::new(),
        is_partial: false,
        warnings: Vec::new(),
    }
}

/// Sends the load from this machine, with one or several generators.
fn send_from_here(
    job: &LoadJob,
    stop: &AtomicBool,
    watch: &mut dyn FnMut(&Snapshot),
) -> anyhow::Result<Sent> {
    let count = job.processes();
    if count > 1 {
        let share = Share {
            first: 0,
            count,
            of: count,
            begin: &|| Begin::Now,
        };
        return processes::run(job, &share, stop, watch);
    }
    let measured = processes::generate(job, stop, watch)?;
    Ok(Sent {
        measured,
        losses: Vec::new(),
        parts: Vec::new(),
        began_ns: Vec::new(),
    })
}

/// Sends the load while watching the server.
fn measure(
    job: &LoadJob,
    server: Option<&Served>,
    send: &mut Sender<'_>,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Sent> {
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Started before the priority is raised, so as not to compete with the generator.
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                if process::interrupted() || server.is_some_and(Served::has_ended) {
                    stop.store(true, Ordering::Relaxed);
                }
                std::thread::sleep(PULSE);
            }
        });
        let sent = send(job, &stop, &mut |snapshot: &Snapshot| {
            tell(Notice::Standing(snapshot));
        });
        over.store(true, Ordering::Relaxed);
        sent
    })
}
