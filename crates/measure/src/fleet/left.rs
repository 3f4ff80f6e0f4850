//! A machine's part in work that nobody holds: takes orders and leaves a worker with them, reads its spools to whoever comes
//! back, and ends it.

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

/// How often spools are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a worker gets to end by itself.
const GRACE: Duration = Duration::from_secs(5);

/// Takes the orders of the input, one a line, and starts a worker for them that goes on by itself; its name.
///
/// # Errors
/// An order cannot be kept, or the worker cannot be started.
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
    // Whoever gives orders takes the place of whoever gave them before, whose line may have been cut.
    let known = folder.join("worker");
    if let Ok(earlier) = fs::read_to_string(&known) {
        detached::end(&JobId(earlier), GRACE)?;
    }
    let worker = detached::start(folder, &tasks)?.0;
    fs::write(&known, &worker).with_context(|| format!("cannot write '{}'", known.display()))?;
    Ok(worker)
}

/// Says the name of this process, and carries out tasks.
///
/// # Errors
/// As for [`perform`].
pub fn perform_alone(folder: &Path, tasks: &[String]) -> anyhow::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{}", detached::own_name())?;
    output.flush()?;
    perform(folder, tasks)
}

/// Writes the spools of a worker to the output, in the order of their names: what there is, or with `waits` until it has ended.
/// Whether it has.
///
/// # Errors
/// A spool cannot be read, or nobody listens.
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
            // Looked at first: what it wrote until then is read below.
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

/// Ends this process with its input: whoever listened is gone. What is only read is read to its end.
fn end_with_the_line() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::interrupt_flag().store(true, Ordering::Relaxed);
    });
}

/// Ends a worker: with its block if it is soon over, else at once.
///
/// # Errors
/// It belongs to somebody else.
pub fn end(folder: &Path, words: &[String]) -> anyhow::Result<()> {
    let name = words.first().context("no worker is named")?;
    let _ = fs::write(stop_of(folder), "");
    detached::end(&JobId(name.clone()), GRACE)
}
