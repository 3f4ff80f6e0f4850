//! The remote side: measures shards on this machine and writes their spools.
//!
//! Holds the machine lock while it measures, so that other measurements wait. Before every block it
//! checks whether a later attempt has started, and stops if so. Start at [`perform`].

use super::doubles;
use super::order::{Order, order_of, over_of, spool_of, stop_of};
use crate::resume::attach_definitions;
use crate::session::{Decider, build_packages};
use anyhow::{Context, ensure};
use speedwell_environment as environment;
use speedwell_fleet::{Identity, MachineLock, Turn, clean};
use speedwell_harness::plan::Plan;
use speedwell_model::{Event, Observer, SessionMachine};
use speedwell_process as process;
use speedwell_results::spool::{Header, Spool, VERSION};
use speedwell_runner::{self as runner, Ended, Orders};
use std::fs;
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(50);
/// Shorter waits are not reported: shards of one session follow each other.
const SOON: Duration = Duration::from_secs(60);

/// Performs the tasks with these numbers, or those that arrive as lines on stdin if the only word
/// is `-`. The end of that input ends the worker.
///
/// # Errors
/// Fails if a request cannot be read or a spool cannot be written. Failures while measuring are
/// recorded in the spool.
pub fn perform(folder: &Path, tasks: &[String]) -> anyhow::Result<()> {
    process::adopt_orphans();
    process::on_interrupt()?;
    if tasks == ["-"] {
        for line in orders_of_input() {
            let order = serde_json::from_str(&line).context("an order cannot be read")?;
            attempt(folder, &order, Some(Box::new(io::stdout())))?;
        }
        return Ok(());
    }
    clean_up(folder);
    for task in tasks {
        let number: u32 = task
            .parse()
            .with_context(|| format!("'{task}' is not the number of a task"))?;
        let file = order_of(folder, number);
        let read =
            || -> anyhow::Result<Order> { Ok(serde_json::from_str(&fs::read_to_string(&file)?)?) };
        let order = read().with_context(|| format!("cannot read '{}'", file.display()))?;
        attempt(folder, &order, None)?;
        if process::interrupted() {
            break;
        }
    }
    Ok(())
}

/// Removes sessions from the fleet folder that have not been written to for two weeks.
fn clean_up(session: &Path) {
    let fleet = session.ancestors().nth(2);
    if let Some(fleet) = fleet.filter(|_| {
        session
            .parent()
            .is_some_and(|own| own.ends_with("sessions"))
    }) {
        // No reason not to measure; the next worker tries again.
        let _ = clean::clean(fleet, clean::Which::Older(clean::OLD));
    }
}

/// Lines of stdin, read by a thread. Their end is the end of our lease and interrupts the
/// measurement.
fn orders_of_input() -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
        process::interrupt_flag().store(true, std::sync::atomic::Ordering::Relaxed);
    });
    receiver
}

fn attempt(
    folder: &Path,
    order: &Order,
    copy: Option<Box<dyn Write + Send>>,
) -> anyhow::Result<()> {
    let mut copy = copy;
    let mut begun: Option<(Plan, Spool)> = None;
    // Create the spool early if the wait is long, so that it can be reported.
    let waited = have_machine(folder, &mut |sentence| {
        if begun.is_none() {
            begun = Some(begin(folder, order, copy.take())?);
        }
        let spool = begun.as_mut().map(|(_, spool)| spool);
        spool.map_or(Ok(()), |spool| spool.warn(sentence))
    })?;
    let Some(_lock) = waited else {
        return Ok(());
    };
    let (plan, mut spool) = match begun {
        Some(begun) => begun,
        None => begin(folder, order, copy)?,
    };
    let orders = orders(folder, order, (&plan, &mut spool))?;
    let mut fence = Fence {
        folder,
        order,
        reason: None,
    };
    let mut judge = Decider::new(&plan, &order.settings);
    // Only sources of packages are sent, because builds depend on the machine.
    let ready = fence
        .ensure_open()
        .and_then(|()| build_packages(&plan, &mut spool));
    let ended = ready
        .and_then(|()| runner::execute(&plan, orders, &mut judge, &mut [&mut spool, &mut fence]));
    match ended {
        Ok(Ended::Complete) => spool.end(None),
        // Report nothing more after an interrupt; a new request will follow.
        Ok(_) => Ok(()),
        Err(error) => spool.end(Some(fence.reason.unwrap_or_else(|| format!("{error:#}")))),
    }
}

