//! Decides which host names this server answers to.
//!
//! Another site can make its own name resolve to 127.0.0.1, so that its pages can read what is
//! served there (DNS rebinding). The requests of these pages still contain that site's name. Every
//! request must therefore name a literal address of this machine, `localhost`, or the server's
//! public address. Neither axum nor tower-http checks this.

use crate::http::error::Error;
use axum::http::uri::{Scheme, Uri};
use std::net::{IpAddr, SocketAddr};

/// Listening socket that accepted a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ListenerOrigin {
    Tcp(SocketAddr),
    Unix,
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
        match SiteOrigin::parse(url) {
            Some(site) => Ok(AllowedHosts { public: Some(site) }),
            None => Err(Error::PublicUrl(url.to_owned())),
        }
    }

    /// Returns the name of the public address. Returns `None` for a loopback address.
    pub fn public_name(&self) -> Option<&str> {
        let public = self.public.as_ref().filter(|site| !site.is_loopback());
        public.map(|site| site.host.as_str())
    }

    /// Returns the site that `authority` names, or `None` if this server does not serve that site.
    pub(crate) fn match_site(
        &self,
        authority: &str,
        listener: ListenerOrigin,
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
        let local = match listener {
            ListenerOrigin::Unix => return site.is_loopback().then_some(site),
            ListenerOrigin::Tcp(local) => local,
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
        let (scheme, host, port) = (scheme_name(self.secure), &self.host, self.port);
        if port == default_port(self.secure) {
            format!("{scheme}://{host}")
        } else {
            format!("{scheme}://{host}:{port}")
        }
    }
}

fn scheme_name(secure: bool) -> &'static str {
    if secure { "https" } else { "http" }
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

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{RngCore, SeedableRng};

    fn listener() -> ListenerOrigin {
        ListenerOrigin::Tcp("127.0.0.1:7600".parse().unwrap())
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
            if let Some(site) = AllowedHosts::local().match_site(&text, listener(), false) {
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
        let site = |name| hosts.match_site(name, listener(), false).map(|site| site.origin());
        assert_eq!(site("perf.example:8443").unwrap(), "https://perf.example:8443");
        assert_eq!(site("perf.example:8444"), None);
    }
}
