//! Opens the sockets of a server, and rejects addresses that others could reach without protection.

use crate::http::Error;
use rustix::net::sockopt::set_tcp_user_timeout;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use std::fs::Permissions;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Maximum number of connections that the kernel queues until they are accepted.
const BACKLOG: i32 = 128;
/// Number of attempts to bind port 0. The kernel picks a port for IPv4; the attempt fails if this
/// port is in use for IPv6.
const PORT_ATTEMPTS: usize = 16;

/// Address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenAddress {
    /// 127.0.0.1 and, if the machine supports IPv6, `[::1]`. Both use the first port from `first`
    /// to `last` that is free on both. If `first` is 0, the kernel picks a free port.
    Loopback {
        /// First port to try.
        first: u16,
        /// Last port to try.
        last: u16,
    },
    /// This TCP address. [`exposure_error`] rejects addresses that other machines can reach without
    /// protection.
    Address(SocketAddr),
    /// A Unix socket that only its owner may connect to (mode 0600).
    Unix(PathBuf),
}

/// How a server is protected against unauthorized clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ServerProtection {
    /// At least one token exists, and the application requires a token.
    pub token: bool,
    /// The server or a trusted proxy in front of it terminates TLS.
    pub tls: bool,
}

/// Returns the reason not to listen on this address, as a sentence to show. Returns `None` if
/// listening is allowed. All addresses except loopback and Unix sockets require a token and TLS.
///
/// ```
/// use speedwell_server::http::listen::{ListenAddress, ServerProtection, exposure_error};
///
/// let everywhere = ListenAddress::Address("0.0.0.0:7600".parse().unwrap());
/// let why = exposure_error(&everywhere, ServerProtection { token: true, tls: false }).unwrap();
/// assert!(why.contains("TLS"));
/// assert_eq!(exposure_error(&everywhere, ServerProtection { token: true, tls: true }), None);
/// assert_eq!(exposure_error(&ListenAddress::Loopback { first: 0, last: 0 }, ServerProtection::default()), None);
/// ```
pub fn exposure_error(address: &ListenAddress, protection: ServerProtection) -> Option<String> {
    let address = match address {
        ListenAddress::Address(address) if !address.ip().to_canonical().is_loopback() => address,
        _ => return None,
    };
    let missing = match (protection.token, protection.tls) {
        (true, true) => return None,
        (true, false) => "without TLS (a certificate and its key, or a TLS-terminating proxy)",
        (false, true) => "without a token",
        (false, false) => {
            "without TLS (a certificate and its key, or a TLS-terminating proxy) and without a token"
        }
    };
    Some(format!("cannot serve on '{address}' {missing}: other machines can reach it"))
}

#[derive(Debug)]
pub(crate) enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

/// Address at which a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP address.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl ListenSocket {
    pub(crate) fn address(&self) -> Result<BoundAddress, Error> {
        match self {
            ListenSocket::Tcp(listener) => {
                Ok(BoundAddress::Tcp(listener.local_addr().map_err(Error::Socket)?))
            }
            ListenSocket::Unix(_, path) => Ok(BoundAddress::Unix(path.clone())),
        }
    }
}

/// Opens the sockets for one address.
pub(crate) fn open_sockets(address: &ListenAddress) -> Result<Vec<ListenSocket>, Error> {
    match address {
        ListenAddress::Loopback { first, last } => bind_loopback(*first, *last),
        ListenAddress::Address(address) => {
            Ok(vec![bind_tcp(*address).map_err(|error| Error::Address(*address, error))?])
        }
        ListenAddress::Unix(path) => Ok(vec![ListenSocket::Unix(bind_unix(path)?, path.clone())]),
    }
}

fn bind_tcp(address: SocketAddr) -> std::io::Result<ListenSocket> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok(ListenSocket::Tcp(listener))
}

