//! Starts a local server, waits until it is ready, and checks that no other process listens at its
//! address.
//!
//! This module decides whose responses are measured. It knows nothing about the requests. Start at
//! [`wait_until_ready`], which every server goes through, or at [`LoadServer::start`] for the
//! server of a load.

use anyhow::{Context, Result, bail};
use speedwell_load::load::ServerAddress;
use speedwell_machine::process::{self, ProcessEnd, ProcessSpec, ServiceProcess};
use speedwell_model::load::measurement::ServerOutcome;
use std::collections::BTreeSet;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A time limit longer than any load. Processes of a load need no limit: servers are stopped, and
/// tools and generators end by themselves or on Ctrl-C.
pub const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

const POLL_INTERVAL: Duration = Duration::from_millis(10);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Number of lines that are kept from the stderr of a server that died.
pub const TAIL_LINES: usize = 20;

/// Why a server is not ready.
pub enum ReadinessFailure {
    /// The server may still become ready. The text says what is missing.
    NotYet(String),
    /// The server cannot become ready, for this reason.
    Never(String),
}

/// Why a server did not become ready.
pub enum StartFailure {
    /// The user interrupted the wait.
    Interrupted,
    /// The server ended before it was ready.
    Ended,
    /// The server cannot become ready, for this reason.
    Never(String),
    /// The server was not ready in time. The text says what was still missing.
    TooSlow(String),
}

impl StartFailure {
    /// Formats the reason as the end of a sentence.
    pub fn reason(&self, limit: Duration) -> String {
        match self {
            StartFailure::Interrupted => "interrupted".to_owned(),
            StartFailure::Ended => "it ended before it was ready".to_owned(),
            StartFailure::Never(reason) => reason.clone(),
            StartFailure::TooSlow(missing) => {
                format!("not ready within {} s: {missing}", limit.as_secs_f64())
            }
        }
    }
}

/// Polls `check` until it succeeds, at most for `limit` by the clock of the service. Returns the
/// result of `check`, and the real time since `begin` in nanoseconds.
///
/// # Errors
/// See [`StartFailure`].
pub fn wait_until_ready<T>(
    service: &ServiceProcess,
    begin: Instant,
    limit: Duration,
    mut check: impl FnMut() -> Result<T, ReadinessFailure>,
) -> Result<(T, u64), StartFailure> {
    let clock = service.clock();
    let deadline = clock.now() + limit;
    loop {
        if process::is_interrupt_requested() {
            return Err(StartFailure::Interrupted);
        }
        if service.has_ended() {
            return Err(StartFailure::Ended);
        }
        let missing = match check() {
            Ok(result) => return Ok((result, begin.elapsed().as_nanos() as u64)),
            Err(ReadinessFailure::Never(reason)) => return Err(StartFailure::Never(reason)),
            Err(ReadinessFailure::NotYet(missing)) => missing,
        };
        if clock.now() > deadline {
            return Err(StartFailure::TooSlow(missing));
        }
        clock.wait(POLL_INTERVAL);
    }
}

/// Who listens at an address.
pub enum ListenerOwner {
    /// No known process of this machine.
    Nobody,
    /// The server, or a process that it started.
    Own,
    /// Other processes; contains their names.
    Stranger(String),
}

/// Returns who listens at an address, as seen from the server with root process `pid`.
pub fn find_listener_owner(address: &ServerAddress, pid: i32) -> ListenerOwner {
    let sockets = listening_sockets(address);
    if sockets.is_empty() {
        ListenerOwner::Nobody
    } else if process::holders_of(&sockets, process::tree_of(pid)).is_empty() {
        ListenerOwner::Stranger(process::names_of(&process::all_holders_of(&sockets)))
    } else {
        ListenerOwner::Own
    }
}

/// Names the processes that listen at an address, if any.
pub fn describe_listeners(address: &ServerAddress) -> Option<String> {
    let sockets = listening_sockets(address);
    (!sockets.is_empty()).then(|| process::names_of(&process::all_holders_of(&sockets)))
}

/// Returns a free port at this address of this machine.
///
/// # Errors
/// Fails if no port is free.
pub fn free_port(host: IpAddr) -> std::io::Result<u16> {
    TcpListener::bind((host, 0))?.local_addr().map(|address| address.port())
}

