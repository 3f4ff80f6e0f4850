//! Defines the options and limits of a server.
//!
//! The defaults suit a server of pages and benchmark results. Other modules enforce the limits:
//! `server`, `connection`, `connection_limiter`, `lingering_socket`, `pipeline`, `body` and
//! `decompression`.

use crate::http::client::TrustedProxy;
use crate::http::hosts::AllowedHosts;
use crate::http::listen::ListenAddress;
use crate::http::log::RequestLog;
use crate::http::shutdown::ServerStopper;
use crate::http::tls::TlsIdentity;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Options of a server.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// Limits of requests and connections.
    pub limits: ServerLimits,
    /// Names under which the server answers.
    pub hosts: AllowedHosts,
    /// TLS certificate with its key. Without it, and on Unix sockets, the server speaks plain HTTP.
    pub tls: Option<TlsIdentity>,
    /// Proxy in front of the server. The server trusts its forwarded header fields.
    pub proxy: Option<TrustedProxy>,
    /// Whether a token exists and the application requires one; see
    /// [`crate::http::listen::exposure_error`].
    pub has_token: bool,
    /// Destination of the request log.
    pub log: RequestLog,
    /// Stops the server. The stopper exists before the server, so that event streams can register
    /// with it.
    pub stopper: ServerStopper,
}

/// Limits per request, per connection and per address.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Timeout for a request head, for a TLS handshake, and for an idle connection.
    pub head_timeout: Duration,
    /// Maximum bytes of a request head, at least 8 KiB. A longer head is answered with 431.
    pub head_bytes: usize,
    /// Maximum bytes of a body before decompression. A longer body is answered with 413.
    pub body_bytes: u64,
    /// Waiting time for a body before the minimum rate is enforced.
    pub body_grace: Duration,
    /// Minimum average bytes per second of a body after the grace time. A slower body is answered
    /// with 408.
    pub body_bytes_per_s: u64,
    /// Maximum bytes of a decompressed body. A longer body is answered with 413.
    pub unpacked_bytes: u64,
    /// Maximum ratio of decompressed to compressed size. It applies once the decompressed size has
    /// reached [`ServerLimits::MIN_BYTES_FOR_RATIO`].
    pub unpacked_ratio: u64,
    /// Maximum number of open connections.
    pub connections: usize,
    /// Maximum number of open connections per address, not counting logged-in clients. An IPv6 /64
    /// network counts as one address. Trusted proxies and Unix sockets are not limited.
    pub connections_per_address: usize,
    /// Additional connections per address for logged-in clients, because a team may share an
    /// address.
    pub connections_logged_in: usize,
    /// A response is aborted if its client reads nothing for this long.
    pub stalled_answer: Duration,
    /// How long the server keeps reading from a connection while closing it. This way, a client
    /// that is still sending receives the response instead of a reset.
    pub linger: Duration,
    /// How long a stopping server waits for requests in flight.
    pub stop_timeout: Duration,
}

impl ServerLimits {
    /// Decompressed size at and above which the ratio is enforced. A smaller body may exceed the
    /// ratio, because a short run of zeros is not an attack.
    pub const MIN_BYTES_FOR_RATIO: u64 = 1 << 20;
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            head_timeout: Duration::from_secs(10),
            head_bytes: 64 << 10,
            body_bytes: 256 << 20,
            body_grace: Duration::from_secs(10),
            body_bytes_per_s: 1000,
            unpacked_bytes: 256 << 20,
            unpacked_ratio: 100,
            connections: 512,
            connections_per_address: 16,
            connections_logged_in: 128,
            stalled_answer: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            stop_timeout: Duration::from_secs(10),
        }
    }
}

/// Returns the address under which a client is counted. For IPv6, this is the /64 network, because
/// one client may own all addresses of the network.
pub(crate) fn address_group(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(four) => IpAddr::V4(four),
        IpAddr::V6(six) => IpAddr::V6(Ipv6Addr::from_bits(six.to_bits() & (!0_u128 << 64))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let counted = |text: &str| address_group(text.parse().unwrap());
        assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:1"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
        assert_eq!(counted("::ffff:10.0.0.1"), counted("10.0.0.1"));
        assert_ne!(counted("10.0.0.1"), counted("10.0.0.2"));
    }
}
