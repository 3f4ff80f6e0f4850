//! Lifecycle of a server under measurement, stage by stage. Every stage has its own time limit and
//! failure.
//!
//! Start at [`live`], which lists the stages.

use super::counters::Counter;
use super::counters::Counting;
use super::figures::{Ready, Served};
use super::profiling::{self, Profiler};
use super::proof::Output;
use super::proof::{self, Evidence};
use super::{Done, Fallible, Site, counters, figures, stage_failure, target};
use crate::profile::Attached;
use crate::server::{Listener, Look, TAIL_LINES, free_port, in_use_by, listener, wait_until_ready};
use crate::verify;
use speedwell_load::load::Address;
use speedwell_model::assignment::{Assignment, Service as Serving};
use speedwell_model::performed::{Stage, StageFailure};
use speedwell_process::{self as process, Clock, CpuSet, Service, Spec, tree_of};
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant, SystemTime};

/// Performs the run of a server.
///
/// # Errors
/// The stage that failed. `done` holds what was measured before.
pub fn live(
    assignment: &Assignment,
    serving: &Serving,
    pin: Option<CpuSet>,
    run: (u64, &Site<'_>),
    done: &mut Done,
) -> Fallible<()> {
    let port = port_of_run(serving.port, assignment.ports, run.1)?;
    let counter = counters::wanted(assignment, done);
    let mut spec = target::spec(&assignment.target, Some(port));
    spec.shutdown = target::shutdown(&serving.stop);
    spec.pin = pin;
    let mut life = ServerLifecycle::start(assignment, serving, run, (port, spec))?;
    let ended = life.measured(counter.as_ref(), done);
    let mut served = match ended {
        Ok(served) => served,
        Err(why) => return Err(life.fallen(why)),
    };
    if let Some(recording) = served.recording.take() {
        life.end(done)?;
        return profiling::keep(recording, done);
    }
    figures::of_server(&served, &life.ready, done);
    done.load = served.load;
    life.end(done)
}

/// A running server.
pub(super) struct ServerLifecycle<'a> {
    assignment: &'a Assignment,
    pub(super) serving: &'a Serving,
    pub(super) seed: u64,
    pub(super) site: &'a Site<'a>,
    pub(super) service: Service,
    output: Output,
    port: u16,
    pub(super) url: String,
    started: SystemTime,
    pub(super) ready: Ready,
    profiler: Option<Profiler>,
    /// Recording that began with the server.
    attached: Option<Attached>,
}

