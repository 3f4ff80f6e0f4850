//! Making a connection without waiting for it.

use crate::load::Address;
use crate::outcomes::ErrorClass;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with, sockopt,
};
use std::net::{IpAddr, SocketAddr};

/// Begins to connect. The socket is readable or writable when it is known how that went.
pub(super) fn begin(address: &Address, local: Option<IpAddr>) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let family = match address {
        Address::Internet(SocketAddr::V4(_)) => AddressFamily::INET,
        Address::Internet(SocketAddr::V6(_)) => AddressFamily::INET6,
        Address::Unix(_) => AddressFamily::UNIX,
    };
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    let begun = match address {
        Address::Internet(address) => {
            // A request is one small segment: waiting to fill it up would only delay it.
            sockopt::set_tcp_nodelay(&socket, true)?;
            if let Some(local) = local {
                bind(&socket, &SocketAddr::new(local, 0))?;
            }
            connect(&socket, address)
        }
        Address::Unix(path) => connect(&socket, &SocketAddrUnix::new(path)?),
    };
    match begun {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Whether the connection came about, once the socket is ready.
pub(super) fn finish(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// The class of a connection that did not come about.
pub(super) fn class_of(error: Errno) -> ErrorClass {
    match error {
        Errno::TIMEDOUT => ErrorClass::ConnectTimeout,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::HOSTDOWN => {
            ErrorClass::ConnectUnreachable
        }
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE | Errno::MFILE | Errno::NFILE => {
            ErrorClass::ConnectNoPort
        }
        // A full queue of a Unix socket is refused with EAGAIN.
        _ => ErrorClass::ConnectRefused,
    }
}

/// What a socket gave.
pub(super) enum Received {
    Bytes(usize),
    /// Nothing more for now.
    Drained,
    /// The other side will send no more.
    End,
    /// The connection was reset.
    Reset,
}

pub(super) fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    match recv(socket, buffer, rustix::net::RecvFlags::empty()) {
        Ok((0, _)) => Received::End,
        Ok((read, _)) => Received::Bytes(read),
        Err(Errno::AGAIN | Errno::INTR) => Received::Drained,
        Err(_) => Received::Reset,
    }
}

/// Writes what there is room for: 0 if there is none.
pub(super) fn transmit(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => other,
    }
}
