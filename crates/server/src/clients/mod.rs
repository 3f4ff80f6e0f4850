//! Clients of other servers. [`push`] sends sessions to a Speedwell server; [`forge`] keeps the
//! comment and status of a pull request up to date. All configure their HTTP agents alike.

pub mod forge;
pub mod push;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use ureq::config::ConfigBuilder;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::typestate::AgentScope;
use ureq::{Agent, Body};

/// A secret that is never printed.
#[derive(Clone)]
pub struct SecretToken(String);

impl SecretToken {
    /// Creates a token, trimming whitespace.
    pub fn new(text: impl AsRef<str>) -> SecretToken {
        SecretToken(text.as_ref().trim().to_owned())
    }

    fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(secret)")
    }
}

/// Returns the configuration of a client. The client trusts the system's certificates and
/// `authorities`, and uses the proxy that the environment names. It does not follow redirects,
/// because following one would pass the token on.
fn agent_config(authorities: Vec<Certificate<'static>>) -> ConfigBuilder<AgentScope> {
    let certificates = rustls_native_certs::load_native_certs().certs;
    let roots =
        certificates.iter().map(|certificate| Certificate::from_der(certificate).to_owned());
    let roots: Vec<_> = roots.chain(authorities).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = TlsConfig::builder()
        .root_certs(RootCerts::from(roots))
        .unversioned_rustls_crypto_provider(provider)
        .build();
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent("speedwell")
}

/// Whether the status is that of a failure that may not last.
fn is_temporary(status: StatusCode) -> bool {
    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status)
        || status.is_server_error()
}

/// Returns how long the server asks to wait before a retry.
fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

/// Reads the body of a response of at most `limit` bytes.
fn read_text(response: &mut Response<Body>, limit: u64) -> Result<String, ureq::Error> {
    response.body_mut().with_config().limit(limit).read_to_string()
}

/// Whether a host, with or without a port, is a loopback address.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Truncates a string and replaces its control characters with spaces.
fn truncate_text(text: &str, max_chars: usize) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(max_chars).map(printable).collect()
}
