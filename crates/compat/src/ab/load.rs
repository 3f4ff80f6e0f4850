//! Builds the load that a command line describes.
//!
//! Decides the bytes on the wire. Requests have ab's header fields in ab's order and use HTTP/1.1.
//! With `--http1.0`, requests equal ab's own requests byte for byte, unless there are several
//! cookies. Does not run the load. Start at [`build_load`].

use crate::ab::arguments::AbRequest;
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use speedwell_load::http1::{ConnectionOption, Http1Version};
use speedwell_load::load::{
    BodyRule, ClientIdentity, ConnectionRules, HttpVersion, LoadConfig, LoadShare, LoadTarget,
    RequestKind, RequestKinds, RequestTimeouts, SuccessRule, TlsOptions, TrustSource,
};
use speedwell_load::pace::{ClosedPace, PacingModel, StopCondition, ThinkTime};
use std::path::{Path, PathBuf};

/// User agent of requests with `--http1.0`. It is ab's own user agent, because the responses of
/// some servers depend on it.
const AB_USER_AGENT: &str = "ApacheBench/2.3";

/// Builds the load.
///
/// # Errors
/// Fails if the command line requests something that is not supported, or if the host name cannot
/// be resolved.
pub fn build_load(request: &AbRequest, url: &AbUrl, body: Option<Vec<u8>>) -> Result<LoadConfig> {
    let kinds = RequestKinds::single(build_request(request, url, body))?;
    let pace = ClosedPace::new(request.concurrency, ThinkTime::None)?;
    let limit_ns = Some(to_nanoseconds(request.timeout_s));
    let timeouts =
        RequestTimeouts { connect_ns: limit_ns, first_byte_ns: None, total_ns: limit_ns };
    Ok(LoadConfig {
        target: build_target(request, url)?,
        kinds,
        http: HttpVersion::One,
        pace: PacingModel::Closed(pace),
        connections: request.concurrency,
        max_connections: request.concurrency,
        streams_per_connection: 1,
        stop: StopCondition {
            after_requests: request.requests,
            after_ns: request.time_s.map(to_nanoseconds),
        },
        warmup_ns: 0,
        // If only a time is given, ab stops when the time is up, without waiting for responses. If
        // a number of requests is given, ab waits for their responses.
        drain_ns: match request.requests {
            // This is longer than any request can take: one timeout for connecting, one timeout for
            // the response, and one second for the checks that notice timeouts.
            Some(_) => to_nanoseconds(2.0 * request.timeout_s + 1.0),
            None => 0,
        },
        rules: ConnectionRules {
            timeouts,
            // Responses are not handled in batches, because the report has a time for each.
            max_delay_ns: None,
            ..ConnectionRules::default()
        },
        success: SuccessRule {
            // ab accepts any status, and counts responses with a status other than 2xx separately.
            statuses: vec![0..=999],
            body: request.verify.as_ref().map(|text| BodyRule::Contains(text.as_bytes().to_vec())),
        },
        // One thread, as in ab, so that the figures are comparable.
        threads: 1,
        processors: Vec::new(),
        part: LoadShare::ONLY,
        keeps_rows: true,
        steady: None,
    })
}

fn to_nanoseconds(seconds: f64) -> u64 {
    // The command line accepts at most a year, so the nanoseconds fit.
    (seconds * 1e9) as u64
}

fn build_target(request: &AbRequest, url: &AbUrl) -> Result<LoadTarget> {
    let parsed = request.proxy.as_deref().map(|text| HostPort::parse(text, 80)).transpose();
    let proxy = parsed.map_err(anyhow::Error::msg)?;
    if proxy.is_some() && url.is_tls {
        bail!("'-X' is not supported with https: proxy tunnels are not implemented");
    }
    let connected_host = proxy.as_ref().unwrap_or(&url.host);
    let identity =
        |file: &PathBuf| ClientIdentity { certificates: file.clone(), key: file.clone() };
    let tls = TlsOptions {
        trust: if request.trusts_anyone { TrustSource::Anyone } else { TrustSource::System },
        identity: request.identity.as_ref().map(identity),
        ..TlsOptions::default()
    };
    Ok(LoadTarget {
        host: url.host.name.clone(),
        port: url.host.port,
        addresses: LoadTarget::resolve_host(&connected_host.name, connected_host.port)?,
        local: request.local,
        tls: url.is_tls.then_some(tls),
    })
}

