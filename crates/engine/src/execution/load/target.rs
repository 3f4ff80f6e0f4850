//! Resolves a URL to the addresses to which a load connects.
//!
//! Decides how --unix-socket, --proxy, --connect-to and --resolve change these addresses. Start at
//! [`resolve_target`].

use anyhow::{Context, Result, bail, ensure};
use speedwell_load::load::{
    ClientIdentity, LoadConfig, LoadTarget, ServerAddress, TlsOptions, TrustSource,
};
use speedwell_model::load::spec::LoadSpec;
use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

/// Timeout for checking whether an address accepts connections. Addresses are checked only if a
/// host has several.
const CONNECT_CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// Resolves where the requests for a URL go.
///
/// # Errors
/// Fails for a host that does not resolve, or an invalid rule.
pub(super) fn resolve_target(spec: &LoadSpec, url: &TargetUrl) -> Result<LoadTarget> {
    Ok(LoadTarget {
        host: url.host.clone(),
        port: url.port,
        addresses: resolve_addresses(spec, url)?,
        local: spec.bind,
        tls: url.is_tls.then(|| tls_options(spec)),
    })
}

/// Returns the TLS settings of the connections.
pub(super) fn tls_options(spec: &LoadSpec) -> TlsOptions {
    TlsOptions {
        trust: match (spec.insecure, &spec.cacert) {
            (true, _) => TrustSource::Anyone,
            (false, Some(file)) => TrustSource::Authority(file.clone()),
            (false, None) => TrustSource::System,
        },
        identity: spec.cert.as_ref().map(|cert| ClientIdentity {
            certificates: cert.clone(),
            key: spec.key.as_ref().unwrap_or(cert).clone(),
        }),
        server_name: spec.sni.clone(),
    }
}

/// Returns the proxy, if any.
///
/// # Errors
/// Fails if the proxy cannot be used for this URL.
pub(super) fn find_proxy(spec: &LoadSpec, url: &TargetUrl) -> Result<Option<TargetUrl>> {
    let Some(text) = &spec.proxy else { return Ok(None) };
    let proxy = TargetUrl::parse(text).context("in --proxy")?;
    ensure!(!proxy.is_tls, "TLS to a proxy is not supported: '{text}'\nhint: use http://");
    ensure!(
        !url.is_tls,
        "cannot send the load to '{url}' through a proxy: with TLS, the proxy would only forward \
         bytes\nhint: leave out --proxy, or use http://"
    );
    Ok(Some(proxy))
}

fn resolve_addresses(spec: &LoadSpec, url: &TargetUrl) -> Result<Vec<ServerAddress>> {
    if let Some(path) = &spec.unix_socket {
        return Ok(vec![ServerAddress::Unix(path.clone())]);
    }
    let (mut host, mut port) = match find_proxy(spec, url)? {
        Some(proxy) => (proxy.host, proxy.port),
        None => (url.host.clone(), url.port),
    };
    for text in &spec.connect_to {
        let target = apply_connect_to(text, &host, port)
            .with_context(|| format!("in --connect-to '{text}'"))?;
        if let Some(target) = target {
            (host, port) = target;
            break;
        }
    }
    for text in &spec.resolve {
        let (for_host, for_port, addresses) =
            parse_resolve(text).with_context(|| format!("in --resolve '{text}'"))?;
        if for_host.eq_ignore_ascii_case(&host) && for_port == port {
            let socket = |ip| ServerAddress::Internet(SocketAddr::new(ip, port));
            return Ok(addresses.into_iter().map(socket).collect());
        }
    }
    LoadTarget::resolve_host(&host, port)
        .with_context(|| format!("cannot send the load to '{url}'"))
}

/// Applies a rule of --connect-to: `HOST1:PORT1:HOST2:PORT2`, where each part may be empty, or
/// `HOST2:PORT2` for every host. Returns where to connect to; `None` if the rule does not match.
fn apply_connect_to(rule: &str, host: &str, port: u16) -> Result<Option<(String, u16)>> {
    let parts = split_rule(rule)?;
    let (from_host, from_port, to_host, to_port) = match parts[..] {
        [to_host, to_port] => ("", "", to_host, to_port),
        [from_host, from_port, to_host, to_port] => (from_host, from_port, to_host, to_port),
        _ => bail!("expected HOST1:PORT1:HOST2:PORT2"),
    };
    let parse_port = |digits: &str| match digits {
        "" => Ok(None),
        digits => {
            digits.parse::<u16>().map(Some).with_context(|| format!("'{digits}' is not a port"))
        }
    };
    let (from_port, to_port) = (parse_port(from_port)?, parse_port(to_port)?);
    let matches = (from_host.is_empty() || from_host.eq_ignore_ascii_case(host))
        && from_port.is_none_or(|expected| expected == port);
    let to_host = if to_host.is_empty() { host } else { to_host };
    Ok(matches.then(|| (to_host.to_owned(), to_port.unwrap_or(port))))
}