impl<'a> ServerLifecycle<'a> {
    /// Starts the target and waits until it is ready.
    fn start(
        assignment: &'a Assignment,
        serving: &'a Serving,
        (seed, site): (u64, &'a Site<'a>),
        (port, mut spec): (u16, Spec),
    ) -> Fallible<ServerLifecycle<'a>> {
        let profiler = Profiler::wanted(assignment.profile.as_ref());
        if let Some(profiler) = &profiler {
            profiler.prepare(&mut spec);
        }
        let output = Output::default();
        let (started, begin) = (SystemTime::now(), Instant::now());
        let program = spec.program.display().to_string();
        let service = Service::conversing(spec, output.clone())
            .map_err(|error| stage_failure(Stage::Start, format!("'{program}': {error}")))?;
        let mut life = ServerLifecycle {
            url: serving.load.spec.url.replace("{port}", &port.to_string()),
            ready: Ready {
                took_ns: 0,
                address: SocketAddr::new(site.host(), port),
            },
            assignment,
            serving,
            seed,
            site,
            service,
            output,
            port,
            started,
            profiler,
            attached: None,
        };
        match life.attach(false) {
            Ok(attached) => life.attached = attached,
            Err(why) => return Err(life.fallen(why)),
        }
        match life.wait_until_ready(begin) {
            Ok(ready) => life.ready = ready,
            Err(why) => return Err(life.fallen(why)),
        }
        Ok(life)
    }

    fn wait_until_ready(&self, begin: Instant) -> Fallible<Ready> {
        let limit = Duration::from_millis(self.serving.ready.within_ms);
        let found = wait_until_ready(&self.service, begin, limit, || self.look());
        let (address, took_ns) =
            found.map_err(|why| stage_failure(Stage::Ready, why.reason(limit)))?;
        Ok(Ready { took_ns, address })
    }

    /// Checks whether the server is ready, and where it listens.
    fn look(&self) -> Result<SocketAddr, Look> {
        let address = listens(self.site, self.port, self.service.pid())?;
        let ready = &self.serving.ready;
        if let Some(path) = &ready.path {
            let url = verify::with_path(&self.url, path);
            let probe = verify::get(&url).map_err(Look::NotYet)?;
            if probe.status != ready.status {
                return Err(Look::NotYet(format!(
                    "'{url}' answers {} instead of {}",
                    probe.status, ready.status
                )));
            }
        }
        if let Some(wanted) = self.serving.children {
            let living = self.children().len();
            if living != wanted as usize {
                return Err(Look::NotYet(format!(
                    "it has {living} children instead of {wanted}"
                )));
            }
        }
        Ok(address)
    }

    /// Processes of the target except the root process.
    fn children(&self) -> BTreeSet<i32> {
        let own = self.service.pid();
        tree_of(own).into_iter().filter(|pid| *pid != own).collect()
    }

    /// Starts a recording if it is due now.
    fn attach(&self, is_warm: bool) -> Fallible<Option<Attached>> {
        let home = &self.assignment.target.directory;
        match &self.profiler {
            Some(profiler) => profiler.attach(&self.service, home, is_warm),
            None => Ok(None),
        }
    }

    /// Runs the stages from the variant's proof to the end of measuring.
    fn measured(&mut self, counter: Option<&Counter>, done: &mut Done) -> Fallible<Served> {
        self.prove(false)?;
        self.verify(Stage::Verify)?;
        self.warm_up(done)?;
        let attached = self.attached.take().or(self.attach(true)?);
        let before = self.children();
        let counting = Counting::begin(self.service.pid(), counter);
        let sent = self.load();
        let counted = counting.end();
        let peak_rss_bytes = process::peak_rss_bytes_of(self.service.pid());
        let recording = attached.map(Attached::stop).transpose();
        let (session, load) = sent?;
        let recording =
            recording.map_err(|error| stage_failure(Stage::Profile, format!("{error:#}")))?;
        self.all_served(&session, load.as_ref())?;
        self.verify(Stage::VerifyAgain)?;
        self.is_unchanged(&before)?;
        Ok(Served {
            session,
            load,
            counted,
            peak_rss_bytes,
            recording,
        })
    }

    fn prove(&self, at_exit: bool) -> Fallible<()> {
        let ask = |path: &str| {
            let probe = verify::get(&verify::with_path(&self.url, path))?;
            Ok(String::from_utf8_lossy(&probe.body).into_owned())
        };
        let evidence = Evidence {
            output: &self.output,
            directory: &self.assignment.target.directory,
            since: self.started,
            clock: self.service.clock(),
            ask: &ask,
        };
        proof::check(&self.assignment.proofs, at_exit, &evidence)
    }

    fn verify(&self, stage: Stage) -> Fallible<()> {
        let (rule, traffic) = (&self.serving.verify, &self.serving.load);
        verify::check(rule, &traffic.spec, &self.url).map_err(|why| stage_failure(stage, why))
    }

    /// Checks that the server is alive and has the same children as before the load.
    fn is_unchanged(&self, before: &BTreeSet<i32>) -> Fallible<()> {
        if self.service.has_ended() {
            return Err(stage_failure(Stage::Alive, "it ended after the load"));
        }
        let now = self.children();
        if now == *before {
            return Ok(());
        }
        let (lost, new) = (
            before.difference(&now).count(),
            now.difference(before).count(),
        );
        let reason = format!("{lost} of its children ended during the load, {new} new ones began");
        Err(stage_failure(Stage::Alive, reason))
    }

    /// Stops a target that failed, and adds its exit and last stderr lines to the reason.
    fn fallen(self, mut why: StageFailure) -> StageFailure {
        let has_ended = self.service.has_ended();
        if let Ok(outcome) = self.service.stop() {
            if has_ended {
                why.reason = format!("{}: {}", why.reason, outcome.ended);
            }
            why.stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
        }
        why
    }

    /// Stops the target and checks how it ended.
    fn end(self, done: &mut Done) -> Fallible<()> {
        let has_ended = self.service.has_ended();
        // Proofs at exit need its output after it has ended.
        let (output, port, site) = (self.output.clone(), self.port, self.site);
        let (assignment, started, url) = (self.assignment, self.started, self.url.clone());
        let outcome = self
            .service
            .stop()
            .map_err(|error| stage_failure(Stage::Stop, error.to_string()))?;
        let tail = || outcome.stderr.last_lines(TAIL_LINES);
        if has_ended {
            let reason = format!("it ended by itself: {}", outcome.ended);
            return Err(StageFailure {
                stderr_tail: tail(),
                ..stage_failure(Stage::Alive, reason)
            });
        }
        figures::of_end(&outcome, done);
        let evidence = Evidence {
            output: &output,
            directory: &assignment.target.directory,
            since: started,
            clock: Clock::REAL,
            ask: &|_| Err(format!("'{url}' has ended")),
        };
        proof::check(&assignment.proofs, true, &evidence).map_err(|why| StageFailure {
            stderr_tail: tail(),
            ..why
        })?;
        let was_killed = outcome.shutdown.is_some_and(|shutdown| shutdown.was_killed);
        if was_killed {
            let grace = Duration::from_millis(self.serving.stop.grace_ms).as_secs_f64();
            let reason = format!(
                "it did not end within {grace} s of signal {} and was killed",
                self.serving.stop.signal
            );
            return Err(StageFailure {
                stderr_tail: tail(),
                ..stage_failure(Stage::Stop, reason)
            });
        }
        if site
            .places(port)
            .iter()
            .any(|place| in_use_by(place).is_some())
        {
            let reason = format!("port {port} is still in use");
            return Err(stage_failure(Stage::Stop, reason));
        }
        Ok(())
    }
}

