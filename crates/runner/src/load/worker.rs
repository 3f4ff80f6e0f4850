//! The other half of `processes.rs`: one generator process out of several.

use super::processes::WorkerOrder;
use super::{build, carry_out};
use anyhow::Context;
use speedwell_load::load::Part;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Takes its order, says that it is ready, waits for the word, sends its part, and says what it measured.
///
/// # Errors
/// Nobody started this process as a worker, or the load could not be begun.
pub fn work() -> anyhow::Result<()> {
    let (orders, mut answers) = private_line().context("this is no generator process")?;
    let mut orders = BufReader::new(orders);
    let mut line = String::new();
    orders.read_line(&mut line)?;
    let order: WorkerOrder = serde_json::from_str(&line).context("the order cannot be read")?;
    let part = Part {
        index: order.index,
        of: order.of,
    };
    let mut job = build::job(&order.spec, order.seed, part)?;
    // What is left out was told by the process that started this one.
    drop(carry_out::keep_reachable(&mut job.load));
    writeln!(answers, "ready")?;
    let mut word = String::new();
    orders.read_line(&mut word)?;
    if word.trim() != "go" {
        return Ok(());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    std::thread::spawn(move || {
        // Any further word, and the end of the one who gives them, ends the load.
        let _ = orders.read_line(&mut String::new());
        flag.store(true, Ordering::Relaxed);
    });
    let measured = carry_out::generate(&job, &stop, &mut |snapshot| {
        // A lost look does no harm, and without anyone to look the load is stopped anyway.
        if let Ok(text) = serde_json::to_string(snapshot) {
            let _ = writeln!(answers, "at {text}");
        }
    })?;
    let text = serde_json::to_string(&measured)?;
    writeln!(answers, "measured {text}").context("cannot hand over what was measured")?;
    Ok(())
}

/// Where orders come from and answers go to, as the variable `SPEEDWELL_FDS` names them. They are
/// opened anew by their place in /proc, which needs no unsafe code and is the same pipe.
///
/// # Errors
/// Nobody started this process with a private line.
pub fn private_line() -> anyhow::Result<(File, File)> {
    let names = std::env::var("SPEEDWELL_FDS").context("SPEEDWELL_FDS is not set")?;
    let (orders, answers) = names
        .split_once(',')
        .context("SPEEDWELL_FDS does not name two descriptors")?;
    let at = |number: &str| format!("/proc/self/fd/{number}");
    Ok((
        File::open(at(orders))?,
        OpenOptions::new().write(true).open(at(answers))?,
    ))
}
