//! Builds the load that a command line describes.
//!
//! Decides the bytes on the wire: ab's header fields in ab's order, as HTTP/1.1 or, with
//! `--http1.0`, byte for byte as ab writes them. Knows nothing of how a load is run. Start at
//! [`load`].

use crate::ab::arguments::Request;
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use speedwell_load::http1::{Connection, Version};
use speedwell_load::load::{
    Batching, BodyRule, ConnectionRules, Http, Identity, Kind, Kinds, Load, Part, Success, Target,
    Timeouts, TlsOptions, Trust,
};
use speedwell_load::pace::{Closed, Pace, Stop, Think};

/// User agent of requests with `--http1.0`, on which some servers' responses depend.
const ORIGINAL_AGENT: &str = "ApacheBench/2.3";

/// Builds the load.
///
/// # Errors
/// The command line asks for something that cannot be sent; the message names it.
pub fn load(request: &Request, url: &Url, body: Option<Vec<u8>>) -> Result<Load> {
    let kinds = Kinds::single(kind(request, url, body))?;
    let closed = Closed::new(request.concurrency, Think::None)?;
    Ok(Load {
        target: target(request, url)?,
        kinds,
        http: Http::One,
        pace: Pace::Closed(closed),
        connections: request.concurrency,
        most_connections: request.concurrency,
        streams_per_connection: 1,
        stop: Stop {
            after_requests: request.requests,
            after_ns: request.time_s.map(nanoseconds),
        },
        warmup_ns: 0,
        // When the time is up, ab stops without waiting for responses; with a number of requests it
        // waits.
        drain_ns: match request.requests {
            // Longer than any request can take: to connect, to be answered, and for the timeouts to
            // be checked.
            Some(_) => nanoseconds(2.0 * request.timeout_s + 1.0),
            None => 0,
        },
        rules: rules(request),
        success: Success {
            // ab accepts any status and counts those other than 2xx separately.
            statuses: vec![0..=999],
            body: request
                .verify
                .as_ref()
                .map(|text| BodyRule::Contains(text.as_bytes().to_vec())),
        },
        // One thread, as in ab, so that the figures are comparable.
        threads: 1,
        processors: Vec::new(),
        part: Part::WHOLE,
        keeps_rows: true,
        steady: None,
    })
}

fn nanoseconds(seconds: f64) -> u64 {
    // At most a year, so it fits.
    (seconds * 1e9) as u64
}

fn rules(request: &Request) -> ConnectionRules {
    let limit_ns = Some(nanoseconds(request.timeout_s));
    ConnectionRules {
        timeouts: Timeouts {
            connect_ns: limit_ns,
            first_byte_ns: None,
            total_ns: limit_ns,
        },
        // Every response has its own time in the report, so none waits for others.
        batching: Batching::Off,
        ..ConnectionRules::default()
    }
}

fn target(request: &Request, url: &Url) -> Result<Target> {
    let proxy = request.proxy.as_deref().map(|text| Host::parse(text, 80));
    let proxy = proxy.transpose().map_err(anyhow::Error::msg)?;
    if proxy.is_some() && url.is_tls {
        bail!("'-X' is not supported with https: a proxy would have to be tunnelled through");
    }
    let to = proxy.as_ref().unwrap_or(&url.host);
    let security = &request.security;
    let tls = TlsOptions {
        trust: if security.trusts_anyone {
            Trust::Anyone
        } else {
            Trust::System
        },
        identity: security.identity.as_ref().map(|file| Identity {
            certificates: file.clone(),
            key: file.clone(),
        }),
        ..TlsOptions::default()
    };
    Ok(Target {
        host: url.host.name.clone(),
        port: url.host.port,
        addresses: Target::resolve(&to.name, to.port)?,
        local: request.local,
        tls: url.is_tls.then_some(tls),
    })
}

/// Returns ab's header fields in its order.
fn headers(request: &Request, url: &Url, body: Option<&[u8]>) -> Vec<(String, Vec<u8>)> {
    let text = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let mut headers = Vec::new();
    // Redundant in HTTP/1.1, but servers that respond with 1.0 require it.
    let keep_alive = request
        .keeps_alive
        .then(|| text("Connection", "Keep-Alive"));
    headers.extend(keep_alive);
    if !request.cookies.is_empty() {
        // One field for all cookies (RFC 6265, section 5.4); the original sends only the last one.
        headers.push(text("Cookie", &request.cookies.join("; ")));
    }
    for (name, credentials) in [
        ("Authorization", &request.credentials),
        ("Proxy-Authorization", &request.proxy_credentials),
    ] {
        let coded = credentials.as_ref().map(|known| STANDARD.encode(known));
        headers.extend(coded.map(|coded| text(name, &format!("Basic {coded}"))));
    }
    if let Some(body) = body {
        headers.push(text("Content-length", &body.len().to_string()));
        headers.push(text("Content-type", &request.content_type));
    }
    let given = request.headers.iter();
    headers.extend(given.map(|(name, value)| text(name, value)));
    let agent = if request.is_http10 {
        ORIGINAL_AGENT.to_owned()
    } else {
        format!("Speedwell/{}", env!("CARGO_PKG_VERSION"))
    };
    for (name, value) in [
        ("Host", url.authority()),
        ("User-Agent", agent),
        ("Accept", "*/*".to_owned()),
    ] {
        let is_given = |(known, _): &(String, String)| known.eq_ignore_ascii_case(name);
        if !request.headers.iter().any(is_given) {
            headers.push(text(name, &value));
        }
    }
    headers
}

