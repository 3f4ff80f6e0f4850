//! Identifies the client of a request, possibly behind a proxy, and the name that the client uses
//! for this server.
//!
//! Forwarded header fields are trusted only if they come from the proxy configured at startup.
//! Handlers never see these fields.

use crate::http::hosts::{AllowedHosts, ListenerOrigin};
use axum::http::header::{FORWARDED, HOST};
use axum::http::uri::Uri;
use axum::http::{HeaderMap, HeaderName};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Proxy in front of this server. Its forwarded header fields are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrustedProxy {
    /// Proxy that connects from this address.
    Address(IpAddr),
    /// Proxy that connects through a Unix socket.
    Unix,
}

/// Client of a request. Handlers find it in the extensions of the request.
#[derive(Debug, Clone)]
pub struct ClientInfo {
    /// Address of the client, as reported by a trusted proxy if there is one. `None` for a Unix
    /// socket.
    pub address: Option<IpAddr>,
    /// Whether the client's connection is protected by TLS.
    pub secure: bool,
    /// Origin of this server's pages in the client's URLs, such as `http://127.0.0.1:7600`.
    pub origin: String,
    pub(crate) login: Arc<AtomicBool>,
}

impl ClientInfo {
    /// Records that the client has authenticated. From then on, the connection counts toward its
    /// address's limit for authenticated clients, unless that limit is reached.
    pub fn record_login(&self) {
        self.login.store(true, Ordering::Relaxed);
    }
}

/// Properties of a connection that are known before its first request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionInfo {
    pub listener: ListenerOrigin,
    pub peer: Option<IpAddr>,
    pub tls: bool,
}

impl ConnectionInfo {
    /// Whether a proxy is configured, but the plain-text request did not come from the proxy.
    pub(crate) fn bypasses_proxy(&self, proxy: Option<TrustedProxy>) -> bool {
        proxy.is_some() && !self.tls && !self.is_from_proxy(proxy)
    }

    pub(crate) fn is_from_proxy(&self, proxy: Option<TrustedProxy>) -> bool {
        match proxy {
            None => false,
            Some(TrustedProxy::Unix) => matches!(self.listener, ListenerOrigin::Unix),
            Some(TrustedProxy::Address(address)) => {
                self.peer.is_some_and(|peer| peer.to_canonical() == address.to_canonical())
            }
        }
    }
}

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Identifies the client. Returns `None` if the request does not name this server. A request with
/// several Host fields is rejected too, unless a trusted proxy states the host. Removes all
/// forwarded header fields, so that no handler reads them.
pub(crate) fn identify_client(
    hosts: &AllowedHosts,
    proxy: Option<TrustedProxy>,
    info: &ConnectionInfo,
    uri: &Uri,
    headers: &mut HeaderMap,
) -> Option<ClientInfo> {
    let forwarded = if info.is_from_proxy(proxy) {
        ForwardedFields::read(headers)
    } else {
        ForwardedFields::default()
    };
    for name in [FORWARDED, FORWARDED_FOR, FORWARDED_HOST, FORWARDED_PROTO] {
        headers.remove(name);
    }
    headers.remove("x-real-ip");
    let secure = forwarded.secure.unwrap_or(info.tls);
    let site = |authority: &str| hosts.match_site(authority, info.listener, secure);
    let host = match forwarded.host {
        Some(host) => host,
        None => single_value(headers, &HOST)?,
    };
    let site_origin = site(&host)?;
    // An absolute-form target overrides the Host field (RFC 9112, 3.2.2), so both must name this
    // server.
    if let Some(authority) = uri.authority()
        && site(authority.as_str()).as_ref() != Some(&site_origin)
    {
        return None;
    }
    Some(ClientInfo {
        address: forwarded.address.or(info.peer).map(|address| address.to_canonical()),
        secure: site_origin.secure,
        origin: site_origin.origin(),
        login: Arc::default(),
    })
}

/// Forwarded header fields of a trusted proxy.
#[derive(Default)]
struct ForwardedFields {
    address: Option<IpAddr>,
    host: Option<String>,
    secure: Option<bool>,
}