/// Parses a rule of --resolve: `HOST:PORT:ADDRESS[,ADDRESS...]`.
fn parse_resolve(text: &str) -> Result<(String, u16, Vec<IpAddr>)> {
    let form = "expected HOST:PORT:ADDRESS[,ADDRESS...]";
    let after_host = match text.strip_prefix('[') {
        Some(remaining) => text.len() - remaining.len() + remaining.find(']').context(form)? + 1,
        None => text.find(':').context(form)?,
    };
    let digits_end = text[after_host..].get(1..).and_then(|remaining| remaining.find(':'));
    let split = after_host + 1 + digits_end.context(form)?;
    let (host, port) = parse_host_and_port(&text[..split])?;
    let mut addresses = Vec::new();
    for address in text[split + 1..].split(',') {
        let ip = address.trim_matches(['[', ']']).parse();
        addresses.push(ip.with_context(|| format!("'{address}' is not an IP address"))?);
    }
    Ok((host, port.context(form)?, addresses))
}

/// Splits at colons, except within the brackets of an IPv6 address.
fn split_rule(text: &str) -> Result<Vec<&str>> {
    let mut parts = Vec::new();
    let mut remaining = text;
    loop {
        let (part, after) = match remaining.strip_prefix('[') {
            Some(inside) => inside.split_once(']').context("a '[' is not closed")?,
            None => remaining.split_at(remaining.find(':').unwrap_or(remaining.len())),
        };
        parts.push(part);
        match after.strip_prefix(':') {
            Some(next) => remaining = next,
            None => {
                ensure!(after.is_empty(), "unexpected '{after}'");
                return Ok(parts);
            }
        }
    }
}

/// A parsed target URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetUrl {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    /// Name and password, decoded.
    pub credentials: Option<(String, String)>,
    /// The host; an IPv6 address has no brackets.
    pub host: String,
    /// The port, explicit or default.
    pub port: u16,
    /// Path and query, beginning with `/`.
    pub path: String,
}