fn bind_loopback(first: u16, last: u16) -> Result<Vec<ListenSocket>, Error> {
    let ports =
        if first == 0 { vec![0; PORT_ATTEMPTS] } else { (first..=last.max(first)).collect() };
    for port in ports {
        let ipv4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let listener = match TcpListener::bind(ipv4) {
            Ok(listener) => listener,
            Err(error) if error.kind() == ErrorKind::AddrInUse => continue,
            Err(error) => return Err(Error::Address(ipv4, error)),
        };
        let bound = listener.local_addr().map_err(Error::Socket)?;
        listener.set_nonblocking(true).map_err(Error::Socket)?;
        let ipv6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), bound.port());
        match bind_tcp(ipv6) {
            Ok(ipv6) => return Ok(vec![ListenSocket::Tcp(listener), ipv6]),
            Err(error) if error.kind() == ErrorKind::AddrInUse => (),
            // The machine has no IPv6.
            Err(_) => return Ok(vec![ListenSocket::Tcp(listener)]),
        }
    }
    Err(Error::PortsInUse(first, last))
}

/// Binds a Unix socket. Sets the mode of the file before the socket listens, so that other users
/// can never connect.
fn bind_unix(path: &Path) -> Result<UnixListener, Error> {
    remove_stale_socket(path)?;
    let path_error = |error: std::io::Error| Error::Path(path.to_path_buf(), error);
    let address = SocketAddrUnix::new(path).map_err(|error| path_error(error.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .map_err(|error| path_error(error.into()))?;
    bind(&socket, &address).map_err(|error| path_error(error.into()))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(path_error)?;
    listen(&socket, BACKLOG).map_err(|error| path_error(error.into()))?;
    Ok(UnixListener::from(socket))
}

/// Removes the socket file that an ended server left behind. Leaves anything else alone and fails.
fn remove_stale_socket(path: &Path) -> Result<(), Error> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    let path_error = |error: std::io::Error| Error::Path(path.to_path_buf(), error);
    let is_stale = metadata.file_type().is_socket()
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
    if !is_stale {
        return Err(path_error(ErrorKind::AddrInUse.into()));
    }
    std::fs::remove_file(path).map_err(path_error)
}

/// Makes the kernel end a connection after its peer has vanished.
pub(crate) fn set_user_timeout(socket: &tokio::net::TcpStream, timeout: std::time::Duration) {
    let ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
    // Ignore errors: without support for the option, the kernel's longer default applies.
    let _ = set_tcp_user_timeout(socket, ms);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_free_port_is_taken() {
        let taken = bind_loopback(0, 0).unwrap();
        let BoundAddress::Tcp(address) = taken[0].address().unwrap() else { unreachable!() };
        let port = address.port();
        assert!(matches!(bind_loopback(port, port), Err(Error::PortsInUse(..))));
        // Other processes may use some of the next hundred ports, but hardly all of them.
        let next = bind_loopback(port, port.saturating_add(100)).unwrap();
        let BoundAddress::Tcp(address) = next[0].address().unwrap() else { unreachable!() };
        assert!(address.port() > port);
    }

    #[test]
    fn a_unix_socket_is_private_to_its_owner_and_replaces_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let first = bind_unix(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(bind_unix(&path).is_err(), "somebody listens");
        drop(first);
        bind_unix(&path).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").unwrap();
        assert!(bind_unix(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }

    #[test]
    fn addresses_reachable_by_others_require_a_token_and_tls() {
        let refused = |address: &str, token, tls| {
            exposure_error(
                &ListenAddress::Address(address.parse().unwrap()),
                ServerProtection { token, tls },
            )
        };
        for address in ["0.0.0.0:1", "[::]:1", "192.168.1.5:1", "[::ffff:10.0.0.1]:1"] {
            assert!(refused(address, false, false).is_some());
            assert!(refused(address, true, false).is_some());
            assert!(refused(address, false, true).is_some());
            assert_eq!(refused(address, true, true), None);
        }
        for address in ["127.0.0.1:1", "127.1.2.3:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(refused(address, false, false), None);
        }
    }
}
