//! One run of an experiment whose roles run on different machines, each with its own connection to
//! this process. Services start before the target, and the load machines send the load. Start at
//! [`perform`]; [`keep`] runs services that several runs share.

use super::line::Role;
use super::relocate::Moved;
use super::worker::{Answer, Finished, Order, Said, ServiceOrder, TargetOrder, Wanted};
use crate::load::machines::Generators;
use anyhow::{Result, bail};
use speedwell_fleet::Engine;
use speedwell_load::load::Part;
use speedwell_model::Placement;
use speedwell_model::assignment::{Assignment, BackingService, Blank, Keeping};
use speedwell_model::load_run::LoadRun;
use speedwell_model::performed::{Performed, Stage, StageFailure};
use speedwell_process as process;
use speedwell_runner::experiment::{self, Done, Fallible, stage_failure, watch};
use speedwell_runner::load::{as_run, job};
use speedwell_suite::fleet::FleetFile;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Poll interval for reasons to end a load.
const PULSE: Duration = Duration::from_millis(10);
/// How long after its consequences the end of a service may be noticed.
const LATER: Duration = Duration::from_millis(300);

/// Performs a run, on this machine or on those where its roles are placed.
pub fn perform(assignment: &Assignment, seed: u64) -> Done {
    let Some(placement) = &assignment.placement else {
        return experiment::perform(assignment, seed);
    };
    let mut done = Done::default();
    let ended = live(assignment, placement, seed, &mut done);
    done.performed.failure = ended.err();
    done
}

fn live(
    assignment: &Assignment,
    placement: &Placement,
    seed: u64,
    done: &mut Done,
) -> Fallible<()> {
    if assignment.profile.is_some() {
        let reason = "profiles are taken on one machine, and [place] has others";
        return Err(stage_failure(Stage::Profile, reason));
    }
    let file = FleetFile::read(&placement.fleet)
        .map_err(|error| stage_failure(Stage::Start, format!("{error:#}")))?;
    let mut run = Run {
        assignment,
        placement,
        seed,
        engine: Engine::of_file(&file).within(placement.allocation.as_ref()),
        file,
        blanks: blanks(placement, &assignment.kept),
        load_failure: None,
    };
    let mut services: Vec<Role> = Vec::new();
    let wanted = (&assignment.services[..], assignment.ports);
    let engine = &mut run.engine;
    let ended = match start_services(engine, placement, wanted, &mut run.blanks, &mut services) {
        Ok(()) => run.have_target(&services, done),
        Err(why) => Err(why),
    };
    let lost = match &ended {
        Err(_) if !process::interrupted() => lost(&services),
        _ => None,
    };
    let stopped = end_all(services, done);
    match lost {
        Some(why) => Err(why),
        None => ended.and(stopped),
    }
}

/// Starts services, reports their addresses by `ready`, and keeps them alive until this process is
/// interrupted or one is lost. Returns notes and any failure.
pub fn keep(keeping: &Keeping, ready: &mut dyn FnMut(&[Blank])) -> Performed {
    let mut done = Done::default();
    let ended = match &keeping.placement {
        None => experiment::keep(keeping, ready, &mut done),
        Some(placement) => keep_there(keeping, placement, ready, &mut done),
    };
    done.performed.failure = ended.err();
    done.performed
}

/// Like [`keep`], on the machines where the services are placed.
fn keep_there(
    keeping: &Keeping,
    placement: &Placement,
    ready: &mut dyn FnMut(&[Blank]),
    done: &mut Done,
) -> Fallible<()> {
    let file = FleetFile::read(&placement.fleet)
        .map_err(|error| stage_failure(Stage::Start, format!("{error:#}")))?;
    let mut engine = Engine::of_file(&file).within(placement.allocation.as_ref());
    let mut known = blanks(placement, &keeping.kept);
    let before = known.len();
    let mut services: Vec<Role> = Vec::new();
    let wanted = (&keeping.services[..], keeping.ports);
    let ended = start_services(&mut engine, placement, wanted, &mut known, &mut services);
    let ended = ended.and_then(|()| {
        ready(&known[before..]);
        watch(|| services.iter().find_map(Role::lost))
    });
    let stopped = end_all(services, done);
    ended.and(stopped)
}

/// Placeholders known before anything starts: the target's host, and services that outlive the
/// target.
fn blanks(placement: &Placement, kept: &[Blank]) -> Vec<Blank> {
    let host = placement.of_target().address.to_string();
    let mut known = vec![("target.host".to_owned(), host)];
    known.extend_from_slice(kept);
    known
}

/// Starts services one after the other, each on its machine, since later ones may need earlier
/// ones. Adds their addresses to `blanks`.
fn start_services(
    engine: &mut Engine,
    placement: &Placement,
    (services, ports): (&[BackingService], Option<(u16, u16)>),
    blanks: &mut Vec<Blank>,
    started: &mut Vec<Role>,
) -> Fallible<()> {
    for service in services {
        let machine = placement.of_service(&service.name);
        let moved = Moved {
            from: &placement.root,
            to: &machine.root,
        };
        let order = Order::Serve(Box::new(ServiceOrder {
            service: moved.service(service.clone()).fill(blanks),
            address: machine.address,
            ports,
            folder: machine.folder.clone(),
        }));
        let name = format!("service '{}'", service.name);
        let there = (machine.name.as_str(), machine.program.as_str());
        let role = Role::open(engine, there, &name, &order)?;
        let port = match role.next()? {
            Said::Ready(port) => port,
            Said::Done(done) => return Err(role.named(failure_of(*done))),
            _ => return Err(role.named(unexpected())),
        };
        let blank = |what: &str, text: String| (format!("{}.{what}", service.name), text);
        blanks.push(blank("host", machine.address.to_string()));
        blanks.push(blank("port", port.to_string()));
        started.push(role);
    }
    Ok(())
}

