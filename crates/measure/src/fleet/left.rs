//! Remote side of a detached session: starts a worker for the requests it receives, streams the
//! worker's spools on reconnect, and ends the worker.

use super::order::{order_of, stop_of};
use super::worker::perform;
use anyhow::{Context, ensure};
use speedwell_fleet::{JobId, detached};
use speedwell_process as process;
use std::fs::{self, File};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_secs(5);

/// Reads requests from stdin, one per line, starts a detached worker for them and returns its name.
///
/// # Errors
/// Fails if a request cannot be saved or the worker cannot be started.
pub fn launch(folder: &Path) -> anyhow::Result<String> {
    let _ = fs::remove_file(stop_of(folder));
    let mut tasks: Vec<u32> = Vec::new();
    for line in io::stdin().lock().lines() {
        let next = tasks.last().map_or(0, |last| last + 1);
        let task = (next..).find(|&task| !order_of(folder, task).exists());
        let task = task.context("there are too many orders")?;
        let file = order_of(folder, task);
        fs::write(&file, line?).with_context(|| format!("cannot write '{}'", file.display()))?;
        tasks.push(task);
    }
    ensure!(!tasks.is_empty(), "there are no orders");
    // This coordinator replaces the previous one, whose connection may have broken.
    let known = folder.join("worker");
    if let Ok(earlier) = fs::read_to_string(&known) {
        detached::end(&JobId(earlier), GRACE)?;
    }
    let worker = detached::start(folder, &tasks)?.0;
    fs::write(&known, &worker).with_context(|| format!("cannot write '{}'", known.display()))?;
    Ok(worker)
}

/// Prints the name of this process, then performs the tasks.
///
/// # Errors
/// See [`perform`].
pub fn perform_alone(folder: &Path, tasks: &[String]) -> anyhow::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{}", detached::own_name())?;
    output.flush()?;
    perform(folder, tasks)
}

/// Copies the spools of a worker to stdout, in the given order: what exists now or, with `waits`,
/// until the worker has ended. Returns whether it has ended.
///
/// # Errors
/// Fails if a spool cannot be read or nothing reads the output.
pub fn follow(folder: &Path, words: &[String], waits: bool) -> anyhow::Result<bool> {
    let (name, spools) = words.split_first().context("no worker is named")?;
    let job = JobId(name.clone());
    let is_plain = |name: &String| {
        name.bytes()
            .all(|byte| byte == b'.' || byte.is_ascii_digit())
    };
    ensure!(
        spools.iter().all(is_plain),
        "that is not the name of a spool"
    );
    if waits {
        end_with_the_line();
    }
    let path = |name: &String| folder.join("spools").join(format!("{name}.jsonl"));
    let mut output = io::stdout().lock();
    for (at, spool) in spools.iter().enumerate() {
        if process::interrupted() {
            break;
        }
        let mut file: Option<File> = None;
        loop {
            // Check this first, so that everything written before the end is read below.
            let is_over = !waits
                || detached::has_ended(&job)
                || spools[at + 1..].iter().any(|next| path(next).exists());
            if file.is_none() {
                file = File::open(path(spool)).ok();
            }
            let copied = match &mut file {
                Some(file) => io::copy(file, &mut output)?,
                None => 0,
            };
            output.flush()?;
            if is_over || process::interrupted() {
                break;
            }
            if copied == 0 {
                thread::sleep(LOOK);
            }
        }
    }
    Ok(detached::has_ended(&job))
}

/// Stops following when stdin ends, since the reader is gone. Used only with `waits`: a plain read
/// runs to its end.
fn end_with_the_line() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::interrupt_flag().store(true, Ordering::Relaxed);
    });
}

/// Ends a worker: asks it to stop and kills it after a grace period.
///
/// # Errors
/// Fails if it belongs to another user.
pub fn end(folder: &Path, words: &[String]) -> anyhow::Result<()> {
    let name = words.first().context("no worker is named")?;
    let _ = fs::write(stop_of(folder), "");
    detached::end(&JobId(name.clone()), GRACE)
}