/// Returns the header fields that ab sends, in ab's order.
fn build_headers(request: &AbRequest, url: &AbUrl, body: Option<&[u8]>) -> Vec<(String, Vec<u8>)> {
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let mut headers = Vec::new();
    // This field is redundant in HTTP/1.1, but servers that respond with HTTP/1.0 require it.
    headers.extend(request.keeps_alive.then(|| header("Connection", "Keep-Alive")));
    if !request.cookies.is_empty() {
        // All cookies are sent in one field (RFC 6265, section 5.4); ab sends only the last cookie.
        headers.push(header("Cookie", &request.cookies.join("; ")));
    }
    for (name, credentials) in [
        ("Authorization", &request.credentials),
        ("Proxy-Authorization", &request.proxy_credentials),
    ] {
        let encoded = credentials.as_ref().map(|credentials| STANDARD.encode(credentials));
        headers.extend(encoded.map(|encoded| header(name, &format!("Basic {encoded}"))));
    }
    if let Some(body) = body {
        headers.push(header("Content-length", &body.len().to_string()));
        headers.push(header("Content-type", &request.content_type));
    }
    headers.extend(request.headers.iter().map(|(name, value)| header(name, value)));
    let own_agent = format!("Speedwell/{}", env!("CARGO_PKG_VERSION"));
    let agent = if request.is_http10 { AB_USER_AGENT.to_owned() } else { own_agent };
    for (name, value) in
        [("Host", url.host_header()), ("User-Agent", agent), ("Accept", "*/*".to_owned())]
    {
        let is_given = |(header_name, _): &(String, String)| header_name.eq_ignore_ascii_case(name);
        if !request.headers.iter().any(is_given) {
            headers.push(header(name, &value));
        }
    }
    headers
}

/// Builds the request that is repeated.
fn build_request(request: &AbRequest, url: &AbUrl, body: Option<Vec<u8>>) -> RequestKind {
    let connection =
        if request.keeps_alive { ConnectionOption::KeepAlive } else { ConnectionOption::Close };
    let is_proxied = request.proxy.is_some();
    RequestKind {
        name: "request".to_owned(),
        method: request.method().to_owned(),
        target: if is_proxied { url.absolute_form() } else { url.path.clone() },
        host: url.host_header(),
        headers: build_headers(request, url, body.as_deref()),
        body,
        version: if request.is_http10 { Http1Version::Http10 } else { Http1Version::Http11 },
        connection,
        ..RequestKind::get("", "/")
    }
}

/// Reads the body to send.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read_body(request: &AbRequest, directory: &Path) -> Result<Option<Vec<u8>>> {
    let Some(upload) = &request.upload else { return Ok(None) };
    let file = directory.join(&upload.file);
    ensure!(!file.is_dir(), "'{}' is a folder", upload.file.display());
    let context = || format!("cannot read the request body '{}'", upload.file.display());
    std::fs::read(&file).with_context(context).map(Some)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Name or IP address; IPv6 without brackets.
    pub name: String,
    pub port: u16,
}

/// URL to test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbUrl {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    pub host: HostPort,
    /// Path and query.
    pub path: String,
}

