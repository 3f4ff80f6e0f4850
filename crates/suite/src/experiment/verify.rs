//! What must be true of a run, or its figures mean nothing: answers of a server (`[group.verify]`), and what shows that
//! a variant took effect (`assert`).

use crate::part::Part;
use crate::value::{Many, Pattern, Plain, UrlPath, Whole, checked, or_placeholder};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{BodyRule, Place, Proof, Verify};
use speedwell_model::load_spec::parse_statuses;
use std::ops::RangeInclusive;
use std::path::Path;

/// What answers of a server must be.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyKeys {
    /// What is requested before and after the load. Usually the path of the load.
    path: Option<UrlPath>,
    /// 200, "2xx", "200-204" or a list of them. Usually "2xx".
    status: Option<Many<Status>>,
    /// A text in it, or a table with one rule. Usually anything.
    body: Option<BodyKeys>,
    /// Answers must be equally long under all variants. Usually true, but false with `body.regex`.
    same_bytes_across_variants: Option<bool>,
}

checked! {
    /// Statuses of HTTP: `200`, `"2xx"`, `"200-204"`.
    pub struct Status(RangeInclusive<u16>) from Plain as {
        "type": ["integer", "string"], "minimum": 100, "maximum": 599
    },
    |value| parse_statuses(&value.text()).map_err(|why| format!(": {why}"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
enum BodyKeys {
    #[serde(rename = "a text")]
    Contains(String),
    #[serde(rename = "a table")]
    Rule(BodyRuleKey),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BodyRuleKey {
    /// A pattern that must be found in it.
    Regex(Pattern),
    /// A text in it.
    Contains(String),
    /// It is this JSON value.
    Json(serde_json::Value),
    /// It is a JSON list or table of this length.
    JsonLength(Whole<0>),
    /// It has this many bytes.
    Bytes(Whole<0>),
}

/// What answers must be; without rules they must have a status from 200 to 299 and be equally long.
pub fn resolve(keys: Option<VerifyKeys>) -> Verify {
    let mut verify = Verify {
        path: None,
        statuses: vec![(200, 299)],
        body: None,
        same_bytes: true,
    };
    let Some(keys) = keys else {
        return verify;
    };
    verify.path = keys.path.map(|path| path.0);
    if let Some(statuses) = keys.status {
        let range = |status: &Status| (*status.0.start(), *status.0.end());
        verify.statuses = statuses.iter().map(range).collect();
    }
    verify.body = keys.body.map(|body| match body {
        BodyKeys::Contains(text) | BodyKeys::Rule(BodyRuleKey::Contains(text)) => {
            BodyRule::Contains(text)
        }
        BodyKeys::Rule(BodyRuleKey::Regex(pattern)) => BodyRule::Regex(pattern.0),
        BodyKeys::Rule(BodyRuleKey::Json(value)) => BodyRule::Json(value),
        BodyKeys::Rule(BodyRuleKey::JsonLength(length)) => BodyRule::JsonLength(length.0),
        BodyKeys::Rule(BodyRuleKey::Bytes(count)) => BodyRule::Bytes(count.0),
    });
    // A pattern is written for bodies that vary, and so may their lengths.
    let varies = matches!(verify.body, Some(BodyRule::Regex(_)));
    verify.same_bytes = keys.same_bytes_across_variants.unwrap_or(!varies);
    verify
}

/// What must be seen, or the variant did not take effect: one of `stdout`, `stderr`, `file`, `http`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["stdout"] }, { "required": ["stderr"] }, { "required": ["file"] }, { "required": ["http"] }
]))]
pub struct ProofKeys {
    /// A pattern that must be found in what the target writes.
    stdout: Option<Pattern>,
    /// A pattern that must be found in its errors.
    stderr: Option<Pattern>,
    /// A file below the target's folder.
    file: Option<String>,
    /// A path whose answer is looked at.
    http: Option<String>,
    /// A pattern that must be found in the file or answer.
    #[serde(rename = "match")]
    pattern: Option<Pattern>,
    /// When it is looked at. Usually when a server is ready; a command has an end only.
    on: Option<Moment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
enum Moment {
    /// When the server is ready.
    Ready,
    /// When it has ended.
    Exit,
}

/// The proofs of a variant. Files are beside `directory`, where the target works. A `server` is looked at when it is
/// ready unless the proof says otherwise.
pub fn proofs(
    proofs: Many<ProofKeys>,
    variant: &Part,
    directory: &Path,
    server: bool,
) -> Result<Vec<Proof>> {
    let parts = variant.items("assert");
    let found = proofs.0.into_iter().zip(&parts);
    found
        .map(|(keys, part)| proof(keys, part, directory, server))
        .collect()
}

fn proof(keys: ProofKeys, part: &Part, directory: &Path, server: bool) -> Result<Proof> {
    let has_pattern = keys.pattern.is_some();
    let inside = keys.pattern.map_or_else(String::new, |pattern| pattern.0);
    let file = keys.file.map(|file| Place::File(directory.join(file)));
    let elsewhere = file.into_iter().chain(keys.http.map(Place::Http));
    let mut found: Vec<(Place, String)> = elsewhere.map(|place| (place, inside.clone())).collect();
    if has_pattern && found.is_empty() {
        let message = "the key 'match' says what is in a file or an answer, and there is none";
        return Err(part.error("match", message));
    }
    found.extend(keys.stdout.map(|pattern| (Place::Stdout, pattern.0)));
    found.extend(keys.stderr.map(|pattern| (Place::Stderr, pattern.0)));
    match (found.pop(), found.is_empty()) {
        (Some((place, pattern)), true) => Ok(Proof {
            at_exit: !server || keys.on == Some(Moment::Exit),
            place,
            pattern,
        }),
        _ => Err(part.wrong_table(
            "does not say one place to look at\n\
             hint: it has one of stdout, stderr, file, http: { stderr = \"loaded\", on = \"exit\" }",
        )),
    }
}
