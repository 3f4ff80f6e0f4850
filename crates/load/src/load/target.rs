//! Where requests go: a host by name, and the addresses that connections are made to.

use super::TlsOptions;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

/// What a socket is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Internet(SocketAddr),
    /// A Unix domain socket.
    Unix(PathBuf),
}

/// Why a host has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The resolver said no.
    #[error("cannot resolve '{host}': {why}")]
    Failed {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// The resolver found nothing.
    #[error("'{0}' has no address")]
    Nothing(String),
}

/// Where requests go. The name is resolved once, before the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The host as in the URL, without the port; an IPv6 address without brackets.
    pub host: String,
    /// The port as in the URL.
    pub port: u16,
    /// What connections are made to, in turn.
    pub addresses: Vec<Address>,
    /// The local address that connections come from.
    pub local: Option<IpAddr>,
    /// TLS, if it is spoken.
    pub tls: Option<TlsOptions>,
}

impl Target {
    /// All addresses of a host, as the operating system resolves it, each once.
    ///
    /// # Errors
    /// There is none.
    pub fn resolve(host: &str, port: u16) -> Result<Vec<Address>, ResolveError> {
        let bare = host.trim_matches(['[', ']']);
        let found = (bare, port)
            .to_socket_addrs()
            .map_err(|error| ResolveError::Failed {
                host: host.to_owned(),
                why: error.to_string(),
            })?;
        let mut addresses: Vec<Address> = Vec::new();
        for address in found.map(Address::Internet) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            Err(ResolveError::Nothing(host.to_owned()))
        } else {
            Ok(addresses)
        }
    }
}
