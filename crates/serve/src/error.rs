//! Errors that keep a server from starting.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says so in its message")]
pub enum Error {
    #[error("there is no place to listen at")]
    Nowhere,
    #[error("{0}")]
    Exposed(String),
    #[error("cannot listen at '{0}': {1}")]
    Address(SocketAddr, #[source] io::Error),
    #[error("cannot listen at '{path}': {error}", path = .0.display(), error = .1)]
    Path(PathBuf, #[source] io::Error),
    #[error("cannot listen on 127.0.0.1: each of the ports from {0} to {1} is in use")]
    PortsInUse(u16, u16),
    #[error("'{0}' is not the address of a site\nhint: such as https://perf.example")]
    PublicUrl(String),
    #[error("cannot read the file '{path}': {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
    #[error("the certificate cannot be used: {0}")]
    Tls(String),
    #[error("cannot open a socket: {0}")]
    Socket(#[source] io::Error),
    #[error("cannot start the threads of the server: {0}")]
    Threads(#[source] io::Error),
    #[error("'{0}' is not the name of a cookie")]
    CookieName(String),
    #[error("the system has no random bytes")]
    Random,
}