/// Builds the request that is repeated.
fn kind(request: &Request, url: &Url, body: Option<Vec<u8>>) -> Kind {
    Kind {
        name: "request".to_owned(),
        method: request.method().to_owned(),
        target: match request.proxy {
            Some(_) => url.absolute(),
            None => url.path.clone(),
        },
        host: url.authority(),
        headers: headers(request, url, body.as_deref()),
        body,
        version: if request.is_http10 {
            Version::Http10
        } else {
            Version::Http11
        },
        connection: if request.keeps_alive {
            Connection::KeepAlive
        } else {
            Connection::Close
        },
        ..Kind::get("", "/")
    }
}

/// Reads the body to send.
///
/// # Errors
/// The file cannot be read.
pub fn body(request: &Request, directory: &std::path::Path) -> Result<Option<Vec<u8>>> {
    let Some(upload) = &request.upload else {
        return Ok(None);
    };
    let file = directory.join(&upload.file);
    ensure!(!file.is_dir(), "'{}' is a folder", upload.file.display());
    let read = std::fs::read(&file);
    read.with_context(|| format!("cannot read the data to send '{}'", upload.file.display()))
        .map(Some)
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Name or IP address; IPv6 without brackets.
    pub name: String,
    pub port: u16,
}

/// URL to test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is `https`.
    pub is_tls: bool,
    pub host: Host,
    /// Path and query.
    pub path: String,
}

