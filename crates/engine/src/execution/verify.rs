//! Sends a single request to check that the intended server answers and that its response is
//! correct.
//!
//! Start at [`check_response`] for the rules of an experiment. The probe before a load is in
//! `load/mod.rs`.

use crate::execution::load;
use regex::Regex;
use speedwell_load::generator::{self, ProbeResponse};
use speedwell_load::load::LoadShare;
use speedwell_machine::process;
use speedwell_model::assignment::{BodyRule, ResponseCheck};
use speedwell_model::load::spec::LoadSpec;

/// Maximum number of bytes that a message shows from a wrong body.
const MAX_SHOWN_BYTES: usize = 120;

/// Sends one request of this load to `url`, or to the path that the rules name, and checks the
/// response.
///
/// # Errors
/// Fails if there is no response, or if the response violates the rules.
pub fn check_response(rules: &ResponseCheck, load: &LoadSpec, url: &str) -> Result<(), String> {
    let url = rules.path.as_ref().map_or_else(|| url.to_owned(), |path| replace_path(url, path));
    let probe = send_single_request(&LoadSpec { url: url.clone(), ..load.clone() })?;
    let contains_status = |(from, to): &(u16, u16)| (*from..=*to).contains(&probe.facts.status);
    if !rules.statuses.iter().any(contains_status) {
        return Err(format!("'{url}' answered {}{}", probe.facts.status, body_excerpt(&probe)));
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
        BodyRule::Bytes(count) => (probe.facts.body_bytes != *count)
            .then(|| format!("has {} bytes instead of {count}", probe.facts.body_bytes)),
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