impl HostPort {
    /// Parses `host` or `host:port`.
    ///
    /// # Errors
    /// Fails if the string is invalid; the error is a sentence fragment that says why.
    pub fn parse(text: &str, default_port: u16) -> Result<HostPort, String> {
        let invalid_host = || format!("invalid host '{text}'");
        let bracketed = text.strip_prefix('[').and_then(|inside| inside.split_once(']'));
        let (name, port) = match bracketed {
            Some((name, "")) => (name, None),
            Some((name, after)) => (name, Some(after.strip_prefix(':').ok_or_else(invalid_host)?)),
            None => text.rsplit_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
        };
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '@') {
            return Err(invalid_host());
        }
        let port = match port.map(str::parse::<u16>) {
            None => default_port,
            Some(Ok(port)) if port > 0 => port,
            Some(_) => return Err(format!("invalid port '{}'", port.unwrap_or_default())),
        };
        Ok(HostPort { name: name.to_owned(), port })
    }
}

impl AbUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// Fails if the string is invalid; the error is a sentence fragment that says why.
    pub fn parse(text: &str) -> Result<AbUrl, String> {
        let invalid_url = |reason: &str| format!("invalid URL '{text}': {reason}");
        let (is_tls, location) = match text.split_once("://") {
            Some(("http", location)) => (false, location),
            Some(("https", location)) => (true, location),
            Some((scheme, _)) if !scheme.contains(['/', '?']) => {
                return Err(invalid_url("expected http:// or https://"));
            }
            _ => (false, text),
        };
        let end = location.find(['/', '?', '#']).unwrap_or(location.len());
        let (host, path) = location.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let host = HostPort::parse(host, if is_tls { 443 } else { 80 })
            .map_err(|reason| invalid_url(&reason))?;
        Ok(AbUrl {
            is_tls,
            host,
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
        })
    }

    /// Returns the value of the header field `Host`. The default port is left out.
    pub fn host_header(&self) -> String {
        let HostPort { name, port } = &self.host;
        let name = if name.contains(':') { format!("[{name}]") } else { name.clone() };
        let default_port = if self.is_tls { 443 } else { 80 };
        if *port == default_port { name } else { format!("{name}:{port}") }
    }

    /// Returns the absolute form of the URL, as sent to a proxy (RFC 9112, section 3.2.2).
    pub fn absolute_form(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host_header(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::arguments::{AbCommand, AbRequest};
    use speedwell_load::http1;

    fn parse_request(line: &str) -> AbRequest {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match AbCommand::parse(&words) {
            Ok(AbCommand::Test(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn request_text(line: &str, body: Option<&[u8]>) -> String {
        let request = parse_request(line);
        let url = AbUrl::parse(&request.url).unwrap();
        let kind = build_request(&request, &url, body.map(<[u8]>::to_vec));
        let bytes =
            kind.with_parts(|parts| http1::Http1Request::new(parts).unwrap().bytes().to_vec());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn http_1_0_requests_match_those_recorded_from_ab() {
        // Recorded from ab 2.3, with one cookie.
        assert_eq!(
            request_text("--http1.0 -k http://127.0.0.1:18333/a", None),
            "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: 127.0.0.1:18333\r\n\
             User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(
            request_text(
                "--http1.0 -A user:pw -P a:b -C y=2 -H X-A:b -H User-Agent:me -H Host:other \
                 -X 127.0.0.1:18333 http://example.test/p?q",
                None
            ),
            "GET http://example.test/p?q HTTP/1.0\r\nCookie: y=2\r\n\
             Authorization: Basic dXNlcjpwdw==\r\nProxy-Authorization: Basic YTpi\r\nX-A: b\r\n\
             User-Agent: me\r\nHost: other\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(
            request_text("--http1.0 -p post -T text/x http://127.0.0.1:18333/p", Some(b"a=1\n")),
            "POST /p HTTP/1.0\r\nContent-length: 4\r\nContent-type: text/x\r\n\
             Host: 127.0.0.1:18333\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\na=1\n"
        );
        assert_eq!(
            request_text("--http1.0 -m DELETE http://127.0.0.1:18333/p", None),
            "DELETE /p HTTP/1.0\r\nHost: 127.0.0.1:18333\r\nUser-Agent: ApacheBench/2.3\r\n\
             Accept: */*\r\n\r\n"
        );
    }

    #[test]
    fn default_requests_use_http_1_1_with_an_explicit_connection_header() {
        let agent = format!("User-Agent: Speedwell/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            request_text("-C a=1 -C b=2 http://h/", None),
            format!(
                "GET / HTTP/1.1\r\nCookie: a=1; b=2\r\nHost: h\r\n{agent}\r\nAccept: */*\r\n\
                 Connection: close\r\n\r\n"
            )
        );
        let request = request_text("-k http://h/", None);
        assert!(request.starts_with("GET / HTTP/1.1\r\nConnection: Keep-Alive\r\nHost: h\r\n"));
    }

    #[test]
    fn the_load_is_closed_and_ends_as_asked() {
        let request = parse_request("-n 200 -c 10 -k -s 2 --verify hello http://127.0.0.1:81/a");
        let url = AbUrl::parse(&request.url).unwrap();
        let load = build_load(&request, &url, None).unwrap();
        assert!(load.is_closed() && load.keeps_rows);
        assert_eq!(load.stop.after_requests, Some(200));
        assert_eq!(load.stop.after_ns, None);
        assert_eq!(load.rules.timeouts.total_ns, Some(2_000_000_000));
        assert!(load.success.accepts_status(404));
        let timed = build_load(&parse_request("-t 5 http://127.0.0.1/"), &url, None).unwrap();
        assert_eq!(timed.stop.after_requests, None);
        assert_eq!(timed.stop.after_ns, Some(5_000_000_000));
    }

    #[test]
    fn a_proxy_is_connected_to_instead_of_the_server() {
        let through = parse_request("-X 127.0.0.1:3128 http://nowhere.invalid/");
        let url = AbUrl::parse(&through.url).unwrap();
        let target = build_target(&through, &url).unwrap();
        let address =
            speedwell_load::load::ServerAddress::Internet("127.0.0.1:3128".parse().unwrap());
        assert_eq!(target.addresses, [address]);
        let tunnel = parse_request("-X 127.0.0.1:3128 https://nowhere.invalid/");
        let url = AbUrl::parse(&tunnel.url).unwrap();
        assert!(super::build_target(&tunnel, &url).is_err());
    }

    #[test]
    fn an_address_is_read_in_every_form() {
        for (text, is_tls, name, port, path) in [
            ("http://a.test/x?y=z#frag", false, "a.test", 80, "/x?y=z"),
            ("a.test:8080/x", false, "a.test", 8080, "/x"),
            ("https://a.test", true, "a.test", 443, "/"),
            ("http://a.test?q=http://b/", false, "a.test", 80, "/?q=http://b/"),
            ("http://[::1]:81/", false, "::1", 81, "/"),
            ("[::1]/", false, "::1", 80, "/"),
        ] {
            let url = AbUrl::parse(text).unwrap();
            let read = (url.is_tls, &*url.host.name, url.host.port, &*url.path);
            assert_eq!(read, (is_tls, name, port, path), "{text}");
        }
        for invalid_url in ["ftp://a/", "http:///x", "http://a:b/", "http://a:0/", "http://u@h/"] {
            let reason = AbUrl::parse(invalid_url).unwrap_err();
            assert!(reason.starts_with(&format!("invalid URL '{invalid_url}': ")), "{reason}");
        }
    }

    #[test]
    fn the_default_port_is_left_out_of_the_host_header() {
        let authority = |text: &str| AbUrl::parse(text).unwrap().host_header();
        assert_eq!(authority("http://a:80/"), "a");
        assert_eq!(authority("https://a:80/"), "a:80");
        assert_eq!(authority("http://[::1]:81/"), "[::1]:81");
        let absolute = AbUrl::parse("example.test/p?q").unwrap().absolute_form();
        assert_eq!(absolute, "http://example.test/p?q");
    }
}
