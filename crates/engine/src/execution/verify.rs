//! Sends a single request to check that the intended server answers and that its response is
//! correct.
//!
//! Start at [`verify_target`] for the probe before a load, and at [`check_response`] for the rules
//! of an experiment.

use crate::execution::load::{self, LoadJob, format_address};
use anyhow::{Context, bail, ensure};
use regex::Regex;
use speedwell_load::generator::{self, ProbeError, ProbeResponse};
use speedwell_load::load::{CertificateRefusal, LoadShare};
use speedwell_machine::process;
use speedwell_model::assignment::{BodyRule, ResponseCheck};
use speedwell_model::load::outcomes::ErrorClass;
use speedwell_model::load::spec::LoadSpec;

/// Maximum number of consecutive redirects, the same as in browsers (Fetch standard, HTTP-redirect
/// fetch: 20).
const MAX_REDIRECTS: usize = 20;

/// Header fields that must not be sent to another host.
const SECRET_HEADERS: [&str; 2] = ["authorization", "cookie"];

/// Maximum number of bytes that a message shows from a wrong body.
const MAX_SHOWN_BYTES: usize = 120;

/// A response, and how it was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    /// The response.
    pub probe: ProbeResponse,
    /// URLs that redirected, in order.
    pub redirected_from: Vec<String>,
}

/// Sends the first request of a job once. Follows redirects if the load's specification allows it.
/// Returns the job with the final URL, and the response from that URL.
///
/// # Errors
/// Fails if there is no complete response, or if the response is not a success.
pub fn verify_target(mut job: LoadJob) -> anyhow::Result<(LoadJob, ProbeResult)> {
    let mut redirected_from = Vec::new();
    loop {
        let probe = generator::send_probe(&job.load, process::interrupt_flag())
            .map_err(|error| no_response_error(&job, error))?;
        let is_redirect = (300..400).contains(&probe.status) && probe.location.is_some();
        let location = probe.location.clone().filter(|_| job.spec.location && is_redirect);
        let Some(location) = location else {
            ensure!(probe.is_success, describe_no_success(&job, &probe));
            return Ok((job, ProbeResult { probe, redirected_from }));
        };
        redirected_from.push(job.url.to_string());
        ensure!(
            redirected_from.len() <= MAX_REDIRECTS,
            "'{}' redirects more than {MAX_REDIRECTS} times",
            redirected_from[0]
        );
        job = follow_redirect(&job, &location)?;
    }
}

fn follow_redirect(job: &LoadJob, location: &str) -> anyhow::Result<LoadJob> {
    let url = job
        .url
        .join(location)
        .with_context(|| format!("'{}' redirects to '{location}'", job.url))?;
    let changes_host = url.host != job.url.host;
    let names = job.load.kinds.kinds().iter().flat_map(|kind| &kind.headers);
    let secret_name = names
        .map(|(name, _)| name)
        .find(|name| SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str()));
    if let (true, Some(name)) = (changes_host, secret_name) {
        bail!(
            "'{}' redirects to another host, '{url}', but the header '{name}' was given for the first one\n\
             hint: use '{url}' as the URL",
            job.url
        );
    }
    let spec = LoadSpec { url: url.to_full_string(), ..job.spec.clone() };
    load::build_job(&spec, job.seed, LoadShare::ONLY)
}

fn no_response_error(job: &LoadJob, error: ProbeError) -> anyhow::Error {
    let addresses: Vec<String> = job.load.target.addresses.iter().map(format_address).collect();
    let hint = match &error {
        ProbeError::Failed(ErrorClass::ConnectRefused) => {
            "\nhint: is the server running? --serve CMD starts it"
        }
        ProbeError::Certificate(CertificateRefusal::Name { .. }) => {
            "\nhint: --sni NAME checks the certificate for another name; --insecure accepts any certificate"
        }
        ProbeError::Certificate(
            CertificateRefusal::Expired(_) | CertificateRefusal::NotYetValid(_),
        ) => "\nhint: --insecure accepts any certificate",
        ProbeError::Certificate(_) | ProbeError::Failed(ErrorClass::TlsVerify) => {
            "\nhint: --cacert FILE trusts the certificate or authority in FILE; --insecure accepts any certificate"
        }
        ProbeError::Failed(ErrorClass::TlsHandshake) => {
            "\nhint: does it speak TLS? if not, use http://"
        }
        ProbeError::Failed(ErrorClass::EofFirst | ErrorClass::ResetBeforeFirstByte)
            if !job.url.is_tls =>
        {
            "\nhint: does it expect TLS? if so, use https://"
        }
        ProbeError::Failed(ErrorClass::ProtocolStatusLine) => {
            "\nhint: does it speak HTTP/1.1? if not, use --http2 for HTTP/2, or https:// for TLS"
        }
        _ => "",
    };
    let context = format!("no response from '{}' ({}){hint}", job.url, addresses.join(", "));
    anyhow::Error::new(error).context(context)
}

