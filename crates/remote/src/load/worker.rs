//! Sends part of a load on behalf of the coordinator, which runs on this or another machine. The
//! generators of all machines start at an agreed time. Start at [`perform_load`].

use super::link::LinkWatch;
use crate::machines::MachineIdentity;
use anyhow::Result;
use speedwell_engine::execution::load::{
    CombinedResult, GeneratorEvent, GeneratorReady, GeneratorReport, LoadJob, LoadSnapshot,
    StartSignal, WorkerAssignment, run_generators, send_load,
};
use speedwell_engine::execution::verify;
use speedwell_load::load::ServerAddress;
use speedwell_machine::environment;
use speedwell_machine::process;
use speedwell_machine::worker::WorkerLink;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Number of trial connections before a load. A few suffice, because the server's kernel accepts
/// connections by itself. Many trials could overflow the server's accept queue; the kernel silently
/// drops the excess, and retries come seconds later.
const CONNECT_TRIALS: usize = 8;
/// Delay between trial connections, so that the server accepts one before the next arrives.
const CONNECT_DELAY: Duration = Duration::from_millis(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the part of a load that the coordinator assigns to this process.
///
/// # Errors
/// Fails if the connection is lost or the load cannot be sent from here.
pub fn perform_load() -> Result<()> {
    let link = WorkerLink::open()?;
    let assignment: WorkerAssignment = link.receive()?;
    let mut job = assignment.job()?;
    let mut ready = GeneratorReady::default();
    if assignment.is_remote {
        if !assignment.spec.no_verify {
            let part = job.load.part;
            (job, _) = verify::verify_target(job)?;
            job.load.part = part;
        }
        ready = GeneratorReady { id: machine_id(), connect_ns: min_connect_ns(&job) };
    }
    let link_watch = assignment.is_remote.then(LinkWatch::start);
    let Some(result) = send_part(&job, assignment, &link, ready)? else {
        return Ok(());
    };
    link.send(&GeneratorEvent::Measured(Box::new(GeneratorReport {
        measured: result.measured,
        began_ns: result.began_ns,
        losses: result.losses,
        link: link_watch.and_then(|link_watch| link_watch.most_used()),
    })))?;
    // The coordinator queries the clock once more before it closes the connection.
    link.await_end();
    Ok(())
}

/// Sends the part from this process or from several processes, at the agreed start. Returns `None`
/// if the load does not start.
fn send_part(
    job: &LoadJob,
    assignment: WorkerAssignment,
    link: &WorkerLink,
    ready: GeneratorReady,
) -> Result<Option<CombinedResult>> {
    let begin = || {
        let sent = link.send(&GeneratorEvent::Ready(ready.clone()));
        sent.and_then(|()| link.receive()).unwrap_or(StartSignal::Never)
    };
    let mut watch = |snapshot: &LoadSnapshot| {
        // A lost snapshot is harmless: if the connection is closed, the load is stopped anyway.
        let _ = link.send(&GeneratorEvent::Progress(snapshot.clone()));
    };
    // The end of the connection, and a request to stop, interrupt this process.
    let stop = process::interrupt_flag();
    if assignment.count > 1 {
        let spec = job.spec.clone();
        let local = WorkerAssignment { spec, is_remote: false, ..assignment };
        return run_generators(&local, &begin, stop, &mut watch).map(Some);
    }
    let Some(began_ns) = begin().wait() else {
        return Ok(None);
    };
    let measured = send_load(job, stop, &mut watch)?;
    let began_ns = vec![began_ns];
    Ok(Some(CombinedResult { measured, losses: Vec::new(), parts: Vec::new(), began_ns }))
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
