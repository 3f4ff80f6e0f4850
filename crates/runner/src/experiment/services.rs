//! Services a target depends on, such as a database: ready before the target starts, and stopped
//! after it.
//!
//! Start at [`Backing::start`]; [`keep`] runs services that several runs share.

use super::lifecycle::{listens, port_of_run};
use super::{Done, Fallible, Site, stage_failure, target};
use crate::load::UNLIMITED;
use crate::server::{Look, NotReady, TAIL_LINES, wait_until_ready};
use speedwell_model::assignment::{BackingService, Blank, Keeping, filled};
use speedwell_model::performed::{Stage, StageFailure};
use speedwell_process::{self as process, Ended, Service, Spec};
use std::thread;
use std::time::{Duration, Instant};

/// Interval for polling services.
const PULSE: Duration = Duration::from_millis(20);
/// Timeout of one readiness command.
const QUESTION: Duration = Duration::from_secs(10);

/// A service that is ready.
#[derive(Debug)]
pub struct Backing {
    name: String,
    service: Service,
    host: String,
    port: u16,
}

impl Backing {
    /// Starts a service and waits until it is ready.
    ///
    /// # Errors
    /// The stage that failed.
    pub fn start(
        own: &BackingService,
        site: &Site<'_>,
        ports: Option<(u16, u16)>,
    ) -> Fallible<Backing> {
        let port = port_of_run(None, ports, site)?;
        let host = site.host().to_string();
        let blanks = [("host".to_owned(), host.clone()), port_blank(port)];
        let mut spec = target::spec(&own.program.clone().fill(&blanks), Some(port));
        spec.shutdown = target::shutdown(&own.stop);
        spec.limit = UNLIMITED;
        let asked = own.ready.as_ref().map(|words| Spec {
            limit: QUESTION,
            ..question(&spec, words, &blanks)
        });
        let program = spec.program.display().to_string();
        let begin = Instant::now();
        let service = Service::start(spec)
            .map_err(|error| stage_failure(Stage::Start, format!("'{program}': {error}")))?;
        let limit = Duration::from_millis(own.within_ms);
        let found = wait_until_ready(&service, begin, limit, || match &asked {
            Some(spec) => answers(spec),
            None => listens(site, port, service.pid()).map(drop),
        });
        match found {
            Ok(_) => Ok(Backing {
                name: own.name.clone(),
                service,
                host,
                port,
            }),
            Err(why) => Err(unready(service, &why, limit)),
        }
    }

    /// Placeholders for the address of the service.
    pub fn blanks(&self) -> [Blank; 2] {
        [
            (format!("{}.host", self.name), self.host.clone()),
            (format!("{}.port", self.name), self.port.to_string()),
        ]
    }

    /// Name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Port of the service.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a failure if the service has ended by itself.
    pub fn lost(&self) -> Option<StageFailure> {
        let has_ended = self.service.has_ended() && !process::interrupted();
        has_ended.then(|| stage_failure(Stage::Alive, "it ended by itself"))
    }

    /// Stops the service.
    ///
    /// # Errors
    /// It had to be killed.
    pub fn stop(self, done: &mut Done) -> Fallible<()> {
        let outcome = self.service.stop();
        let outcome = outcome.map_err(|error| stage_failure(Stage::Stop, error.to_string()))?;
        done.performed.notes.extend(outcome.leftovers());
        if outcome.shutdown.is_some_and(|own| own.was_killed) {
            let reason = "it did not end when it was asked to, and was killed";
            return Err(StageFailure {
                stderr_tail: outcome.stderr.last_lines(TAIL_LINES),
                ..stage_failure(Stage::Stop, reason)
            });
        }
        Ok(())
    }
}

/// Attributes a failure to a service.
fn of_service(name: &str, why: StageFailure) -> StageFailure {
    StageFailure {
        reason: format!("service '{name}': {}", why.reason),
        ..why
    }
}

/// Starts services in order, since later ones may need earlier ones. Adds the address of each to
/// `blanks`.
pub(super) fn start_all(
    services: &[BackingService],
    site: &Site<'_>,
    ports: Option<(u16, u16)>,
    blanks: &mut Vec<Blank>,
) -> Fallible<Vec<Backing>> {
    let mut started = Vec::new();
    for service in services {
        let own = Backing::start(&service.clone().fill(blanks), site, ports);
        let own: Backing = own.map_err(|why| of_service(&service.name, why))?;
        blanks.extend(own.blanks());
        started.push(own);
    }
    Ok(started)
}

/// Returns the failure of the first service that has ended by itself.
pub(super) fn lost(services: &[Backing]) -> Option<StageFailure> {
    let lost = |own: &Backing| own.lost().map(|why| of_service(own.name(), why));
    services.iter().find_map(lost)
}

/// Stops services in reverse order.
pub(super) fn stop_all(services: Vec<Backing>, done: &mut Done) -> Fallible<()> {
    let mut stopped = Ok(());
    for own in services.into_iter().rev() {
        let name = own.name().to_owned();
        stopped = stopped.and(own.stop(done).map_err(|why| of_service(&name, why)));
    }
    stopped
}

/// Runs services on this machine until an interrupt tells the process to stop them. Calls `ready`
/// with their addresses once all are ready.
///
/// # Errors
/// The stage that failed, or a service ended by itself.
pub fn keep(keeping: &Keeping, ready: &mut dyn FnMut(&[Blank]), done: &mut Done) -> Fallible<()> {
    let site = Site::default();
    let mut blanks = site.blanks();
    blanks.extend_from_slice(&keeping.kept);
    let known = blanks.len();
    let services = start_all(&keeping.services, &site, keeping.ports, &mut blanks)?;
    ready(&blanks[known..]);
    let ended = watch(|| lost(&services));
    let stopped = stop_all(services, done);
    ended.and(stopped)
}

/// Waits until the process is interrupted or something is lost.
///
/// # Errors
/// The failure returned by `lost`.
pub fn watch(lost: impl Fn() -> Option<StageFailure>) -> Fallible<()> {
    while !process::interrupted() {
        if let Some(why) = lost() {
            return Err(why);
        }
        thread::sleep(PULSE);
    }
    Ok(())
}

fn port_blank(port: u16) -> Blank {
    ("port".to_owned(), port.to_string())
}

/// Builds a command with the directory and environment of the service.
fn question(like: &Spec, words: &[String], blanks: &[Blank]) -> Spec {
    let mut words = words.iter().map(|word| filled(word, blanks));
    let mut spec = Spec::new(words.next().unwrap_or_default()).args(words);
    spec.directory.clone_from(&like.directory);
    spec.environment.clone_from(&like.environment);
    spec.unset.clone_from(&like.unset);
    spec
}

fn answers(question: &Spec) -> Result<(), Look> {
    let program = question.program.display();
    let outcome = process::run(question, &mut ())
        .map_err(|error| Look::Never(format!("'{program}' cannot be started: {error}")))?;
    match outcome.ended {
        Ended::Exit(0) => Ok(()),
        _ => {
            let said = outcome.stderr.last_lines(1);
            Err(Look::NotYet(format!(
                "'{program}': {} {said}",
                outcome.ended
            )))
        }
    }
}

fn unready(service: Service, why: &NotReady, limit: Duration) -> StageFailure {
    let reason = why.reason(limit);
    let outcome = service.stop();
    let mut failure = stage_failure(Stage::Ready, reason);
    if let Ok(outcome) = outcome {
        if matches!(why, NotReady::Ended) {
            failure.reason = format!("{}: {}", failure.reason, outcome.ended);
        }
        failure.stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
    }
    failure
}
