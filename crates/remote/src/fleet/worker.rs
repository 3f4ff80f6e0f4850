//! Runs on a machine of a fleet: measures shards there and writes their spools.
//!
//! A worker holds the machine lock while it measures, so other measurements wait. Before every
//! block, the worker stops if a later attempt has started or a stop was requested. Start at
//! [`perform_tasks`].
//!
//! For a detached session, `launch_worker` starts a worker for the received requests,
//! [`stream_spools`] sends the worker's spools when a coordinator reconnects, and `end_worker`
//! ends the worker.

use super::attempt::{
    ShardRequest, attempt_spool_path, earlier_blocks, read_json, replaced_marker, request_path,
    stop_marker,
};
use crate::machines::{JobId, LockTicket, MachineIdentity, MachineLock, clean, local};
use anyhow::{Context, Result, bail, ensure};
use speedwell_adapters::plan::SessionPlan;
use speedwell_engine::execution::{self as runner, ExecuteOptions, SessionEnd};
use speedwell_engine::{AnalysisStoppingRule, attach_definitions, build_packages};
use speedwell_formats::spool::{self, SpoolHeader, SpoolWriter, VERSION};
use speedwell_machine::process;
use speedwell_machine::worker::{WorkerGreeting, WorkerLink};
use speedwell_model::{SessionEvent, SessionMachine, SessionObserver};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Shorter waits are not reported, because shards of one session often wait for each other.
const MIN_REPORTED_WAIT: Duration = Duration::from_secs(60);