/// Builds a server command from a shell line.
pub fn shell_server(command: &str) -> ProcessSpec {
    ProcessSpec {
        limit: UNLIMITED,
        // The server may itself be a harness. It must not use the private channel of this process.
        unset: vec!["SPEEDWELL_FDS".to_owned()],
        ..ProcessSpec::new("/bin/sh").args(["-c", command])
    }
}

/// A load's server, which accepts connections.
#[derive(Debug)]
pub struct LoadServer {
    /// The process of the server.
    pub service: ServiceProcess,
    command: String,
    ready_ns: u64,
    cpu_before_ns: Option<u64>,
}

impl LoadServer {
    /// Starts the server and waits until one of the addresses accepts connections. Messages use
    /// `command` as the name of the server.
    ///
    /// # Errors
    /// Fails if the addresses are in use already, if the command ends or accepts no connection in
    /// time, or if another process accepts connections.
    pub fn start(
        spec: ProcessSpec,
        command: &str,
        limit: Duration,
        addresses: &[ServerAddress],
        warnings: &mut Vec<String>,
    ) -> Result<LoadServer> {
        check_not_in_use(addresses)?;
        let begin = Instant::now();
        let service = ServiceProcess::start(spec)
            .with_context(|| format!("cannot start the server '{command}'"))?;
        let ready = wait_until_ready(&service, begin, limit, || {
            let address = addresses
                .iter()
                .find(|address| accepts_connections(address))
                .ok_or_else(|| ReadinessFailure::NotYet(String::new()))?;
            check_owner(&service, command, address).map_err(ReadinessFailure::Never)
        });
        match ready {
            Ok((warning, ready_ns)) => {
                warnings.extend(warning);
                let command = command.to_owned();
                Ok(LoadServer { ready_ns, cpu_before_ns: None, command, service })
            }
            Err(StartFailure::Interrupted) => {
                bail!("interrupted while the server '{command}' was starting")
            }
            Err(StartFailure::Ended) => Err(early_exit_error(service, command)),
            Err(StartFailure::Never(reason)) => bail!(reason),
            Err(StartFailure::TooSlow(_)) => {
                let outcome = service.stop_and_wait();
                let tail = outcome.map(|outcome| outcome.stderr.last_lines(TAIL_LINES));
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                bail!(
                    "the server '{command}' did not accept connections at {} within {} s{}\n\
                     hint: is that the address it serves? --serve-timeout gives it more time",
                    addresses.join(", "),
                    limit.as_secs_f64(),
                    quote_output(&tail.unwrap_or_default())
                )
            }
        }
    }

    /// Starts counting the server's processor time.
    pub fn start_counting(&mut self) {
        self.cpu_before_ns = process::cpu_ns_of(self.service.pid());
    }

    /// Stops the server.
    ///
    /// # Errors
    /// Fails if waiting for the exit of the server fails.
    pub fn stop(self) -> Result<ServerOutcome> {
        let cpu_ns = process::cpu_ns_of(self.service.pid()).zip(self.cpu_before_ns);
        let has_died = self.service.has_ended();
        let stopped = self.service.stop_and_wait();
        let outcome =
            stopped.with_context(|| format!("cannot wait for the server '{}'", self.command))?;
        let stderr_tail = outcome.stderr.last_lines(TAIL_LINES);
        Ok(ServerOutcome {
            command: self.command,
            ready_ns: self.ready_ns,
            cpu_ns: cpu_ns.map(|(after, before)| after.saturating_sub(before)),
            stderr_tail: if has_died { stderr_tail } else { String::new() },
            died: has_died.then(|| outcome.ended.to_string()),
        })
    }
}