fn describe_no_success(job: &LoadJob, probe: &ProbeResponse) -> String {
    let status = probe.status;
    if job.load.success.accepts_status(status) {
        return format!(
            "'{}' answered {status} with an unexpected body of {} bytes\nhint: --no-verify sends \
             the load anyway and counts such responses as failed",
            job.url, probe.body_bytes
        );
    }
    let redirect = match &probe.location {
        Some(location) => format!("it redirects to '{location}': -L follows the redirect; "),
        None => String::new(),
    };
    format!(
        "'{}' answered {status}, which is not a success status\nhint: {redirect}--expect-status \
         {status} counts it as success, --no-verify sends the load anyway",
        job.url
    )
}

/// Sends one request of this load to `url`, or to the path that the rules name, and checks the
/// response.
///
/// # Errors
/// Fails if there is no response, or if the response violates the rules.
pub fn check_response(rules: &ResponseCheck, load: &LoadSpec, url: &str) -> Result<(), String> {
    let url = match &rules.path {
        Some(path) => replace_path(url, path),
        None => url.to_owned(),
    };
    let probe = send_single_request(&LoadSpec { url: url.clone(), ..load.clone() })?;
    let contains_status = |(from, to): &(u16, u16)| (*from..=*to).contains(&probe.status);
    if !rules.statuses.iter().any(contains_status) {
        return Err(format!("'{url}' answered {}{}", probe.status, body_excerpt(&probe)));
    }
    match rules.body.as_ref().and_then(|rule| body_violation(rule, &probe)) {
        Some(violation) => Err(format!("the body of '{url}' {violation}{}", body_excerpt(&probe))),
        None => Ok(()),
    }
}

/// Sends a plain GET request.
///
/// # Errors
/// Fails if there is no response.
pub fn send_get(url: &str) -> Result<ProbeResponse, String> {
    send_single_request(&LoadSpec { url: url.to_owned(), ..LoadSpec::default() })
}

/// Sends one request of a load.
fn send_single_request(spec: &LoadSpec) -> Result<ProbeResponse, String> {
    let single = spec.clone().single_request();
    // The seed is unused: a single request involves no random choice.
    let job = load::build_job(&single, 0, LoadShare::ONLY).map_err(|error| format!("{error:#}"))?;
    generator::send_probe(&job.load, process::interrupt_flag())
        .map_err(|error| format!("no response from '{}': {error}", spec.url))
}

/// Returns the URL with another path.
pub fn replace_path(url: &str, path: &str) -> String {
    let host_start = url.find("://").map_or(0, |index| index + 3);
    let path_start = url[host_start..].find('/').map_or(url.len(), |index| host_start + index);
    format!("{}/{}", &url[..path_start], path.trim_start_matches('/'))
}

fn body_excerpt(probe: &ProbeResponse) -> String {
    if probe.body.is_empty() {
        return String::new();
    }
    let excerpt = &probe.body[..probe.body.len().min(MAX_SHOWN_BYTES)];
    let excerpt = String::from_utf8_lossy(excerpt);
    format!("; the body begins with '{}'", excerpt.trim_end())
}

/// Explains how a body violates the rule; `None` if it does not.
fn body_violation(rule: &BodyRule, probe: &ProbeResponse) -> Option<String> {
    let text = String::from_utf8_lossy(&probe.body);
    let json = || {
        serde_json::from_slice::<serde_json::Value>(&probe.body)
            .map_err(|error| format!("is not JSON ({error})"))
    };
    match rule {
        BodyRule::Regex(pattern) => match Regex::new(pattern) {
            Ok(regex) => (!regex.is_match(&text)).then(|| format!("does not match '{pattern}'")),
            Err(error) => Some(format!("cannot be matched with '{pattern}': {error}")),
        },
        BodyRule::Contains(substring) => {
            (!text.contains(substring.as_str())).then(|| format!("does not contain '{substring}'"))
        }
        BodyRule::Json(expected) => match json() {
            Ok(actual) => (actual != *expected).then(|| format!("is not {expected}")),
            Err(error) => Some(error),
        },
        BodyRule::JsonLength(count) => match json() {
            Ok(actual) => {
                let length = actual
                    .as_array()
                    .map(Vec::len)
                    .or(actual.as_object().map(serde_json::Map::len));
                let has_count = length.is_some_and(|length| length as u64 == *count);
                (!has_count).then(|| match length {
                    Some(length) => format!("has {length} entries instead of {count}"),
                    None => "is neither an array nor an object".to_owned(),
                })
            }
            Err(error) => Some(error),
        },
        BodyRule::Bytes(count) => (probe.body_bytes != *count)
            .then(|| format!("has {} bytes instead of {count}", probe.body_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_takes_the_place_of_another() {
        assert_eq!(replace_path("http://h:1/a/b?c", "/x"), "http://h:1/x");
        assert_eq!(replace_path("http://h:1", "x?y"), "http://h:1/x?y");
    }
}