/// Builds the options for the execution, with everything that need not be measured: what the
/// coordinator has, and what earlier attempts left here, which is copied to the spool.
fn orders(
    folder: &Path,
    order: &Order,
    (plan, spool): (&Plan, &mut Spool),
) -> anyhow::Result<Orders> {
    let mut orders = Orders {
        done: order.done.clone(),
        failed: order.failed.clone(),
        earlier: order.earlier_runs()?,
        ..Orders::default()
    };
    for (job, block) in doubles::left_by_earlier(folder, order, plan) {
        spool.take_over(job, &block)?;
        orders.done.extend(&block.slots);
        let failed = block.failures.iter().filter_map(|failure| failure.slot);
        orders.failed.extend(failed);
        orders.earlier.extend(block.runs);
    }
    Ok(orders)
}

/// Loads the plan of an attempt and creates its spool.
fn begin(
    folder: &Path,
    order: &Order,
    copy: Option<Box<dyn Write + Send>>,
) -> anyhow::Result<(Plan, Spool)> {
    let mut plan = order.plan()?;
    attach_definitions(&mut plan)?;
    let (machine, remark) = facts(order);
    let header = Header {
        version: VERSION,
        session: order.session.clone(),
        bundle: order.bundle.to_string_lossy().into_owned(),
        parcel: order.place,
        attempt: order.attempt,
        machine,
        boot: process::Identity::own().boot.unwrap_or_default(),
    };
    let labels = plan.jobs.iter().enumerate();
    let jobs = labels.map(|(at, job)| (plan.place_in_whole(at), job.label.clone()));
    let mut spool = Spool::create(&order.spool(folder), header, jobs.collect(), copy)?;
    if let Some(remark) = remark {
        spool.warn(&remark)?;
    }
    Ok((plan, spool))
}

/// Describes this machine, with a warning if its identity is uncertain.
fn facts(order: &Order) -> (SessionMachine, Option<String>) {
    let environment = environment::capture(&[]);
    let identity = Identity::of(Path::new("/"), &environment);
    let machine = SessionMachine {
        id: identity.id,
        name: order.machine.clone(),
        labels: order.labels.clone(),
        class: identity.class,
        environment,
        ..SessionMachine::default()
    };
    (machine, identity.remark)
}

/// Waits for exclusive use of this machine; `None` if the worker should stop. Reports a long wait
/// and the current holder by `tell`.
fn have_machine(
    folder: &Path,
    tell: &mut dyn FnMut(&str) -> anyhow::Result<()>,
) -> anyhow::Result<Option<MachineLock>> {
    let fleet = folder.ancestors().nth(2).unwrap_or(folder);
    let mut turn = Turn::alone(fleet)?;
    let (begin, mut is_said) = (Instant::now(), false);
    loop {
        if let Some(lock) = turn.come()? {
            return Ok(Some(lock));
        }
        if process::interrupted() || stop_of(folder).exists() {
            return Ok(None);
        }
        if !is_said && begin.elapsed() > SOON {
            is_said = true;
            let whom = turn.whom();
            tell(&format!(
                "waiting for {whom} to give the machine back; measuring begins then"
            ))?;
        }
        thread::sleep(LOOK);
    }
}

/// Stops a worker between two blocks.
struct Fence<'a> {
    folder: &'a Path,
    order: &'a Order,
    reason: Option<String>,
}

impl Fence<'_> {
    /// The reason not to start another block, if there is one.
    fn look(&mut self) -> Option<String> {
        let mut later = 1..4;
        let Order { place, attempt, .. } = *self.order;
        if let Some(later) = later
            .find(|more| spool_of(self.folder, place, attempt + more).exists())
            .map(|more| attempt + more)
        {
            self.reason = Some(format!("attempt {later} has taken over"));
        } else if over_of(self.folder, place, attempt).exists() {
            self.reason = Some("another attempt takes over".to_owned());
        } else if stop_of(self.folder).exists() {
            self.reason = Some("it was told to stop".to_owned());
        }
        self.reason.clone()
    }

    fn ensure_open(&mut self) -> anyhow::Result<()> {
        let reason = self.look();
        ensure!(reason.is_none(), "{}", reason.unwrap_or_default());
        Ok(())
    }
}

impl Observer for Fence<'_> {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        if matches!(event, Event::BlockDone { .. }) {
            self.ensure_open()?;
        }
        Ok(())
    }
}