impl TargetUrl {
    /// Parses a URL. The scheme defaults to `http`, the path to `/`. Spaces and non-ASCII
    /// characters in the path are percent-encoded; the fragment is dropped, since it is never sent.
    /// Text between double braces stays as it is, because it is a placeholder.
    ///
    /// # Errors
    /// Fails if the text is not an HTTP URL; the message says what is expected.
    pub fn parse(text: &str) -> Result<TargetUrl> {
        let (scheme, after_scheme) = text.split_once("://").unwrap_or(("http", text));
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            other => bail!("unsupported scheme '{other}' in '{text}': expected http or https"),
        };
        let authority_end = after_scheme.find(['/', '?', '#']).unwrap_or(after_scheme.len());
        let (authority, path) = after_scheme.split_at(authority_end);
        let (credentials, host_and_port) = match authority.rsplit_once('@') {
            Some((user, host_and_port)) => {
                let (name, password) = user.split_once(':').unwrap_or((user, ""));
                (Some((percent_decode(name), percent_decode(password))), host_and_port)
            }
            None => (None, authority),
        };
        let (host, port) = parse_host_and_port(host_and_port).with_context(|| {
            format!(
                "cannot parse URL '{text}': expected an address such as http://localhost:8080/path"
            )
        })?;
        let default_port = if is_tls { 443 } else { 80 };
        Ok(TargetUrl {
            is_tls,
            credentials,
            host,
            port: port.unwrap_or(default_port),
            path: encode_path(path),
        })
    }

    /// Resolves a `Location` reference against this URL (RFC 3986, section 5.2).
    ///
    /// # Errors
    /// Fails if the result is not an HTTP URL.
    pub fn join(&self, reference: &str) -> Result<TargetUrl> {
        let scheme = if self.is_tls { "https" } else { "http" };
        let absolute = match reference.strip_prefix("//") {
            Some(after) => Some(format!("{scheme}://{after}")),
            None => has_scheme(reference).then(|| reference.to_owned()),
        };
        if let Some(absolute) = absolute {
            let url = TargetUrl::parse(&absolute)?;
            let origin = |url: &TargetUrl| (url.is_tls, url.host.clone(), url.port);
            // Name and password are only for the same origin.
            let inherited = self.credentials.clone().filter(|_| origin(&url) == origin(self));
            return Ok(TargetUrl { credentials: url.credentials.clone().or(inherited), ..url });
        }
        let (own_path, _) = self.path.split_once('?').unwrap_or((&self.path, ""));
        let path = match reference.chars().next() {
            Some('/') => reference.to_owned(),
            Some('?') => format!("{own_path}{reference}"),
            None | Some('#') => self.path.clone(),
            Some(_) => {
                let folder = own_path.rfind('/').map_or("/", |index| &own_path[..=index]);
                format!("{folder}{reference}")
            }
        };
        Ok(TargetUrl { path: remove_dot_segments(&encode_path(&path)), ..self.clone() })
    }

    /// Returns `host` or `host:port`, as in the Host header: a default port is left out.
    pub fn authority(&self) -> String {
        // The zone of an address has a meaning only on this machine, so it is not sent to the
        // server (RFC 6874, section 1).
        self.authority_of(self.host.split('%').next().unwrap_or_default())
    }

    /// Does the same as [`TargetUrl::authority`], but with the given spelling of the host.
    fn authority_of(&self, host: &str) -> String {
        let default_port = if self.is_tls { 443 } else { 80 };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == default_port { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns the whole URL, which [`TargetUrl::parse`] can parse again. It contains name and
    /// password, so it must never be shown.
    pub fn to_full_string(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        let user = self.credentials.as_ref().map(|(name, password)| {
            let [name, password] = [name, password].map(|text| percent_encode(text, is_unreserved));
            format!("{name}:{password}@")
        });
        let user = user.unwrap_or_default();
        format!("{scheme}://{user}{}{}", self.authority_of(&self.host), self.path)
    }
}

/// Shows the URL without name and password.
impl fmt::Display for TargetUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(out, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// Parses a host with or without a port: `localhost:8080`, `[::1]:80`, `example.com`.
///
/// # Errors
/// Fails for an invalid host or port.
pub fn parse_host_and_port(text: &str) -> Result<(String, Option<u16>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(bracketed) => {
            let (host, after_bracket) = bracketed.split_once(']').context("a '[' is not closed")?;
            (host, after_bracket.strip_prefix(':'))
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    ensure!(!host.is_empty(), "the host is missing");
    // URLs write the zone's percent sign as %25 (RFC 6874, section 2).
    let host = host.replacen("%25", "%", 1);
    if let Some((_, zone)) = host.split_once('%') {
        ensure_interface(zone)?;
    }
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._:%~".contains(c);
    ensure!(
        host.chars().all(is_allowed),
        "invalid host '{host}'\nhint: write an international name in its ASCII form (xn--...)"
    );
    let port = match port {
        None | Some("") => None,
        Some(digits) => {
            let port: u16 = digits.parse().with_context(|| format!("'{digits}' is not a port"))?;
            ensure!(port > 0, "cannot connect to port 0");
            Some(port)
        }
    };
    Ok((host, port))
}

/// Rejects an IPv6 zone that is not an interface of this machine. Without this check, name
/// resolution would fail and report only that the name is unknown.
fn ensure_interface(zone: &str) -> Result<()> {
    let is_number = !zone.is_empty() && zone.bytes().all(|byte| byte.is_ascii_digit());
    let is_known =
        !zone.is_empty() && !zone.contains('/') && Path::new("/sys/class/net").join(zone).exists();
    ensure!(
        is_number || is_known,
        "the zone of the address names an unknown network interface '{zone}'\nhint: 'ip link' lists \
         the interfaces"
    );
    Ok(())
}

/// Encodes a path as it will be sent: [`TargetUrl::parse`] describes how.
pub(super) fn encode_path(text: &str) -> String {
    let (text, _) = text.split_once('#').unwrap_or((text, ""));
    let mut path = String::with_capacity(text.len() + 1);
    if !text.starts_with('/') {
        path.push('/');
    }
    let mut unencoded = text;
    while let Some((literal, after_braces)) = unencoded.split_once("{{") {
        let Some((name, after)) = after_braces.split_once("}}") else { break };
        path += &percent_encode(literal, |byte| byte.is_ascii_graphic());
        path += &format!("{{{{{name}}}}}");
        unencoded = after;
    }
    path += &percent_encode(unencoded, |byte| byte.is_ascii_graphic());
    path
}

/// Percent-encodes all bytes but the ASCII characters for which `is_literal` holds; the inverse of
/// [`percent_decode`].
fn percent_encode(text: &str, is_literal: fn(u8) -> bool) -> String {
    let encode = |byte: u8| {
        if is_literal(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    text.bytes().map(encode).collect()
}

/// Whether a character needs no encoding anywhere (RFC 3986, section 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut remaining = text.as_bytes();
    while let Some((&first_byte, after)) = remaining.split_first() {
        let digits = after.get(..2).filter(|_| first_byte == b'%');
        let hex = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(first_byte));
        remaining = if code.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a reference begins with a scheme and an authority. A path or a query may contain `://`.
fn has_scheme(reference: &str) -> bool {
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    reference.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// Removes dot segments (RFC 3986, section 5.2.4).
fn remove_dot_segments(path: &str) -> String {
    let (path, query) = path.split_at(path.find('?').unwrap_or(path.len()));
    let mut segments: Vec<&str> = Vec::new();
    for part in path.split('/').skip(1) {
        match part {
            ".." => drop(segments.pop()),
            "." => {}
            part => segments.push(part),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        segments.push("");
    }
    format!("/{}{query}", segments.join("/"))
}

/// Drops addresses that refuse connections if other addresses of the host accept them. For example,
/// 'localhost' has an IPv4 and an IPv6 address, and many servers listen on only one of the two.
/// Returns a warning if a dropped address is not local.
pub fn drop_unreachable(load: &mut LoadConfig) -> Option<String> {
    if load.target.addresses.len() < 2 {
        return None;
    }
    let accepts = |address: &ServerAddress| match address {
        ServerAddress::Internet(socket) => {
            TcpStream::connect_timeout(socket, CONNECT_CHECK_TIMEOUT).is_ok()
        }
        ServerAddress::Unix(_) => true,
    };
    let (reachable, unreachable): (Vec<_>, Vec<_>) =
        load.target.addresses.iter().cloned().partition(accepts);
    if reachable.is_empty() || unreachable.is_empty() {
        return None;
    }
    load.target.addresses = reachable;
    let is_local = |address: &ServerAddress| match address {
        ServerAddress::Internet(socket) => socket.ip().is_loopback(),
        ServerAddress::Unix(_) => true,
    };
    if unreachable.iter().all(is_local) {
        return None;
    }
    let unreachable: Vec<String> = unreachable.iter().map(ToString::to_string).collect();
    Some(format!(
        "'{}' has addresses that accept no connection and were left out: {}.",
        load.target.host,
        unreachable.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses_with(spec: LoadSpec, url: &str) -> Vec<String> {
        let found = resolve_addresses(&spec, &TargetUrl::parse(url).unwrap()).unwrap();
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn connections_go_where_a_rule_says() {
        let rules = |rules: &[&str]| LoadSpec {
            connect_to: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            ..LoadSpec::default()
        };
        let to = |rule: &str| addresses_with(rules(&[rule]), "http://127.0.0.9:81/");
        assert_eq!(to("127.0.0.9:81:127.0.0.1:9"), ["127.0.0.1:9"]);
        assert_eq!(to("::127.0.0.1:"), ["127.0.0.1:81"]);
        assert_eq!(to("127.0.0.1:9"), ["127.0.0.1:9"]);
        assert_eq!(to("other:81:127.0.0.1:9"), ["127.0.0.9:81"]);
        assert_eq!(to("::[::1]:9"), ["[::1]:9"]);
        let both = rules(&["x::127.0.0.2:", ":81::82", "::127.0.0.3:"]);
        assert_eq!(addresses_with(both, "http://127.0.0.9:81/"), ["127.0.0.9:82"]);
    }

    #[test]
    fn resolve_rules_set_the_addresses_of_a_host() {
        let spec = LoadSpec {
            resolve: vec!["example.com:80:127.0.0.1,[::1]".into()],
            ..LoadSpec::default()
        };
        let found = addresses_with(spec, "http://example.com/");
        assert_eq!(found, ["127.0.0.1:80", "[::1]:80"]);
    }

    #[test]
    fn rules_that_cannot_be_read_are_refused() {
        assert!(apply_connect_to("a:b:c", "a", 1).is_err());
        assert!(apply_connect_to("a:99999:b:1", "a", 1).is_err());
        for wrong in ["a", "a:80", "a:80:b", "a:x:127.0.0.1"] {
            assert!(parse_resolve(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_proxy_takes_the_connections_of_plain_requests() {
        let spec = LoadSpec { proxy: Some("http://127.0.0.1:3128".into()), ..LoadSpec::default() };
        let plain = TargetUrl::parse("http://example.com/").unwrap();
        let found = resolve_addresses(&spec, &plain).unwrap();
        assert_eq!(found, [ServerAddress::Internet("127.0.0.1:3128".parse().unwrap())]);
        let tls = TargetUrl::parse("https://example.com/").unwrap();
        assert!(resolve_addresses(&spec, &tls).is_err());
    }
}

#[cfg(test)]
mod url_tests {
    use super::*;

    fn url(text: &str) -> TargetUrl {
        TargetUrl::parse(text).unwrap()
    }

    #[test]
    fn the_zone_of_an_address_is_an_interface() {
        let told = TargetUrl::parse("http://[fe80::1%25nothere]:80/").unwrap_err();
        let told = format!("{told:#}");
        assert!(told.contains("unknown network interface 'nothere'"), "{told}");
        for zone in ["%25lo", "%lo", "%251"] {
            let found = url(&format!("http://[::1{zone}]:80/"));
            assert_eq!(found.authority(), "[::1]", "zones are not sent to the server");
            assert_eq!(url(&found.to_full_string()), found);
            assert!(found.host.starts_with("::1%"));
        }
    }

    #[test]
    fn scheme_path_and_default_port_may_be_left_out() {
        let full = url("http://localhost:8080/a?b=c#d");
        assert_eq!((full.host.as_str(), full.port), ("localhost", 8080));
        assert_eq!(full.path, "/a?b=c");
        assert_eq!(url("localhost:8080/a?b=c"), full);
        assert_eq!(url("HTTPS://example.com").to_string(), "https://example.com/");
        assert_eq!(url("http://x?q=1").path, "/?q=1");
        assert_eq!(url("http://[::1]:9000/").authority(), "[::1]:9000");
        assert_eq!(url("https://x:443/").authority(), "x");
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let url = url("http://anna:p%40ss@h/");
        assert_eq!(url.credentials, Some(("anna".into(), "p@ss".into())));
        assert_eq!(url.to_string(), "http://h/");
    }

    #[test]
    fn full_urls_parse_to_the_same_url() {
        for text in
            ["http://anna:p%40s%3as%25@h:81/a b?c={{ id }}", "https://anna@[::1]/", "http://h"]
        {
            assert_eq!(url(&url(text).to_full_string()), url(text), "{text}");
        }
    }

    #[test]
    fn credentials_are_kept_only_for_the_same_origin() {
        let from = url("http://anna:pw@h:81/a");
        let goes_along = |to: &str| from.join(to).unwrap().credentials == from.credentials;
        for same in ["/b", "b", "//h:81/b", "http://h:81/b"] {
            assert!(goes_along(same), "{same}");
        }
        for other in ["//h:82/b", "https://h:81/b", "http://other:81/b", "http://x:y@h:81/b"] {
            assert!(!goes_along(other), "{other}");
        }
    }

    #[test]
    fn paths_are_percent_encoded_except_placeholders() {
        assert_eq!(url("http://h/a b/ä").path, "/a%20b/%C3%A4");
        assert_eq!(url("http://h/{{ id }}/x y").path, "/{{ id }}/x%20y");
    }

    #[test]
    fn mistakes_are_named() {
        let told = |text: &str| format!("{:#}", TargetUrl::parse(text).unwrap_err());
        assert!(told("ftp://h/").contains("unsupported scheme 'ftp'"));
        assert!(told("http://h:99999/").contains("'99999' is not a port"));
        assert!(told("http:///x").contains("the host is missing"));
        assert!(told("http://bücher.de/").contains("xn--"));
    }

    #[test]
    fn redirects_are_followed_as_browsers_do() {
        let from = url("http://h:81/a/b?x=1");
        let to = |reference: &str| from.join(reference).unwrap().to_string();
        assert_eq!(to("/c"), "http://h:81/c");
        assert_eq!(to("c?y"), "http://h:81/a/c?y");
        assert_eq!(to("../c/./d/.."), "http://h:81/c/");
        assert_eq!(to("?z"), "http://h:81/a/b?z");
        assert_eq!(to("//other/c"), "http://other/c");
        assert_eq!(to("https://other:444/"), "https://other:444/");
        assert_eq!(to("/in?next=https://x"), "http://h:81/in?next=https://x");
        assert_eq!(to("in/https://x"), "http://h:81/a/in/https://x");
    }
}
