//! A local server: when it is ready, and whether it is the process that listens.
//!
//! Decides whose responses are measured. Must not know what is sent. Start at [`wait_until_ready`],
//! which every server goes through, or at [`Served::start`] for the server of a load.

use crate::load::{ServerOutcome, UNLIMITED, shown_address as shown};
use anyhow::{Context, bail};
use speedwell_load::load::Address;
use speedwell_process::{self as process, Ended, Service, Spec};
use std::collections::BTreeSet;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Interval for polling a starting server.
const PULSE: Duration = Duration::from_millis(10);

/// Timeout of one connection attempt.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lines of stderr kept from a server that died.
pub const TAIL_LINES: usize = 20;

/// Why a server is not ready.
pub enum Look {
    /// It may become ready.
    NotYet(String),
    /// It cannot become ready.
    Never(String),
}

/// Why a server did not become ready.
pub enum NotReady {
    /// The user interrupted the wait.
    Interrupted,
    /// It ended first.
    Ended,
    /// It cannot become ready, for this reason.
    Never(String),
    /// It was not ready in time; this was missing last.
    TooSlow(String),
}

impl NotReady {
    /// Formats the reason as the end of a sentence.
    pub fn reason(&self, limit: Duration) -> String {
        match self {
            NotReady::Interrupted => "interrupted".to_owned(),
            NotReady::Ended => "it ended before it was ready".to_owned(),
            NotReady::Never(reason) => reason.clone(),
            NotReady::TooSlow(why) => format!("not within {} s: {why}", limit.as_secs_f64()),
        }
    }
}

/// Polls `look` until it succeeds, at most for `limit` by the clock of the service. Returns its
/// result and the real time since `begin`, in nanoseconds.
///
/// # Errors
/// See [`NotReady`].
pub fn wait_until_ready<T>(
    service: &Service,
    begin: Instant,
    limit: Duration,
    mut look: impl FnMut() -> Result<T, Look>,
) -> Result<(T, u64), NotReady> {
    let clock = service.clock();
    let until = clock.now() + limit;
    loop {
        if process::interrupted() {
            return Err(NotReady::Interrupted);
        }
        if service.has_ended() {
            return Err(NotReady::Ended);
        }
        let why = match look() {
            Ok(found) => return Ok((found, begin.elapsed().as_nanos() as u64)),
            Err(Look::Never(why)) => return Err(NotReady::Never(why)),
            Err(Look::NotYet(why)) => why,
        };
        if clock.now() > until {
            return Err(NotReady::TooSlow(why));
        }
        clock.wait(PULSE);
    }
}

/// Who listens at an address.
pub enum Listener {
    /// No known process of this machine.
    Nobody,
    /// The server, or a process that it started.
    Own,
    /// These other processes.
    Stranger(String),
}

/// Returns who listens at an address, as seen from the server with root process `pid`.
pub fn listener(address: &Address, pid: i32) -> Listener {
    let sockets = sockets_of(address);
    if sockets.is_empty() {
        Listener::Nobody
    } else if process::holders_of(&sockets, process::tree_of(pid)).is_empty() {
        Listener::Stranger(process::names_of(&process::all_holders_of(&sockets)))
    } else {
        Listener::Own
    }
}

/// Names the processes that listen at an address, if any.
pub fn in_use_by(address: &Address) -> Option<String> {
    let sockets = sockets_of(address);
    (!sockets.is_empty()).then(|| process::names_of(&process::all_holders_of(&sockets)))
}

/// Returns a free port at this address of this machine.
///
/// # Errors
/// No port is free.
pub fn free_port(host: IpAddr) -> std::io::Result<u16> {
    TcpListener::bind((host, 0))?
        .local_addr()
        .map(|address| address.port())
}

/// Builds a server command from a shell line.
pub fn shell(command: &str) -> Spec {
    Spec {
        limit: UNLIMITED,
        // The server may be a harness, too, and must not inherit this process's private channel.
        unset: vec!["SPEEDWELL_FDS".to_owned()],
        ..Spec::new("/bin/sh").args(["-c", command])
    }
}

