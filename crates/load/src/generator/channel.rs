//! The two directions of one connection, with TLS or without.
//!
//! It knows bytes only. What does not fit into the socket is kept until there is room.

use crate::load::{Address, LastRefusal};
use crate::outcomes::ErrorClass;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect, recv, send,
    socket_with, sockopt,
};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig, ClientConnection};
use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// What TLS needs for each connection of a load.
#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
    pub refused: Arc<LastRefusal>,
}

/// Bytes received and sent, and the calls that it took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    pub received: u64,
    pub sent: u64,
    pub calls: u64,
}

/// A connected socket, or one about to be.
pub(super) struct Channel {
    socket: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// The server said over TLS that it sends no more.
    has_said_goodbye: bool,
    /// What has yet to be written, from `out_at` on. Its memory goes from connection to connection.
    out: Vec<u8>,
    out_at: usize,
}

/// What reading found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// Something was read, and there may be more.
    More,
    /// Nothing is left for now.
    Drained,
    /// The other side sends no more.
    End,
    /// The connection was closed without the last word of TLS.
    Truncated,
    /// The connection was reset.
    Reset,
    /// TLS broke.
    Broken(ErrorClass),
}

impl Channel {
    pub fn new(socket: OwnedFd, tls: Option<&Tls>, out: Vec<u8>) -> Result<Channel, ErrorClass> {
        let tls = match tls {
            None => None,
            Some(Tls { config, name, .. }) => {
                let connection = ClientConnection::new(config.clone(), name.clone())
                    .map_err(|_| ErrorClass::TlsHandshake)?;
                Some(Box::new(connection))
            }
        };
        Ok(Channel {
            socket,
            tls,
            has_said_goodbye: false,
            out,
            out_at: 0,
        })
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Whether bytes of the application can pass.
    pub fn is_up(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| !tls.is_handshaking())
    }

    /// Begins TLS, once the socket is connected.
    pub fn greet(&mut self, traffic: &mut Traffic) -> Result<(), Errno> {
        self.seal();
        self.flush(traffic)
    }

    /// Sends bytes of the application, now or when there is room.
    pub fn send(&mut self, bytes: &[u8], traffic: &mut Traffic) -> Result<(), Errno> {
        if let Some(tls) = &mut self.tls {
            // The writer takes everything: its buffer has no limit.
            tls.writer().write_all(bytes).map_err(|_| Errno::PIPE)?;
            self.seal();
            return self.flush(traffic);
        }
        if self.out.len() > self.out_at {
            self.out.extend_from_slice(bytes);
            return Ok(());
        }
        traffic.calls += 1;
        let written = transmit_bytes(&self.socket, bytes)?;
        traffic.sent += written as u64;
        if written < bytes.len() {
            self.out.extend_from_slice(&bytes[written..]);
        }
        Ok(())
    }

    /// Whether bytes wait for room.
    pub fn is_waiting(&self) -> bool {
        self.out.len() > self.out_at
    }

