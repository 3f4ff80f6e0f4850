//! Who answers at the port of a run: nobody before it, the target alone while it runs.

use super::{Fallible, stumble};
use speedwell_model::performed::Stage;
use speedwell_process::{all_holders_of, family_of, holders_of, names_of, sockets_at};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};

/// The port of the run: the given one if nobody has it, else one that is free.
pub fn choose(port: Option<u16>) -> Fallible<u16> {
    let Some(port) = port else {
        let free =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        return free
            .map(|address| address.port())
            .map_err(|error| stumble(Stage::Port, format!("no port is free: {error}")));
    };
    let holders: Vec<i32> = places(port)
        .into_iter()
        .flat_map(|place| all_holders_of(&sockets_at(place)))
        .collect();
    if places(port)
        .into_iter()
        .all(|place| sockets_at(place).is_empty())
    {
        return Ok(port);
    }
    let reason = format!("{port} is in use already, by {}", names_of(&holders));
    Err(stumble(Stage::Port, reason))
}

/// Who listens at a port.
pub enum Listener {
    /// Nobody yet.
    Nobody,
    /// The target, or a process that it started, at this address.
    Own(SocketAddr),
    /// Somebody else.
    Stranger(String),
}

/// Who listens at the port of the target whose first process is `pid`.
pub fn who(port: u16, pid: i32) -> Listener {
    let family = family_of(pid);
    let mut stranger = None;
    for place in places(port) {
        let sockets = sockets_at(place);
        if sockets.is_empty() {
            continue;
        }
        if !holders_of(&sockets, family.iter().copied()).is_empty() {
            return Listener::Own(place);
        }
        stranger = Some(names_of(&all_holders_of(&sockets)));
    }
    stranger.map_or(Listener::Nobody, Listener::Stranger)
}

/// The addresses of this machine that a server on a port may have.
fn places(port: u16) -> [SocketAddr; 2] {
    [
        (Ipv4Addr::LOCALHOST, port).into(),
        (Ipv6Addr::LOCALHOST, port).into(),
    ]
}