/// A load's server, which accepts connections.
#[derive(Debug)]
pub struct Served {
    service: Service,
    command: String,
    ready_ns: u64,
    cpu_before_ns: Option<u64>,
}

impl Served {
    /// Starts the server, which messages call `command`, and waits until one of the addresses
    /// accepts connections.
    ///
    /// # Errors
    /// The addresses are in use already, the command ends or does not accept connections in time,
    /// or another process accepts them.
    pub fn start(
        spec: Spec,
        command: &str,
        limit: Duration,
        addresses: &[Address],
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Served> {
        refuse_if_in_use(addresses)?;
        let begin = Instant::now();
        let service =
            Service::start(spec).with_context(|| format!("cannot start the server '{command}'"))?;
        let ready = wait_until_ready(&service, begin, limit, || {
            let address = addresses.iter().find(|address| accepts(address));
            let address = address.ok_or_else(|| Look::NotYet(String::new()))?;
            check_owner(&service, command, address).map_err(Look::Never)
        });
        match ready {
            Ok((warning, ready_ns)) => {
                warnings.extend(warning);
                Ok(Served {
                    ready_ns,
                    cpu_before_ns: None,
                    command: command.to_owned(),
                    service,
                })
            }
            Err(NotReady::Interrupted) => {
                bail!("interrupted while the server '{command}' was starting")
            }
            Err(NotReady::Ended) => Err(ended_early(service, command)),
            Err(NotReady::Never(why)) => bail!(why),
            Err(NotReady::TooSlow(_)) => Err(too_slow(service, command, limit, addresses)),
        }
    }

    /// Starts counting the server's processor time.
    pub fn begin(&mut self) {
        self.cpu_before_ns = process::cpu_ns_of(self.service.pid());
    }

    /// Whether the server has ended by itself.
    pub fn has_ended(&self) -> bool {
        self.service.has_ended()
    }

    /// Waits briefly for the end of a server that vanished under load; see [`Service::is_dying`].
    pub fn is_dying(&self) -> bool {
        self.service.is_dying()
    }

    /// Stops the server.
    ///
    /// # Errors
    /// Waiting for its end failed.
    pub fn stop(self) -> anyhow::Result<ServerOutcome> {
        let after_ns = process::cpu_ns_of(self.service.pid());
        let cpu_ns = after_ns.zip(self.cpu_before_ns);
        let has_died = self.service.has_ended();
        let outcome = self
            .service
            .stop()
            .with_context(|| format!("cannot wait for the server '{}'", self.command))?;
        let died = has_died.then(|| outcome.ended.to_string());
        Ok(ServerOutcome {
            command: self.command,
            ready_ns: self.ready_ns,
            cpu_ns: cpu_ns.map(|(after, before)| after.saturating_sub(before)),
            stderr_tail: match &died {
                Some(_) => outcome.stderr.last_lines(TAIL_LINES),
                None => String::new(),
            },
            died,
        })
    }
}

fn accepts(address: &Address) -> bool {
    match address {
        Address::Internet(socket) => TcpStream::connect_timeout(socket, PATIENCE).is_ok(),
        Address::Unix(path) => UnixStream::connect(path).is_ok(),
    }
}

fn sockets_of(address: &Address) -> BTreeSet<u64> {
    match address {
        Address::Internet(socket) => process::sockets_at(*socket),
        Address::Unix(path) => process::sockets_at_path(path),
    }
}

/// Whether an address belongs to this machine, so that its sockets are in our tables.
fn is_local(address: &Address) -> bool {
    match address {
        Address::Internet(socket) => TcpListener::bind((socket.ip(), 0)).is_ok(),
        Address::Unix(_) => true,
    }
}

fn refuse_if_in_use(addresses: &[Address]) -> anyhow::Result<()> {
    for address in addresses {
        if let Some(names) = in_use_by(address) {
            bail!(
                "'{}' is in use already, by {names}: its answers would be taken for those of the server \
                 that --serve starts\nhint: end it, or leave out --serve to load it",
                shown(address)
            );
        }
    }
    Ok(())
}

/// Checks that a process started by the command owns the listening socket. Returns a warning if
/// that cannot be determined.
fn check_owner(
    service: &Service,
    command: &str,
    address: &Address,
) -> Result<Option<String>, String> {
    let names = match listener(address, service.pid()) {
        Listener::Own => return Ok(None),
        Listener::Nobody if !is_local(address) => {
            return Ok(Some(format!(
                "'{}' is on another machine: whether its answers are those of the server that was \
                 started cannot be checked.",
                shown(address)
            )));
        }
        Listener::Nobody => process::names_of(&[]),
        Listener::Stranger(names) => names,
    };
    Err(format!(
        "'{}' accepts connections, but not from a process that '{command}' started: it is {names}\n\
         hint: a server must stay in the foreground; if another program is meant to answer, start it \
         yourself and leave out --serve",
        shown(address)
    ))
}

fn ended_early(service: Service, command: &str) -> anyhow::Error {
    match service.stop() {
        Err(error) => anyhow::Error::new(error).context(format!("the server '{command}' ended")),
        Ok(outcome) => {
            let hint = match outcome.ended {
                Ended::Exit(0) => {
                    "\nhint: the command must stay in the foreground as long as it serves"
                }
                _ => "",
            };
            anyhow::anyhow!(
                "the server '{command}' {} before it accepted connections{}{hint}",
                outcome.ended,
                quoted(&outcome.stderr.last_lines(TAIL_LINES))
            )
        }
    }
}

fn too_slow(
    service: Service,
    command: &str,
    limit: Duration,
    addresses: &[Address],
) -> anyhow::Error {
    let places: Vec<String> = addresses.iter().map(shown).collect();
    let tail = service
        .stop()
        .map(|outcome| outcome.stderr.last_lines(TAIL_LINES));
    anyhow::anyhow!(
        "the server '{}' did not accept connections at {} within {} s{}\n\
         hint: is that the address it serves? --serve-timeout gives it more time",
        command,
        places.join(", "),
        limit.as_secs_f64(),
        quoted(&tail.unwrap_or_default())
    )
}

/// Appends a server's output to a message.
fn quoted(tail: &str) -> String {
    if tail.is_empty() {
        String::new()
    } else {
        format!("; it wrote:\n{tail}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_process::Clock;

    fn started(command: &str, clock: Clock) -> Service {
        Service::start(Spec {
            clock,
            ..shell(command)
        })
        .unwrap()
    }

    #[test]
    fn a_server_that_is_not_ready_in_time_is_told_with_what_was_missing_last() {
        let clock = Clock::movable();
        let service = started("exec sleep 600", clock);
        let mut looks = 0;
        let found = wait_until_ready(&service, Instant::now(), 30 * PATIENCE, || {
            clock.advance(10 * PATIENCE);
            looks += 1;
            Err::<(), Look>(Look::NotYet(format!("nothing at look {looks}")))
        });
        assert!(
            matches!(&found, Err(NotReady::TooSlow(why)) if why == "nothing at look 4"),
            "{looks} looks"
        );
    }

    #[test]
    fn one_that_ends_is_not_waited_for_and_a_slow_one_is_ready_when_it_is_found() {
        let clock = Clock::movable();
        let service = started("exit 3", clock);
        let nothing = || Err::<(), Look>(Look::NotYet(String::new()));
        let found = wait_until_ready(&service, Instant::now(), PATIENCE, nothing);
        assert!(matches!(found, Err(NotReady::Ended)));

        let service = started("exec sleep 600", clock);
        let mut looks = 0;
        let found = wait_until_ready(&service, Instant::now(), 30 * PATIENCE, || {
            clock.advance(10 * PATIENCE);
            looks += 1;
            (looks == 3)
                .then_some("here")
                .ok_or_else(|| Look::NotYet(String::new()))
        });
        assert!(matches!(found, Ok(("here", _))), "{looks} looks");
    }
}