fn accepts_connections(address: &ServerAddress) -> bool {
    match address {
        ServerAddress::Internet(socket) => {
            TcpStream::connect_timeout(socket, CONNECT_TIMEOUT).is_ok()
        }
        ServerAddress::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}

fn listening_sockets(address: &ServerAddress) -> BTreeSet<u64> {
    match address {
        ServerAddress::Internet(socket) => process::sockets_at(*socket),
        ServerAddress::Unix(path) => process::sockets_at_path(path),
    }
}

/// Whether an address belongs to this machine. Only then does the kernel of this machine know which
/// process listens there.
fn is_local(address: &ServerAddress) -> bool {
    match address {
        ServerAddress::Internet(socket) => TcpListener::bind((socket.ip(), 0)).is_ok(),
        ServerAddress::Unix(_) => true,
    }
}

fn check_not_in_use(addresses: &[ServerAddress]) -> Result<()> {
    for address in addresses {
        if let Some(names) = describe_listeners(address) {
            bail!(
                "'{address}' is already in use by {names}: its responses would be mistaken for \
                 responses of the server that --serve starts\nhint: stop that process, or leave \
                 out --serve to send the requests to it"
            );
        }
    }
    Ok(())
}

/// Checks that a process started by the command owns the listening socket. Returns a warning if the
/// owner cannot be determined.
fn check_owner(
    service: &ServiceProcess,
    command: &str,
    address: &ServerAddress,
) -> Result<Option<String>, String> {
    let names = match find_listener_owner(address, service.pid()) {
        ListenerOwner::Own => return Ok(None),
        ListenerOwner::Nobody if !is_local(address) => {
            return Ok(Some(format!(
                "'{address}' is on another machine: Speedwell cannot check that its responses come \
                 from the started server."
            )));
        }
        ListenerOwner::Nobody => process::names_of(&[]),
        ListenerOwner::Stranger(names) => names,
    };
    Err(format!(
        "'{address}' is served by {names}, which '{command}' did not start\nhint: a server must \
         stay in the foreground; to measure a server that is already running, leave out --serve"
    ))
}

fn early_exit_error(service: ServiceProcess, command: &str) -> anyhow::Error {
    match service.stop_and_wait() {
        Err(error) => anyhow::Error::new(error).context(format!("the server '{command}' ended")),
        Ok(outcome) => {
            let hint = match outcome.ended {
                ProcessEnd::Exit(0) => {
                    "\nhint: the command must stay in the foreground as long as it serves"
                }
                _ => "",
            };
            anyhow::anyhow!(
                "the server '{command}' {} before it accepted connections{}{hint}",
                outcome.ended,
                quote_output(&outcome.stderr.last_lines(TAIL_LINES))
            )
        }
    }
}

/// Formats a server's output for the end of a message.
fn quote_output(tail: &str) -> String {
    if tail.is_empty() { String::new() } else { format!("; it wrote:\n{tail}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_machine::process::WaitClock;

    fn start_service(command: &str, clock: WaitClock) -> ServiceProcess {
        ServiceProcess::start(ProcessSpec { clock, ..shell_server(command) }).unwrap()
    }

    #[test]
    fn a_server_not_ready_in_time_is_reported_with_its_last_missing_condition() {
        let clock = WaitClock::movable();
        let service = start_service("exec sleep 600", clock);
        let mut looks = 0;
        let found = wait_until_ready(&service, Instant::now(), 30 * CONNECT_TIMEOUT, || {
            clock.advance(10 * CONNECT_TIMEOUT);
            looks += 1;
            Err::<(), ReadinessFailure>(ReadinessFailure::NotYet(format!(
                "nothing at look {looks}"
            )))
        });
        assert!(
            matches!(&found, Err(StartFailure::TooSlow(why)) if why == "nothing at look 4"),
            "{looks} looks"
        );
    }

    #[test]
    fn waiting_ends_when_the_server_exits_or_becomes_ready() {
        let clock = WaitClock::movable();
        let service = start_service("exit 3", clock);
        let nothing = || Err::<(), ReadinessFailure>(ReadinessFailure::NotYet(String::new()));
        let found = wait_until_ready(&service, Instant::now(), CONNECT_TIMEOUT, nothing);
        assert!(matches!(found, Err(StartFailure::Ended)));

        let service = start_service("exec sleep 600", clock);
        let mut looks = 0;
        let found = wait_until_ready(&service, Instant::now(), 30 * CONNECT_TIMEOUT, || {
            clock.advance(10 * CONNECT_TIMEOUT);
            looks += 1;
            (looks == 3).then_some("here").ok_or_else(|| ReadinessFailure::NotYet(String::new()))
        });
        assert!(matches!(found, Ok(("here", _))), "{looks} looks");
    }
}
