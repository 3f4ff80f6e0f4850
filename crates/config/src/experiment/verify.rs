//! Reads the checks that a run must pass for its results to be valid: the expected responses of a
//! server (`[group.verify]`), and the proof that a variant took effect (`assert`).

use crate::file_part::FilePart;
use crate::value::{
    OneOrMany, PlainValue, RegexPattern, UrlPath, WholeNumber, checked, or_placeholder,
};
use anyhow::Result;
use schemars::JsonSchema;
use serde::Deserialize;
use speedwell_model::assignment::{BodyRule, ProofSource, ResponseCheck, VariantProof};
use speedwell_model::load::spec::parse_statuses;
use std::ops::RangeInclusive;
use std::path::Path;

/// Expected responses of a server.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VerifyKeys {
    /// Path requested before and after the load. Default: the load's path.
    path: Option<UrlPath>,
    /// 200, "2xx", "200-204" or a list of them. Default: "2xx".
    status: Option<OneOrMany<StatusRange>>,
    /// Text that the body must contain, or a table with one rule. By default, anything.
    body: Option<BodyKeys>,
    /// Whether responses must have the same length under all variants. Default: true, but false
    /// with `body.regex`.
    same_bytes_across_variants: Option<bool>,
}

checked! {
    /// HTTP statuses: `200`, `"2xx"`, `"200-204"`.
    pub struct StatusRange(RangeInclusive<u16>) from PlainValue as {
        "type": ["integer", "string"], "minimum": 100, "maximum": 599
    },
    |value| parse_statuses(&value.program_text()).map_err(|error| format!(": {error}"))
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename = "$by-shape")]
#[schemars(untagged, inline)]
enum BodyKeys {
    #[serde(rename = "a string")]
    Contains(String),
    #[serde(rename = "a table")]
    Rule(BodyRuleKey),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum BodyRuleKey {
    /// A pattern that must match in the body.
    Regex(RegexPattern),
    /// Text that the body must contain.
    Contains(String),
    /// The body must be this JSON value.
    Json(serde_json::Value),
    /// The body must be a JSON list or table of this length.
    JsonLength(WholeNumber<0>),
    /// The body must have this many bytes.
    Bytes(WholeNumber<0>),
}

/// Resolves the expected responses. The default is a status from 200 to 299 and equal lengths.
pub fn resolve_verify(keys: Option<VerifyKeys>) -> ResponseCheck {
    let mut verify =
        ResponseCheck { path: None, statuses: vec![(200, 299)], body: None, same_bytes: true };
    let Some(keys) = keys else {
        return verify;
    };
    verify.path = keys.path.map(|path| path.0);
    if let Some(statuses) = keys.status {
        let range = |status: &StatusRange| (*status.0.start(), *status.0.end());
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
    // A pattern implies that bodies vary, so their lengths may vary too.
    let lengths_vary = matches!(verify.body, Some(BodyRule::Regex(_)));
    verify.same_bytes = keys.same_bytes_across_variants.unwrap_or(!lengths_vary);
    verify
}

/// Proof that the variant took effect: one of `stdout`, `stderr`, `file`, `http`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    { "required": ["stdout"] }, { "required": ["stderr"] }, { "required": ["file"] }, { "required": ["http"] }
]))]
pub struct ProofKeys {
    /// Pattern that must match in the target's stdout.
    stdout: Option<RegexPattern>,
    /// Pattern that must match in its stderr.
    stderr: Option<RegexPattern>,
    /// A file below the target's folder.
    file: Option<String>,
    /// A path to request.
    http: Option<String>,
    /// Pattern that must match in the file or response.
    #[serde(rename = "match")]
    pattern: Option<RegexPattern>,
    /// When to check. By default, when a server is ready, or when a command has exited.
    on: Option<ProofMoment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(transform = or_placeholder)]
enum ProofMoment {
    /// When the server is ready.
    Ready,
    /// After it has exited.
    Exit,
}

/// Resolves the proofs of a variant. Files are relative to the target's working directory. If
/// `server` is true, a proof is checked when the server is ready, unless the proof says otherwise.
pub fn resolve_proofs(
    variant: &FilePart,
    directory: &Path,
    server: bool,
) -> Result<Vec<VariantProof>> {
    let proofs: Option<OneOrMany<ProofKeys>> = variant.read_key("assert")?;
    let keys = proofs.into_iter().flat_map(|proofs| proofs.0);
    let found = keys.zip(variant.list_items("assert"));
    found.map(|(keys, part)| resolve_proof(keys, &part, directory, server)).collect()
}

fn resolve_proof(
    keys: ProofKeys,
    part: &FilePart,
    directory: &Path,
    server: bool,
) -> Result<VariantProof> {
    let has_pattern = keys.pattern.is_some();
    let content_pattern = keys.pattern.map_or_else(String::new, |pattern| pattern.0);
    let file = keys.file.map(|file| ProofSource::File(directory.join(file)));
    let sources = file.into_iter().chain(keys.http.map(ProofSource::Http));
    let mut found: Vec<(ProofSource, String)> =
        sources.map(|place| (place, content_pattern.clone())).collect();
    if has_pattern && found.is_empty() {
        let message = "the key 'match' requires 'file' or 'http'";
        return Err(part.error_at_key("match", message));
    }
    found.extend(keys.stdout.map(|pattern| (ProofSource::Stdout, pattern.0)));
    found.extend(keys.stderr.map(|pattern| (ProofSource::Stderr, pattern.0)));
    match (found.pop(), found.is_empty()) {
        (Some((place, pattern)), true) => Ok(VariantProof {
            at_exit: !server || keys.on == Some(ProofMoment::Exit),
            place,
            pattern,
        }),
        _ => Err(part.wrong_table(
            "must have exactly one of stdout, stderr, file, http\n\
             hint: { stderr = \"loaded\", on = \"exit\" }",
        )),
    }
}
