//! Runs the generators on a machine that sends part of a load on behalf of another machine. The
//! generators of all machines start at an agreed time.
//!
//! The coordinator, which runs on the other machine, sends a request as JSON. The worker replies
//! `ready FACTS`, and answers each `time` with the time of its clock. The coordinator then sends
//! `start NS`, a time by the worker's clock. The worker sends `at SNAPSHOT` from time to time and
//! `measured REPORT` at the end. It answers `time` until the connection closes. Closing the
//! connection or sending `stop` ends the load. Start at [`perform_load`].

use super::link::LinkWatch;
use crate::machines::{MachineIdentity, clock};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use speedwell_engine::execution::load::{
    CombinedResult, GeneratorShare, LoadJob, LoadSnapshot, StartSignal, WorkerAssignment,
    run_workers, send_load,
};
use speedwell_engine::execution::verify;
use speedwell_load::load::ServerAddress;
use speedwell_machine::environment;
use speedwell_machine::process;
use speedwell_model::load::measurement::LoadMeasurement;
use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Subcommand of [`process::WORKER_COMMAND`] that runs [`perform_load`].
pub const LOAD_SUBCOMMAND: &str = "load";

/// Number of trial connections before a load. A few suffice, because the server's kernel accepts
/// connections by itself. Many trials could overflow the server's accept queue; the kernel silently
/// drops the excess, and retries come seconds later.
const CONNECT_TRIALS: usize = 8;
/// Delay between trial connections, so that the server accepts one before the next arrives.
const CONNECT_DELAY: Duration = Duration::from_millis(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What a machine reports before a load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GeneratorReady {
    pub id: String,
    pub connect_ns: Option<u64>,
}

/// What a machine reports after a load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct GeneratorReport {
    pub measured: LoadMeasurement,
    /// When each generator started, by the machine's clock.
    pub began_ns: Vec<i64>,
    /// One sentence per generator process that died.
    pub losses: Vec<String>,
    pub link: Option<(String, f64)>,
}

/// Sends this machine's part of a load. The request on stdin describes the load.
///
/// # Errors
/// Fails if the connection breaks or the load cannot be sent from here.
pub fn perform_load() -> Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let request: WorkerAssignment =
        serde_json::from_str(&line).context("cannot parse the request")?;
    let mut job = request.job()?;
    if !request.spec.no_verify {
        let part = job.load.part;
        (job, _) = verify::verify_target(job)?;
        job.load.part = part;
    }
    let ready = GeneratorReady { id: machine_id(), connect_ns: min_connect_ns(&job) };
    let stop = Arc::new(AtomicBool::new(false));
    let listener: Mutex<Option<JoinHandle<()>>> = Mutex::new(None);
    let begin = || {
        let begin = await_agreed_start(&ready).unwrap_or(StartSignal::Never);
        if begin != StartSignal::Never {
            *listener.lock().unwrap_or_else(PoisonError::into_inner) =
                Some(answer_clock_queries(stop.clone()));
        }
        begin
    };
    let link_watch = LinkWatch::start();
    let Some(result) = send_part(&job, &request, &begin, &stop)? else {
        return Ok(());
    };
    let report = GeneratorReport {
        measured: result.measured,
        began_ns: result.began_ns,
        losses: result.losses,
        link: link_watch.most_used(),
    };
    send_message("measured", &report)?;
    if let Some(listener) = listener.into_inner().unwrap_or_else(PoisonError::into_inner) {
        // The coordinator queries the clock once more before it closes the connection.
        let _ = listener.join();
    }
    Ok(())
}

/// Sends this machine's part from this process or from several processes.
fn send_part(
    job: &LoadJob,
    request: &WorkerAssignment,
    begin: &(dyn Fn() -> StartSignal + Sync),
    stop: &AtomicBool,
) -> Result<Option<CombinedResult>> {
    let mut watch = |snapshot: &LoadSnapshot| {
        // A lost snapshot is harmless: if the connection is closed, the load is stopped anyway.
        let _ = send_message("at", snapshot);
    };
    if request.count > 1 {
        let share =
            GeneratorShare { first: request.index, count: request.count, total: request.of, begin };
        return run_workers(job, &share, stop, &mut watch).map(Some);
    }
    let Some(began_ns) = begin().wait() else {
        return Ok(None);
    };
    let measured = send_load(job, stop, &mut watch)?;
    Ok(Some(CombinedResult {
        measured,
        losses: Vec::new(),
        parts: Vec::new(),
        began_ns: vec![began_ns],
    }))
}

/// Reports readiness, answers clock queries, and returns the agreed start.
fn await_agreed_start(ready: &GeneratorReady) -> Result<StartSignal> {
    send_message("ready", ready)?;
    let line = clock::serve_clock(&mut io::stdin().lock(), &mut io::stdout())?;
    Ok(StartSignal::from_line(line.trim_end()))
}

fn send_message(word: &str, message: &impl Serialize) -> Result<()> {
    let json = serde_json::to_string(message)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{word} {json}")?;
    out.flush()?;
    Ok(())
}

/// Answers clock queries. Any other message, or the end of the connection, ends the load.
fn answer_clock_queries(stop: Arc<AtomicBool>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut input = io::stdin().lock();
        while let Ok(line) = clock::serve_clock(&mut input, &mut io::stdout()) {
            stop.store(true, Ordering::Relaxed);
            if line.is_empty() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    })
}

fn machine_id() -> String {
    MachineIdentity::from_environment(Path::new("/"), &environment::capture_environment(&[])).id
}

/// Returns the shortest time to connect, without TLS. Returns `None` if a connection failed.
fn min_connect_ns(job: &LoadJob) -> Option<u64> {
    let address = job.load.target.addresses.first()?;
    let connect = || {
        let begin = Instant::now();
        match address {
            ServerAddress::Internet(address) => {
                TcpStream::connect_timeout(address, CONNECT_TIMEOUT).map(drop)
            }
            ServerAddress::Unix(path) => UnixStream::connect(path).map(drop),
        }
        .ok()?;
        Some(begin.elapsed().as_nanos() as u64)
    };
    let mut min_ns = connect()?;
    for _ in 1..CONNECT_TRIALS {
        thread::sleep(CONNECT_DELAY);
        if process::is_interrupt_requested() {
            break;
        }
        min_ns = min_ns.min(connect()?);
    }
    Some(min_ns)
}
