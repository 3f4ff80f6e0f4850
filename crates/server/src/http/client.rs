//! Identifies the client of a request, possibly behind a proxy, and decides which host names this
//! server answers to.
//!
//! Forwarded header fields are trusted only if they come from the proxy configured at startup.
//! Handlers never see these fields.
//!
//! Another site can make its own name resolve to 127.0.0.1, so that its pages can read what is
//! served there (DNS rebinding). The requests of these pages still contain that site's name. Every
//! request must therefore name a literal address of this machine, `localhost`, or the server's
//! public address. Neither axum nor tower-http checks this.

use crate::http::Error;
use axum::http::header::{FORWARDED, HOST};
use axum::http::uri::{Scheme, Uri};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
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
    /// Address at which it was accepted; `None` for a Unix socket.
    pub local: Option<SocketAddr>,
    pub peer: Option<IpAddr>,
    pub tls: bool,
}

impl ConnectionInfo {
    pub(crate) fn is_from_proxy(&self, proxy: Option<TrustedProxy>) -> bool {
        match proxy {
            None => false,
            Some(TrustedProxy::Unix) => self.local.is_none(),
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
    let site = |authority: &str| hosts.match_site(authority, info.local, secure);
    let host = match forwarded.host {
        Some(host) => host,
        None => single_value(headers, &HOST)?.to_str().ok()?.to_owned(),
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
pub(crate) fn single_value<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> Option<&'h HeaderValue> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    values.next().is_none().then_some(value)
}

/// Names that requests may use for this server.
#[derive(Debug, Clone, Default)]
pub struct AllowedHosts {
    public: Option<SiteOrigin>,
}

impl AllowedHosts {
    /// On a connection to a loopback address, allows `localhost` and literal loopback addresses
    /// with the port of the connection. On a connection to another address of this machine, allows
    /// exactly that address and port. On a Unix socket, allows loopback names with any port.
    pub fn local() -> AllowedHosts {
        AllowedHosts::default()
    }

    /// Allows what [`AllowedHosts::local`] allows, and the name and port of this public address,
    /// such as `https://perf.example`.
    ///
    /// # Errors
    /// Fails if `url` is not `http://NAME[:PORT]` or `https://NAME[:PORT]`, optionally followed by
    /// a slash.
    pub fn public(url: &str) -> Result<AllowedHosts, Error> {
        let site = SiteOrigin::parse(url).ok_or_else(|| Error::PublicUrl(url.to_owned()))?;
        Ok(AllowedHosts { public: Some(site) })
    }

    /// Returns the name of the public address. Returns `None` for a loopback address.
    pub fn public_name(&self) -> Option<&str> {
        let public = self.public.as_ref().filter(|site| !site.is_loopback());
        public.map(|site| site.host.as_str())
    }

    /// Returns the site that `authority` names, or `None` if this server does not serve that site.
    fn match_site(
        &self,
        authority: &str,
        local: Option<SocketAddr>,
        secure: bool,
    ) -> Option<SiteOrigin> {
        let (host, port) = split_authority(authority)?;
        if let Some(public) = &self.public
            && public.host == host
            && port.is_none_or(|port| port == public.port)
        {
            return Some(public.clone());
        }
        let site = SiteOrigin { secure, port: port.unwrap_or(default_port(secure)), host };
        let Some(local) = local else {
            return site.is_loopback().then_some(site);
        };
        let ip = local.ip().to_canonical();
        let is_named = match site.address() {
            Some(named) => named == ip || (named.is_loopback() && ip.is_loopback()),
            None => site.host == "localhost" && ip.is_loopback(),
        };
        (is_named && site.port == local.port()).then_some(site)
    }
}

/// Origin of a site: its scheme, host and port. The host is in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteOrigin {
    pub(crate) secure: bool,
    host: String,
    port: u16,
}

impl SiteOrigin {
    fn parse(url: &str) -> Option<SiteOrigin> {
        let uri: Uri = url.strip_suffix('/').unwrap_or(url).parse().ok()?;
        let scheme = uri.scheme()?;
        let secure = *scheme == Scheme::HTTPS;
        let has_no_path = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
        if !(secure || *scheme == Scheme::HTTP) || !has_no_path {
            return None;
        }
        let (host, port) = split_authority(uri.authority()?.as_str())?;
        Some(SiteOrigin { secure, host, port: port.unwrap_or(default_port(secure)) })
    }

    fn address(&self) -> Option<IpAddr> {
        match self.host.strip_prefix('[') {
            Some(bracketed) => bracketed.strip_suffix(']')?.parse().ok().map(IpAddr::V6),
            None => self.host.parse().ok().map(IpAddr::V4),
        }
    }

    fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.address().is_some_and(|address| address.is_loopback())
    }

    /// Formats the origin for comparison with `Origin`, which omits the scheme's default port.
    pub(crate) fn origin(&self) -> String {
        let (scheme, host, port) =
            (if self.secure { "https" } else { "http" }, &self.host, self.port);
        if port == default_port(self.secure) {
            format!("{scheme}://{host}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    }
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// Splits an authority into lowercase host and port. Returns `None` if it contains anything else,
/// such as a user name.
fn split_authority(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port = match port {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse::<u16>().ok()?)
        }
        Some(_) => return None,
        None => None,
    };
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    if host.is_empty() || !(is_name || is_ipv6) {
        return None;
    }
    Some((host.to_ascii_lowercase(), port))
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
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    fn info() -> ConnectionInfo {
        ConnectionInfo {
            local: Some("127.0.0.1:7600".parse().unwrap()),
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

    fn local_address() -> Option<SocketAddr> {
        Some("127.0.0.1:7600".parse().unwrap())
    }

    /// Checks that every accepted `Host` field is a name that no other site can have.
    #[test]
    fn no_accepted_host_field_names_another_site() {
        let parts = [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "evil",
            ".",
            ":",
            "7600",
            "@",
            "/",
            "%2e",
            "[",
            "]",
            "0x7f",
            "\u{e9}",
            " ",
            "",
            "7f000001",
            "-",
            "_",
            "#",
            "?",
        ];
        let mut random = Xoshiro256PlusPlus::seed_from_u64(9);
        for _ in 0..50_000 {
            let count = random.next_u32() % 6;
            let text: String =
                (0..count).map(|_| parts[random.next_u32() as usize % parts.len()]).collect();
            if let Some(site) = AllowedHosts::local().match_site(&text, local_address(), false) {
                let known = ["127.0.0.1", "localhost", "[::1]"];
                assert!(known.contains(&site.host.as_str()) && site.port == 7600, "{text}");
            }
        }
    }

    #[test]
    fn a_published_address_is_a_scheme_a_name_and_perhaps_a_port() {
        let mistakes =
            ["perf.example", "ftp://perf.example", "https://perf.example/path", "https://"];
        for url in mistakes {
            assert!(AllowedHosts::public(url).is_err(), "{url}");
        }
        let hosts = AllowedHosts::public("https://Perf.Example:8443/").unwrap();
        let site = |name| hosts.match_site(name, local_address(), false).map(|site| site.origin());
        assert_eq!(site("perf.example:8443").unwrap(), "https://perf.example:8443");
        assert_eq!(site("perf.example:8444"), None);
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let counted = |text: &str| address_group(text.parse().unwrap());
        assert_eq!(counted("2001:db8::1"), counted("2001:db8::ffff:1"));
        assert_ne!(counted("2001:db8::1"), counted("2001:db8:0:1::1"));
        assert_eq!(counted("::ffff:10.0.0.1"), counted("10.0.0.1"));
        assert_ne!(counted("10.0.0.1"), counted("10.0.0.2"));
    }
}
