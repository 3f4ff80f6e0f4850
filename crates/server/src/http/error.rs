//! Defines the errors that keep a server or a login from starting.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Reason why a server or a login cannot start.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the message of each variant describes it")]
pub enum Error {
    #[error("no address to listen on")]
    Nowhere,
    #[error("{0}")]
    Exposed(String),
    #[error("cannot listen on '{0}': {1}")]
    Address(SocketAddr, #[source] io::Error),
    #[error("cannot listen on '{path}': {error}", path = .0.display(), error = .1)]
    Path(PathBuf, #[source] io::Error),
    #[error("cannot listen on 127.0.0.1: each of the ports from {0} to {1} is in use")]
    PortsInUse(u16, u16),
    #[error("invalid site address '{0}'\nhint: use an address such as https://perf.example")]
    PublicUrl(String),
    #[error("cannot read the file '{path}': {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
    #[error("cannot use the certificate: {0}")]
    Tls(String),
    #[error("cannot open a socket: {0}")]
    Socket(#[source] io::Error),
    #[error("cannot start server threads: {0}")]
    Threads(#[source] io::Error),
    #[error("invalid cookie name '{0}'")]
    CookieName(String),
    #[error("the system provides no random bytes")]
    Random,
}
