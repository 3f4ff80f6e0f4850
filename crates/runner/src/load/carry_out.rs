//! One load from begin to end: the server is started, one request is verified, the load is sent, the
//! server is ended.
//!
//! It decides what follows what, and when a load ends before its time. Start at [`carry_out`].

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

/// How often it is looked whether the load has to end early.
const PULSE: Duration = Duration::from_millis(20);

/// How long a server may take until it accepts connections where nothing else is given.
const SERVE_LIMIT: Duration = Duration::from_secs(30);

/// What is told while a load is carried out.
#[derive(Debug)]
pub enum Notice<'a> {
    /// The server accepts connections.
    Served,
    /// The request before the load was answered, at this address.
    Probed(&'a Url, &'a ProbeFacts, &'static str),
    /// The load stands so.
    Standing(&'a Snapshot),
    /// What a reader of the figures should know.
    Warning(&'a str),
}

/// A load that has everything it needs: a server that runs and answers well.
#[derive(Debug)]
pub struct Ready {
    /// What is to be sent, redirects followed.
    pub job: LoadJob,
    /// What the request before the load saw.
    pub seen: Option<ProbeFacts>,
    /// What a reader of the figures should know so far.
    pub warnings: Vec<String>,
    server: Option<Served>,
}

impl Ready {
    /// Starts the server, if there is one, and verifies it.
    ///
    /// # Errors
    /// No permission, no server, no answer, no success.
    pub fn make(
        mut job: LoadJob,
        server: Option<Spec>,
        tell: &mut dyn FnMut(Notice),
    ) -> anyhow::Result<Ready> {
        if job.spec.rt {
            // Asked here, so that nothing is started in vain; the generator asks again for itself.
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

    /// Ends the server and says what became of it.
    ///
    /// # Errors
    /// Its end could not be waited for.
    pub fn end(self) -> anyhow::Result<Option<ServerOutcome>> {
        self.server.map(Served::stop).transpose()
    }
}

/// Carries out one load with the server that it starts for itself; see [`build::job`] and [`Ready::make`].
///
/// # Errors
/// It could not be begun. What happens later is part of the [`LoadRun`].
pub fn carry_out(
    spec: &LoadSpec,
    seed: u64,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<LoadRun> {
    carry_out_beside(server_of(spec), spec, seed, tell)
}

/// The server that a load starts for itself.
pub(super) fn server_of(spec: &LoadSpec) -> Option<Spec> {
    spec.serve.as_deref().map(shell)
}

/// Sends a load that is ready, and tells how it stands, until it is over or told to stop.
pub type Sender<'s> =
    dyn FnMut(&LoadJob, &AtomicBool, &mut dyn FnMut(&Snapshot)) -> anyhow::Result<Sent> + 's;

/// Carries out one load that somebody else sends: its server, if there is one, is started and verified here.
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

/// Carries out one load beside a server that is started for it, if there is one.
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
        // The others were told to stop, which they cannot tell from a user who does.
        run.measured.is_interrupted = process::interrupted();
    }
    run.is_partial = is_lost || !sent.losses.is_empty();
    run.parts = sent.parts;
    run.warnings = std::mem::take(&mut ready.warnings);
    run.warnings.extend(sent.losses);
    if run.measured.has_lost_server() {
        // Otherwise it would seem to have been ended by us.
        let _ = ready.server.as_ref().map(Served::is_dying);
    }
    run.server = ready.end()?;
    let died = run.server.as_ref().and_then(|server| server.died.clone());
    if let Some(died) = died {
        run.is_partial = true;
        run.warnings.push(format!(
            "The server {died} during the load, and the load was stopped."
        ));
        // The generator cannot tell who stopped it.
        run.measured.is_interrupted = process::interrupted();
    }
    Ok(run)
}

/// A load that was measured and nothing else.
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

/// Sends the load from this machine, with one generator or several.
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

/// Has the load sent, and watches over the server meanwhile.
fn measure(
    job: &LoadJob,
    server: Option<&Served>,
    send: &mut Sender<'_>,
    tell: &mut dyn FnMut(Notice),
) -> anyhow::Result<Sent> {
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // Started before the priority is changed, so that the watch never stands in the way.
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
