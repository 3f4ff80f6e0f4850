//! Runs on a machine that measures for a detached session. Starts a worker for the received
//! requests, streams the worker's spools when a coordinator reconnects, and ends the worker.

use super::shard_request::{request_path, stop_marker};
use crate::machines::{JobId, detached};
use anyhow::{Context, ensure};
use speedwell_machine::process;
use speedwell_machine::worker::WorkerLink;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const WORKER_EXIT_GRACE: Duration = Duration::from_secs(5);

/// Starts a detached worker for these requests, and returns its ID.
///
/// # Errors
/// Fails if a request cannot be saved or the worker cannot be started.
pub(crate) fn launch_worker(folder: &Path, requests: &[String]) -> anyhow::Result<JobId> {
    let _ = fs::remove_file(stop_marker(folder));
    let mut tasks: Vec<u32> = Vec::new();
    for request in requests {
        let next = tasks.last().map_or(0, |last| last + 1);
        let task = (next..)
            .find(|&task| !request_path(folder, task).exists())
            .context("too many requests")?;
        let file = request_path(folder, task);
        fs::write(&file, request).with_context(|| format!("cannot write '{}'", file.display()))?;
        tasks.push(task);
    }
    ensure!(!tasks.is_empty(), "no requests");
    // The coordinator that sent these requests replaces an earlier coordinator, whose connection
    // may have broken. So the earlier worker has to end first.
    let name_file = folder.join("worker");
    if let Ok(earlier) = fs::read_to_string(&name_file) {
        detached::end_worker(&JobId(earlier), WORKER_EXIT_GRACE)?;
    }
    let worker = detached::start_worker(folder, &tasks)?;
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
pub fn stream_spools(folder: &Path, arguments: &[String], follows: bool) -> anyhow::Result<bool> {
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
                || detached::has_ended(&job)
                || spools[index + 1..].iter().any(|next| path(next).exists());
            if file.is_none() {
                file = File::open(path(spool)).ok();
            }
            let copied = match &mut file {
                Some(file) => io::copy(file, &mut output)?,
                None => 0,
            };
            output.flush()?;
            if is_last_pass || process::is_interrupt_requested() {
                break;
            }
            if copied == 0 {
                thread::sleep(POLL_INTERVAL);
            }
        }
    }
    Ok(detached::has_ended(&job))
}

/// Ends a worker: asks it to stop and kills it after a grace period.
///
/// # Errors
/// Fails if the worker belongs to another user.
pub(crate) fn end_worker(folder: &Path, job: &JobId) -> anyhow::Result<()> {
    let _ = fs::write(stop_marker(folder), "");
    detached::end_worker(job, WORKER_EXIT_GRACE)
}