impl Host {
    /// Parses `host:port`.
    ///
    /// # Errors
    /// The text is invalid; a sentence fragment says why.
    pub fn parse(text: &str, usual_port: u16) -> Result<Host, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => match rest.strip_prefix(':') {
                Some(port) => (name, Some(port)),
                None => return Err(format!("'{text}' is no host")),
            },
            None => match text.rsplit_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '@');
        if !is_name {
            return Err(format!("'{text}' is no host"));
        }
        let port = match port {
            None => usual_port,
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| format!("'{port}' is no port"))?,
        };
        Ok(Host {
            name: name.to_owned(),
            port,
        })
    }

    /// Returns the name as it appears in a URL.
    fn bracketed(&self) -> String {
        if self.name.contains(':') {
            format!("[{}]", self.name)
        } else {
            self.name.clone()
        }
    }
}

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    /// The text is invalid; a sentence fragment says why.
    pub fn parse(text: &str) -> Result<Url, String> {
        let wrong = |why: &str| format!("invalid URL '{text}': {why}");
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) if !scheme.contains(['/', '?']) => {
                return Err(wrong("it begins neither with http:// nor with https://"));
            }
            _ => (false, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let host = Host::parse(host, if is_tls { 443 } else { 80 }).map_err(|why| wrong(&why))?;
        Ok(Url {
            is_tls,
            host,
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }

    /// Returns the value of the header field Host: without the port if it is the default.
    pub fn authority(&self) -> String {
        let usual_port = if self.is_tls { 443 } else { 80 };
        if self.host.port == usual_port {
            self.host.bracketed()
        } else {
            format!("{}:{}", self.host.bracketed(), self.host.port)
        }
    }

    /// Returns the absolute form of the URL, as sent to a proxy (RFC 9112, section 3.2.2).
    pub fn absolute(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ab::arguments::{Command, Request};
    use speedwell_load::http1;

    fn request(line: &str) -> Request {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match Command::parse(&words) {
            Ok(Command::Test(request)) => *request,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn sent(line: &str, body: Option<&[u8]>) -> String {
        let request = request(line);
        let url = Url::parse(&request.url).unwrap();
        let kind = kind(&request, &url, body.map(<[u8]>::to_vec));
        let bytes = kind.with_parts(|parts| http1::Request::new(parts).unwrap().bytes().to_vec());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_old_form_is_what_ab_writes() {
        // Recorded from ab 2.3, with one cookie.
        assert_eq!(
            sent("--http1.0 -k http://127.0.0.1:18333/a", None),
            "GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: 127.0.0.1:18333\r\n\
             User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(
            sent(
                "--http1.0 -A user:pw -P a:b -C y=2 -H X-A:b -H User-Agent:me -H Host:other \
                 -X 127.0.0.1:18333 http://example.test/p?q",
                None
            ),
            "GET http://example.test/p?q HTTP/1.0\r\nCookie: y=2\r\n\
             Authorization: Basic dXNlcjpwdw==\r\nProxy-Authorization: Basic YTpi\r\nX-A: b\r\n\
             User-Agent: me\r\nHost: other\r\nAccept: */*\r\n\r\n"
        );
        assert_eq!(
            sent(
                "--http1.0 -p post -T text/x http://127.0.0.1:18333/p",
                Some(b"a=1\n")
            ),
            "POST /p HTTP/1.0\r\nContent-length: 4\r\nContent-type: text/x\r\n\
             Host: 127.0.0.1:18333\r\nUser-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\na=1\n"
        );
        assert_eq!(
            sent("--http1.0 -m DELETE http://127.0.0.1:18333/p", None),
            "DELETE /p HTTP/1.0\r\nHost: 127.0.0.1:18333\r\nUser-Agent: ApacheBench/2.3\r\n\
             Accept: */*\r\n\r\n"
        );
    }

    #[test]
    fn the_usual_form_is_http_1_1_that_says_whether_it_comes_again() {
        let agent = format!("User-Agent: Speedwell/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(
            sent("-C a=1 -C b=2 http://h/", None),
            format!(
                "GET / HTTP/1.1\r\nCookie: a=1; b=2\r\nHost: h\r\n{agent}\r\nAccept: */*\r\n\
                 Connection: close\r\n\r\n"
            )
        );
        let kept = sent("-k http://h/", None);
        assert!(kept.starts_with("GET / HTTP/1.1\r\nConnection: Keep-Alive\r\nHost: h\r\n"));
    }

    #[test]
    fn the_load_is_closed_and_ends_as_asked() {
        let asked = request("-n 200 -c 10 -k -s 2 --verify hello http://127.0.0.1:81/a");
        let url = Url::parse(&asked.url).unwrap();
        let made = load(&asked, &url, None).unwrap();
        assert!(made.is_closed() && made.keeps_rows);
        assert_eq!(made.stop.after_requests, Some(200));
        assert_eq!(made.stop.after_ns, None);
        assert_eq!(made.rules.timeouts.total_ns, Some(2_000_000_000));
        assert!(made.success.admits(404));
        let timed = load(&request("-t 5 http://127.0.0.1/"), &url, None).unwrap();
        assert_eq!(timed.stop.after_requests, None);
        assert_eq!(timed.stop.after_ns, Some(5_000_000_000));
    }

    #[test]
    fn a_proxy_is_connected_to_instead_of_the_server() {
        let through = request("-X 127.0.0.1:3128 http://nowhere.invalid/");
        let url = Url::parse(&through.url).unwrap();
        let target = target(&through, &url).unwrap();
        let address = speedwell_load::load::Address::Internet("127.0.0.1:3128".parse().unwrap());
        assert_eq!(target.addresses, [address]);
        let tunnel = request("-X 127.0.0.1:3128 https://nowhere.invalid/");
        let url = Url::parse(&tunnel.url).unwrap();
        assert!(super::target(&tunnel, &url).is_err());
    }

    #[test]
    fn an_address_is_read_in_every_form() {
        for (text, is_tls, name, port, path) in [
            ("http://a.test/x?y=z#frag", false, "a.test", 80, "/x?y=z"),
            ("a.test:8080/x", false, "a.test", 8080, "/x"),
            ("https://a.test", true, "a.test", 443, "/"),
            (
                "http://a.test?q=http://b/",
                false,
                "a.test",
                80,
                "/?q=http://b/",
            ),
            ("http://[::1]:81/", false, "::1", 81, "/"),
            ("[::1]/", false, "::1", 80, "/"),
        ] {
            let url = Url::parse(text).unwrap();
            let read = (url.is_tls, &*url.host.name, url.host.port, &*url.path);
            assert_eq!(read, (is_tls, name, port, path), "{text}");
        }
        for wrong in [
            "ftp://a/",
            "http:///x",
            "http://a:b/",
            "http://a:0/",
            "http://u@h/",
        ] {
            let why = Url::parse(wrong).unwrap_err();
            assert!(
                why.starts_with(&format!("invalid URL '{wrong}': ")),
                "{why}"
            );
        }
    }

    #[test]
    fn the_usual_port_is_not_named() {
        let authority = |text: &str| Url::parse(text).unwrap().authority();
        assert_eq!(authority("http://a:80/"), "a");
        assert_eq!(authority("https://a:80/"), "a:80");
        assert_eq!(authority("http://[::1]:81/"), "[::1]:81");
        let absolute = Url::parse("example.test/p?q").unwrap().absolute();
        assert_eq!(absolute, "http://example.test/p?q");
    }
}
