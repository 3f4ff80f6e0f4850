//! What a server is to be, and how much one request, one connection and one address may take before it is refused.
//!
//! Every figure has a default that suits a server of pages and of results of measurements; tests set
//! their own. What is done beyond a limit stands where it is noticed: in `connection`, `body`, `unpack`.

use crate::client::Proxy;
use crate::hosts::Hosts;
use crate::listen::Listen;
use crate::log::Log;
use crate::refusal::Render;
use crate::stopper::Stopper;
use crate::tls::Tls;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// What a server is to be.
#[derive(Clone, Default)]
pub struct Options {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// What requests may take.
    pub limits: Limits,
    /// Under which names it answers.
    pub hosts: Hosts,
    /// Its certificate; without one it speaks plain HTTP. Unix sockets always do.
    pub tls: Option<Tls>,
    /// A proxy in front that is believed when it says who its clients are.
    pub proxy: Option<Proxy>,
    /// Whether there is a token that the application asks for; see [`crate::listen::exposure`].
    pub has_token: bool,
    /// Where one line for each request goes.
    pub log: Log,
    /// Ends the server; to be had before it, for event streams that end with it.
    pub stopper: Stopper,
    /// How a refusal is shown, if not as text or JSON.
    pub render: Option<Render>,
}

/// What one request, one connection and one address may take.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Time for the head of a request to arrive, for a TLS handshake, and for which a connection may
    /// stay open without a request.
    pub head: Duration,
    /// Bytes of a head; beyond: 431.
    pub head_bytes: usize,
    /// Bytes of a body as it is sent; beyond: 413.
    pub body_bytes: u64,
    /// Time that a body may be waited for before its rate counts.
    pub body_grace: Duration,
    /// Bytes a second that a body must have on average after the time of grace; below: 408.
    pub body_bytes_per_s: u64,
    /// Bytes of a body once it is unpacked; beyond: 413.
    pub unpacked_bytes: u64,
    /// How many times larger than packed a body may become; counted from [`Limits::RATIO_FROM`] on.
    pub unpacked_ratio: u64,
    /// Connections that are open at once.
    pub connections: usize,
    /// Connections from one address that are open at once, without those that have logged in; IPv6 addresses count by
    /// their /64. A believed proxy and Unix sockets are not counted.
    pub connections_per_address: usize,
    /// Further connections from one address, for those that log in: a team may share an address.
    pub connections_logged_in: usize,
    /// Time without any progress after which an answer is given up: its reader does not read.
    pub stalled_answer: Duration,
    /// Time for which a connection is still read from after its last answer, so that a client that
    /// is busy sending reads the refusal instead of an error.
    pub linger: Duration,
    /// Time for the requests in flight when the server stops.
    pub stop: Duration,
}

impl Limits {
    /// Unpacked bytes from which on the ratio counts: short texts of zeros are no attack.
    pub const RATIO_FROM: u64 = 1 << 20;
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            head: Duration::from_secs(10),
            head_bytes: 64 << 10,
            body_bytes: 8 << 20,
            body_grace: Duration::from_secs(10),
            body_bytes_per_s: 1000,
            unpacked_bytes: 64 << 20,
            unpacked_ratio: 100,
            connections: 512,
            connections_per_address: 16,
            connections_logged_in: 128,
            stalled_answer: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            stop: Duration::from_secs(10),
        }
    }
}

/// What counts as one address: whoever has an IPv6 address has the 2^64 of its network.
pub(crate) fn counted_as(address: IpAddr) -> IpAddr {
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
        let counted = |text: &str| counted_as(text.parse().unwrap());
        assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:1"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
        assert_eq!(counted("::ffff:10.0.0.1"), counted("10.0.0.1"));
        assert_ne!(counted("10.0.0.1"), counted("10.0.0.2"));
    }
}
