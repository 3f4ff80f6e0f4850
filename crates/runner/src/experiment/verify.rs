//! One request by itself, and whether its answer is what it should be.

use super::{Fallible, stumble};
use crate::load;
use regex::Regex;
use speedwell_load::generator::{self, Probe};
use speedwell_load::load::Part;
use speedwell_model::assignment::{BodyRule, Traffic, Verify};
use speedwell_model::load_spec::LoadSpec;
use speedwell_model::performed::Stage;
use speedwell_process as process;

/// How many bytes of a wrong body are shown.
const SHOWN_BYTES: usize = 120;

/// Checks one answer of the server.
///
/// # Errors
/// There is none, or it is not what it should be.
pub fn check(stage: Stage, verify: &Verify, traffic: &Traffic, url: &str) -> Fallible<()> {
    let url = match &verify.path {
        Some(path) => with_path(url, path),
        None => url.to_owned(),
    };
    let spec = LoadSpec {
        url: url.clone(),
        ..traffic.spec.clone()
    };
    let probe = ask(&spec).map_err(|why| stumble(stage, why))?;
    let is_good = |(from, to): &(u16, u16)| (*from..=*to).contains(&probe.status);
    if !verify.statuses.iter().any(is_good) {
        let reason = format!("'{url}' answered {}{}", probe.status, beginning(&probe));
        return Err(stumble(stage, reason));
    }
    let Some(rule) = &verify.body else {
        return Ok(());
    };
    wrong(rule, &probe).map_or(Ok(()), |why| {
        let reason = format!("the body of '{url}' {why}{}", beginning(&probe));
        Err(stumble(stage, reason))
    })
}

/// Sends one request of a load.
pub fn ask(spec: &LoadSpec) -> Result<Probe, String> {
    let single = spec.clone().single_request();
    // A single request has no random choice.
    let job = load::job(&single, 0, Part::WHOLE).map_err(|error| format!("{error:#}"))?;
    generator::probe(&job.load, process::interrupt_flag())
        .map_err(|error| format!("no answer from '{}': {error}", spec.url))
}

/// The address with another path.
pub fn with_path(url: &str, path: &str) -> String {
    let host = url.find("://").map_or(0, |at| at + 3);
    let end = url[host..].find('/').map_or(url.len(), |at| host + at);
    format!("{}/{}", &url[..end], path.trim_start_matches('/'))
}

fn beginning(probe: &Probe) -> String {
    if probe.body.is_empty() {
        return String::new();
    }
    let shown = &probe.body[..probe.body.len().min(SHOWN_BYTES)];
    let shown = String::from_utf8_lossy(shown);
    format!("; it begins with '{}'", shown.trim_end())
}

/// What is wrong with a body.
fn wrong(rule: &BodyRule, probe: &Probe) -> Option<String> {
    let text = String::from_utf8_lossy(&probe.body);
    let json = || {
        serde_json::from_slice::<serde_json::Value>(&probe.body)
            .map_err(|error| format!("is no JSON ({error})"))
    };
    match rule {
        BodyRule::Regex(pattern) => match Regex::new(pattern) {
            Ok(known) => (!known.is_match(&text)).then(|| format!("does not match '{pattern}'")),
            Err(error) => Some(format!("cannot be held against '{pattern}': {error}")),
        },
        BodyRule::Contains(part) => {
            (!text.contains(part.as_str())).then(|| format!("does not contain '{part}'"))
        }
        BodyRule::Json(wanted) => match json() {
            Ok(found) => (found != *wanted).then(|| format!("is not {wanted}")),
            Err(why) => Some(why),
        },
        BodyRule::JsonLength(count) => match json() {
            Ok(found) => {
                let length = found
                    .as_array()
                    .map(Vec::len)
                    .or(found.as_object().map(serde_json::Map::len));
                let is_so = length.is_some_and(|length| length as u64 == *count);
                (!is_so).then(|| match length {
                    Some(length) => format!("has {length} entries instead of {count}"),
                    None => "is neither an array nor an object".to_owned(),
                })
            }
            Err(why) => Some(why),
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
        assert_eq!(with_path("http://h:1/a/b?c", "/x"), "http://h:1/x");
        assert_eq!(with_path("http://h:1", "x?y"), "http://h:1/x?y");
    }
}