/// Performs the tasks with these numbers. If `tasks` is a single `-`, performs requests of the
/// coordinator instead, until the coordinator ends the connection.
///
/// # Errors
/// Fails if a request cannot be read or a spool cannot be written. Failures while measuring are
/// recorded in the spool.
pub fn perform_tasks(folder: &Path, tasks: &[String]) -> Result<()> {
    if tasks == ["-"] {
        let link = WorkerLink::open()?;
        loop {
            match link.receive() {
                Ok(request) => run_attempt(folder, &request, Some(Box::new(io::stdout())))?,
                Err(_) if process::is_interrupt_requested() => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
    process::prepare_to_measure()?;
    WorkerGreeting::send()?;
    remove_old_sessions(folder);
    for task in tasks {
        let number: u32 = task.parse().with_context(|| format!("invalid task number '{task}'"))?;
        run_attempt(folder, &read_json(&request_path(folder, number))?, None)?;
        if process::is_interrupt_requested() {
            break;
        }
    }
    Ok(())
}

/// Removes the sessions in the fleet folder that have not been written to for two weeks.
fn remove_old_sessions(session: &Path) {
    let is_in_fleet = session.parent().is_some_and(|parent| parent.ends_with("sessions"));
    if let Some(fleet) = session.ancestors().nth(2).filter(|_| is_in_fleet) {
        // If the removal fails, the next worker tries again.
        let _ = clean::clean_folder(fleet, None);
    }
}

fn run_attempt(
    folder: &Path,
    request: &ShardRequest,
    mut copy: Option<Box<dyn Write + Send>>,
) -> Result<()> {
    let mut attempt: Option<(SessionPlan, SpoolWriter)> = None;
    // Create the spool early if the wait is long, because the spool reports the wait.
    let lock = wait_for_machine(folder, &mut |sentence| {
        if attempt.is_none() {
            attempt = Some(begin_attempt(folder, request, copy.take())?);
        }
        let spool = attempt.as_mut().map(|(_, spool)| spool);
        spool.map_or(Ok(()), |spool| spool.write_warning(sentence))
    })?;
    let Some(_lock) = lock else {
        return Ok(());
    };
    let (plan, mut spool) = match attempt {
        Some(attempt) => attempt,
        None => begin_attempt(folder, request, copy)?,
    };
    let options = execution_options(folder, request, (&plan, &mut spool))?;
    let mut guard = BlockGuard { folder, request, reason: None };
    let mut stopping_rule = AnalysisStoppingRule::new(&plan, &request.settings);
    // Packages are sent as sources and built here, because a build depends on the machine.
    let ready = guard.ensure_open().and_then(|()| build_packages(&plan, &mut spool));
    let result = ready.and_then(|()| {
        runner::execute(&plan, options, &mut stopping_rule, &mut [&mut spool, &mut guard])
    });
    match result {
        Ok(SessionEnd::Complete) => spool.end_spool(None),
        // Report nothing more after an interrupt; a new request will follow.
        Ok(_) => Ok(()),
        Err(error) => spool.end_spool(Some(guard.reason.unwrap_or_else(|| format!("{error:#}")))),
    }
}

/// Builds the options for the execution. They list everything that need not be measured again:
/// results that the coordinator already has, and blocks left here by earlier attempts. Those blocks
/// are copied to the spool.
fn execution_options(
    folder: &Path,
    request: &ShardRequest,
    (plan, spool): (&SessionPlan, &mut SpoolWriter),
) -> Result<ExecuteOptions> {
    let mut options = ExecuteOptions {
        completed_slots: request.done.clone(),
        failed_slots: request.failed.clone(),
        previous_runs: spool::parse_runs(&request.earlier)?,
        ..ExecuteOptions::default()
    };
    for (job, block) in earlier_blocks(folder, request, plan) {
        spool.copy_block(job, &block)?;
        options.completed_slots.extend(&block.slots);
        options.failed_slots.extend(block.failures.iter().filter_map(|failure| failure.slot));
        options.previous_runs.extend(block.runs);
    }
    Ok(options)
}

fn begin_attempt(
    folder: &Path,
    request: &ShardRequest,
    copy: Option<Box<dyn Write + Send>>,
) -> Result<(SessionPlan, SpoolWriter)> {
    let mut plan = request.load_plan()?;
    attach_definitions(&mut plan)?;
    let (identity, environment) = MachineIdentity::of_this_machine();
    let machine = SessionMachine {
        id: identity.id,
        name: request.machine.clone(),
        labels: request.labels.clone(),
        class: identity.class,
        environment,
        ..SessionMachine::default()
    };
    let header = SpoolHeader {
        version: VERSION,
        session: request.session.clone(),
        bundle: request.bundle.to_string_lossy().into_owned(),
        shard: request.number,
        attempt: request.attempt,
        machine,
        boot: process::ProcessIdentity::current_process().boot_id.unwrap_or_default(),
    };
    let labels = plan.jobs.iter().enumerate();
    let jobs = labels.map(|(index, job)| (plan.index_in_whole(index), job.label.clone()));
    let path = attempt_spool_path(folder, request.number, request.attempt);
    let mut spool = SpoolWriter::create(&path, header, jobs.collect(), copy)?;
    if let Some(warning) = identity.warning {
        spool.write_warning(&warning)?;
    }
    Ok((plan, spool))
}

/// Waits for exclusive use of this machine. Passes the current holder to `report` if the wait is
/// long. Returns `None` if the worker should stop.
fn wait_for_machine(
    folder: &Path,
    report: &mut dyn FnMut(&str) -> Result<()>,
) -> Result<Option<MachineLock>> {
    let mut ticket = LockTicket::exclusive(folder.ancestors().nth(2).unwrap_or(folder))?;
    let (begin, mut is_reported) = (Instant::now(), false);
    loop {
        if let Some(lock) = ticket.try_acquire()? {
            return Ok(Some(lock));
        }
        if process::is_interrupt_requested() || stop_marker(folder).exists() {
            return Ok(None);
        }
        if !is_reported && begin.elapsed() > MIN_REPORTED_WAIT {
            is_reported = true;
            let holders = ticket.describe_holders();
            report(&format!("waiting for {holders} to release the machine"))?;
        }
        thread::sleep(LOCK_POLL_INTERVAL);
    }
}

/// Stops a worker between two blocks.
struct BlockGuard<'a> {
    folder: &'a Path,
    request: &'a ShardRequest,
    reason: Option<String>,
}

impl BlockGuard<'_> {
    /// Fails if no other block may be started, and remembers the reason.
    fn ensure_open(&mut self) -> Result<()> {
        let ShardRequest { number, attempt, .. } = *self.request;
        let successor = (attempt + 1..attempt + 4)
            .find(|successor| attempt_spool_path(self.folder, number, *successor).exists());
        let reason = match successor {
            Some(successor) => format!("attempt {successor} has taken over"),
            None if replaced_marker(self.folder, number, attempt).exists() => {
                "another attempt is taking over".to_owned()
            }
            None if stop_marker(self.folder).exists() => "a stop was requested".to_owned(),
            None => return Ok(()),
        };
        self.reason = Some(reason.clone());
        bail!(reason)
    }
}

impl SessionObserver for BlockGuard<'_> {
    fn observe(&mut self, event: &SessionEvent<'_>) -> Result<()> {
        if matches!(event, SessionEvent::BlockDone { .. }) {
            self.ensure_open()?;
        }
        Ok(())
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const WORKER_EXIT_GRACE: Duration = Duration::from_secs(5);

/// Starts a detached worker for these requests, and returns its ID.
///
/// # Errors
/// Fails if a request cannot be saved or the worker cannot be started.
pub(crate) fn launch_worker(folder: &Path, requests: &[String]) -> Result<JobId> {
    let _ = fs::remove_file(stop_marker(folder));
    let mut tasks: Vec<u32> = Vec::new();
    for request in requests {
        let next = tasks.last().map_or(0, |last| last + 1);
        let free_task = (next..).find(|&task| !request_path(folder, task).exists());
        let task = free_task.context("too many requests")?;
        let file = request_path(folder, task);
        fs::write(&file, request).with_context(|| format!("cannot write '{}'", file.display()))?;
        tasks.push(task);
    }
    ensure!(!tasks.is_empty(), "no requests");
    // The coordinator that sent these requests replaces an earlier coordinator, whose connection
    // may have broken. So the earlier worker has to end first.
    let name_file = folder.join("worker");
    if let Ok(earlier) = fs::read_to_string(&name_file) {
        local::end_worker(&JobId(earlier), WORKER_EXIT_GRACE)?;
    }
    let worker = local::start_worker(folder, &tasks)?;
    fs::write(&name_file, &worker.0)
        .with_context(|| format!("cannot write '{}'", name_file.display()))?;
    Ok(worker)
}

/// Copies the spools of a worker to stdout. `arguments` holds the ID of the worker, followed by the
/// names of the spools in the order in which they are copied. Without `follows`, copies only
/// existing data. With `follows`, continues until the worker has ended. Returns whether the worker
/// has ended.
///
/// # Errors
/// Fails if a spool cannot be read or nothing reads the output.
pub fn stream_spools(folder: &Path, arguments: &[String], follows: bool) -> Result<bool> {
    let (name, spools) = arguments.split_first().context("no worker is named")?;
    let job = JobId(name.clone());
    let is_spool_name =
        |name: &String| name.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit());
    ensure!(spools.iter().all(is_spool_name), "invalid spool name");
    // The end of the connection interrupts this process, because nothing reads its output any
    // more. Without `follows`, the process ends by itself.
    let _link = if follows { Some(WorkerLink::open()?) } else { None };
    let path = |name: &String| folder.join("spools").join(format!("{name}.jsonl"));
    let mut output = io::stdout().lock();
    for (index, spool) in spools.iter().enumerate() {
        if process::is_interrupt_requested() {
            break;
        }
        let mut file: Option<File> = None;
        loop {
            // This check comes before the copy. The last copy then includes everything that was
            // written before the worker ended.
            let is_last_pass = !follows
                || local::has_ended(&job)
                || spools[index + 1..].iter().any(|next| path(next).exists());
            if file.is_none() {
                file = File::open(path(spool)).ok();
            }
            let copied = file.as_mut().map_or(Ok(0), |file| io::copy(file, &mut output))?;
            output.flush()?;
            if is_last_pass || process::is_interrupt_requested() {
                break;
            }
            if copied == 0 {
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
    Ok(local::has_ended(&job))
}

/// Ends a worker: asks it to stop and kills it after a grace period.
///
/// # Errors
/// Fails if the worker belongs to another user.
pub(crate) fn end_worker(folder: &Path, job: &JobId) -> Result<()> {
    let _ = fs::write(stop_marker(folder), "");
    local::end_worker(job, WORKER_EXIT_GRACE)
}