fn end_all(services: Vec<Role>, done: &mut Done) -> Fallible<()> {
    let mut ended = Ok(());
    for service in services.into_iter().rev() {
        let own = service.end(&mut done.performed.notes);
        ended = ended.and(own);
    }
    ended
}

/// The service whose loss made the target fail. Its end may be noticed a little later than the
/// failure.
fn lost(services: &[Role]) -> Option<StageFailure> {
    let begin = Instant::now();
    loop {
        let lost = services.iter().find_map(Role::lost);
        if lost.is_some() || services.is_empty() || begin.elapsed() > LATER {
            return lost;
        }
        thread::sleep(PULSE);
    }
}

struct Run<'a> {
    assignment: &'a Assignment,
    placement: &'a Placement,
    seed: u64,
    file: FleetFile,
    engine: Engine,
    /// Placeholders known so far.
    blanks: Vec<Blank>,
    /// Why the load could not be sent.
    load_failure: Option<String>,
}

impl Run<'_> {
    /// Runs the target and sends the loads that it requests.
    fn have_target(&mut self, services: &[Role], done: &mut Done) -> Fallible<()> {
        let machine = self.placement.of_target();
        let moved = Moved {
            from: &self.placement.root,
            to: &machine.root,
        };
        let mut blanks = self.blanks.clone();
        blanks.push(("host".to_owned(), machine.address.to_string()));
        let assignment = Assignment {
            services: Vec::new(),
            placement: None,
            ..moved.assignment(self.assignment.clone().fill(&blanks))
        };
        let order = Order::Perform(Box::new(TargetOrder {
            assignment,
            seed: self.seed,
            address: machine.address,
            folder: machine.folder.clone(),
        }));
        let there = (machine.name.as_str(), machine.program.as_str());
        let target = Role::open(&mut self.engine, there, "target", &order)?;
        loop {
            match target.next()? {
                Said::Load(wanted) => {
                    let sent = self.load(&wanted, &target, services);
                    self.load_failure = sent.as_ref().err().map(|error| format!("{error:#}"));
                    target.answer(&match sent {
                        Ok(run) => Answer::Sent(Box::new(run)),
                        Err(error) => Answer::NotSent(format!("{error:#}")),
                    });
                }
                Said::StopLoad => {}
                Said::Done(finished) => {
                    let Finished { performed, load } = *finished;
                    (done.performed, done.load) = (performed, load);
                    let why = done.performed.failure.take();
                    return why.map_or(Ok(()), |why| Err(self.named(&target, why)));
                }
                _ => return Err(target.named(unexpected())),
            }
        }
    }

    /// Attributes a failure to the machines that send the load, or to the target.
    fn named(&self, target: &Role, why: StageFailure) -> StageFailure {
        let is_of_load = |failure: &String| why.reason.contains(failure.as_str());
        match (&self.load_failure, why.stage) {
            (Some(failure), Stage::Warmup | Stage::Load) if is_of_load(failure) => StageFailure {
                reason: failure.clone(),
                ..why
            },
            (_, Stage::Served) => StageFailure {
                reason: format!("load from {}: {}", self.names_of_load(), why.reason),
                ..why
            },
            _ => target.named(why),
        }
    }

    fn names_of_load(&self) -> String {
        let name = |at: &usize| format!("'{}'", self.placement.machines[*at].name);
        let names: Vec<String> = self.placement.load.iter().map(name).collect();
        names.join(", ")
    }

    /// Sends a load from its machines. It ends early if the target or a service is lost.
    fn load(&self, wanted: &Wanted, target: &Role, services: &[Role]) -> Result<LoadRun> {
        // A machine without a connection would have nothing to send.
        let most = wanted.spec.concurrency.unwrap_or(u32::MAX).max(1) as usize;
        let machines = (self.placement.load.iter().take(most)).map(|at| {
            let machine = &self.placement.machines[*at];
            (machine.name.clone(), machine.program.clone())
        });
        let engine = Engine::of_file(&self.file).within(self.placement.allocation.as_ref());
        let mut generators = Generators::at(engine, machines);
        let job = job(&generators.whole(&wanted.spec), wanted.seed, Part::WHOLE)?;
        let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let alarms: Vec<&AtomicBool> = (services.iter().chain([target])).map(Role::alarm).collect();
        let sent = thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let has_alarm = alarms.iter().any(|alarm| alarm.load(Ordering::Relaxed));
                    if has_alarm || process::interrupted() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    thread::sleep(PULSE);
                }
            });
            let sent = generators.send(&job, &stop, &mut |_| ());
            over.store(true, Ordering::Relaxed);
            sent
        })?;
        if let Some((part, why)) =
            (sent.parts.iter()).find_map(|part| Some((part, part.lost.as_ref()?)))
        {
            bail!(
                "load from '{}': it was lost after {} requests: {why}",
                part.machine,
                part.attempted
            );
        }
        if let Some(loss) = sent.losses.first() {
            bail!("load from {loss}");
        }
        let mut run = as_run(&job, sent.measured);
        run.parts = sent.parts;
        Ok(run)
    }
}

pub(super) fn failure_of(done: Finished) -> StageFailure {
    done.performed.failure.unwrap_or_else(unexpected)
}

pub(super) fn unexpected() -> StageFailure {
    stage_failure(Stage::Start, "it says something else than it should")
}