impl ForwardedFields {
    /// Reads the last entry of each list, because the trusted proxy appended that entry.
    fn read(headers: &HeaderMap) -> ForwardedFields {
        let last = |name: &HeaderName| {
            let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
            Some(value.rsplit(',').next()?.trim().to_owned())
        };
        ForwardedFields {
            address: last(&FORWARDED_FOR).and_then(|text| parse_address(&text)),
            host: last(&FORWARDED_HOST),
            secure: last(&FORWARDED_PROTO).map(|proto| proto.eq_ignore_ascii_case("https")),
        }
    }
}

/// Parses an address with or without brackets and port, as proxies write them.
fn parse_address(text: &str) -> Option<IpAddr> {
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket.ip());
    }
    text.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// Returns the value of a field that must occur exactly once.
fn single_value(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            listener: ListenerOrigin::Tcp("127.0.0.1:7600".parse().unwrap()),
            peer: Some("127.0.0.1".parse().unwrap()),
            tls: false,
        }
    }

    fn fields(lines: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        lines.iter().map(pair).collect()
    }

    #[test]
    fn only_local_host_names_with_the_right_port_are_accepted() {
        let named = |name: &str| {
            let mut headers = fields(&[("host", name)]);
            let target = "/".parse().unwrap();
            identify_client(&AllowedHosts::local(), None, &info(), &target, &mut headers)
        };
        for name in
            ["127.0.0.1:7600", "127.0.0.2:7600", "localhost:7600", "LOCALHOST:7600", "[::1]:7600"]
        {
            let origin = named(name).unwrap().origin;
            assert_eq!(origin, format!("http://{}", name.to_lowercase()));
        }
        for name in [
            "evil.example",
            "evil.example:7600",
            "127.0.0.1.evil:7600",
            "127.0.0.1:7601",
            "127.0.0.1",
            "127.1:7600",
            "2130706433:7600",
            "0x7f.0.0.1:7600",
            "0.0.0.0:7600",
            "[::ffff:127.0.0.1]:7600",
            "[::]:7600",
            "[::1:7600",
            "localhost.:7600",
            "localhost.evil:7600",
            "evil@127.0.0.1:7600",
            "127.0.0.1:7600@evil",
            "127.0.0.1:7600:7600",
            "127.0.0.1:+7600",
            "127.0.0.1:",
            " ",
            "",
        ] {
            assert!(named(name).is_none(), "{name}");
        }
    }

    #[test]
    fn forwarded_headers_are_trusted_only_from_the_proxy_address() {
        let hosts = AllowedHosts::public("https://perf.example").unwrap();
        let ask = |proxy| {
            let mut headers = fields(&[
                ("host", "127.0.0.1:7600"),
                ("x-forwarded-for", "1.1.1.1, 203.0.113.7"),
                ("x-forwarded-host", "perf.example"),
                ("x-forwarded-proto", "https"),
            ]);
            let found =
                identify_client(&hosts, proxy, &info(), &"/".parse().unwrap(), &mut headers);
            assert_eq!(headers.len(), 1, "forwarded fields are removed");
            found.unwrap()
        };
        let believed = ask(Some(TrustedProxy::Address("127.0.0.1".parse().unwrap())));
        assert_eq!(believed.address, Some("203.0.113.7".parse().unwrap()));
        assert_eq!(believed.origin, "https://perf.example");
        assert!(believed.secure);
        for proxy in [
            None,
            Some(TrustedProxy::Unix),
            Some(TrustedProxy::Address("127.0.0.9".parse().unwrap())),
        ] {
            let client = ask(proxy);
            assert_eq!(client.address, Some("127.0.0.1".parse().unwrap()));
            assert_eq!(client.origin, "http://127.0.0.1:7600");
            assert!(!client.secure);
        }
    }

    #[test]
    fn a_target_in_absolute_form_must_name_the_same_site() {
        let ask = |target: &str| {
            let mut headers = fields(&[("host", "127.0.0.1:7600")]);
            let target = target.parse().unwrap();
            identify_client(&AllowedHosts::local(), None, &info(), &target, &mut headers).is_some()
        };
        assert!(ask("http://127.0.0.1:7600/"));
        assert!(!ask("http://evil.example/"));
        assert!(!ask("http://localhost:7600/"));
    }
}