    /// Writes what waits, as far as there is room.
    pub fn flush(&mut self, traffic: &mut Traffic) -> Result<(), Errno> {
        while self.is_waiting() {
            traffic.calls += 1;
            let written = transmit_bytes(&self.socket, &self.out[self.out_at..])?;
            if written == 0 {
                return Ok(());
            }
            traffic.sent += written as u64;
            self.out_at += written;
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    /// Reads once into `buffer` and hands on the bytes of the application, if there are any.
    pub fn read(
        &mut self,
        buffer: &mut [u8],
        traffic: &mut Traffic,
        mut on: impl FnMut(&[u8]) -> bool,
    ) -> Read {
        traffic.calls += 1;
        let read = match receive_bytes(&self.socket, buffer) {
            Received::Bytes(read) => read,
            Received::Drained => return Read::Drained,
            Received::End if self.tls.is_some() && !self.has_said_goodbye => {
                return Read::Truncated;
            }
            Received::End => return Read::End,
            Received::Reset => return Read::Reset,
        };
        traffic.received += read as u64;
        // A short read has emptied the socket, so the call that would find nothing is saved.
        let state = if read < buffer.len() {
            Read::Drained
        } else {
            Read::More
        };
        if self.tls.is_none() {
            on(&buffer[..read]);
            return state;
        }
        match self.unseal(&buffer[..read], traffic, on) {
            Ok(false) => state,
            // The server's last word (RFC 8446, section 6.1). It may wait for ours before it closes.
            Ok(true) => Read::End,
            Err(class) => Read::Broken(class),
        }
    }

    /// Gives up the connection and keeps the memory.
    pub fn into_memory(mut self) -> Vec<u8> {
        self.out.clear();
        std::mem::take(&mut self.out)
    }

    /// Moves what TLS wants to send behind what waits to be written.
    fn seal(&mut self) {
        if let Some(tls) = &mut self.tls {
            while tls.wants_write() {
                // Writing to a vector does not fail.
                if tls.write_tls(&mut self.out).is_err() {
                    return;
                }
            }
        }
    }

    /// Opens bytes and hands them on; whether the server has said that it sends no more.
    fn unseal(
        &mut self,
        mut bytes: &[u8],
        traffic: &mut Traffic,
        mut on: impl FnMut(&[u8]) -> bool,
    ) -> Result<bool, ErrorClass> {
        let Some(tls) = self.tls.as_deref_mut() else {
            return Ok(false);
        };
        let was_up = !tls.is_handshaking();
        let (mut wants_more, mut failure, mut is_over) = (true, None, false);
        while !bytes.is_empty() && wants_more && failure.is_none() {
            if tls.read_tls(&mut bytes).is_err() {
                failure = Some(broken(was_up));
                break;
            }
            match tls.process_new_packets() {
                Ok(state) => is_over = state.peer_has_closed(),
                Err(error) => failure = Some(class_of(&error, was_up)),
            }
            wants_more = drain(tls, &mut on);
        }
        self.has_said_goodbye |= is_over;
        // An alert that tells the server why is sent before the connection is given up.
        self.seal();
        let flushed = self.flush(traffic);
        match (failure, flushed) {
            (Some(class), _) => Err(class),
            (None, Err(_)) => Err(ErrorClass::Send),
            (None, Ok(())) => Ok(is_over),
        }
    }
}

/// Hands on what TLS has opened, until `on` wants no more.
fn drain(tls: &mut ClientConnection, mut on: impl FnMut(&[u8]) -> bool) -> bool {
    loop {
        let mut reader = tls.reader();
        let Ok(opened) = reader.fill_buf() else {
            return true;
        };
        let length = opened.len();
        if length == 0 {
            return true;
        }
        let wants_more = on(opened);
        reader.consume(length);
        if !wants_more {
            return false;
        }
    }
}

/// The class of TLS that broke, before or after its handshake was done.
fn broken(was_up: bool) -> ErrorClass {
    if was_up {
        ErrorClass::TlsRecord
    } else {
        ErrorClass::TlsHandshake
    }
}

/// The class of an error of TLS. A server of TLS 1.3 looks at our certificate when our side of the handshake is done
/// already (RFC 8446, section 4.4.2.4), so its verdict is one of the handshake whenever it comes.
fn class_of(error: &rustls::Error, was_up: bool) -> ErrorClass {
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
            ErrorClass::TlsVerify
        }
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            ErrorClass::TlsAlpn
        }
        rustls::Error::AlertReceived(
            AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied,
        ) => ErrorClass::TlsHandshake,
        _ => broken(was_up),
    }
}

// The socket: connecting, reading and writing without waiting.

/// Begins to connect. The socket is readable or writable when it is known how that went.
pub(super) fn begin_connecting(address: &Address, local: Option<IpAddr>) -> Result<OwnedFd, Errno> {
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
pub(super) fn finish_connecting(socket: &OwnedFd) -> Result<(), Errno> {
    sockopt::socket_error(socket)?
}

/// The class of a connection that did not come about.
pub(super) fn class_of_connecting(error: Errno) -> ErrorClass {
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

pub(super) fn receive_bytes(socket: &OwnedFd, buffer: &mut [u8]) -> Received {
    match recv(socket, buffer, rustix::net::RecvFlags::empty()) {
        Ok((0, _)) => Received::End,
        Ok((read, _)) => Received::Bytes(read),
        Err(Errno::AGAIN | Errno::INTR) => Received::Drained,
        Err(_) => Received::Reset,
    }
}

/// Writes what there is room for: 0 if there is none.
pub(super) fn transmit_bytes(socket: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => other,
    }
}