/// Picks the port of the run: the given one, which must be free, or else any free one, within
/// `ports` if given.
pub(super) fn port_of_run(
    port: Option<u16>,
    ports: Option<(u16, u16)>,
    site: &Site<'_>,
) -> Fallible<u16> {
    let holder = |port: u16| site.places(port).iter().find_map(in_use_by);
    match (port, ports) {
        (Some(port), _) => match holder(port) {
            None => Ok(port),
            Some(names) => {
                let reason = format!("{port} is in use already, by {names}");
                Err(stage_failure(Stage::Port, reason))
            }
        },
        (None, None) => {
            let failed = |error| stage_failure(Stage::Port, format!("no port is free: {error}"));
            free_port(site.host()).map_err(failed)
        }
        (None, Some((first, last))) => {
            // Concurrent runs start at different ports, so that they do not race for the same one.
            let count = u32::from(last - first) + 1;
            let begin = std::process::id() % count;
            let nth = |at: u32| first + ((begin + at) % count) as u16;
            let is_free = |port: &u16| TcpListener::bind((site.host(), *port)).is_ok();
            let free = (0..count)
                .map(nth)
                .find(|port| holder(*port).is_none() && is_free(port));
            let reason = || format!("none of {first}-{last} is free");
            free.ok_or_else(|| stage_failure(Stage::Port, reason()))
        }
    }
}

/// Returns where the process tree of `pid` listens.
pub(super) fn listens(site: &Site<'_>, port: u16, pid: i32) -> Result<SocketAddr, Look> {
    let nobody = match site.address {
        None => format!("nobody listens at port {port}"),
        Some(host) => format!("nobody listens at {}", SocketAddr::new(host, port)),
    };
    let mut why = Look::NotYet(nobody);
    for place in site.places(port) {
        match (listener(&place, pid), place) {
            (Listener::Own, Address::Internet(address)) => return Ok(address),
            (Listener::Stranger(who), _) => {
                why = Look::Never(format!(
                    "port {port} belongs to {who}, which the target did not start"
                ));
            }
            _ => {}
        }
    }
    Err(why)
}
