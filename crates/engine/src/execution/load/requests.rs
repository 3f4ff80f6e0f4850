//! Builds the requests of a load. The command line describes a single request; a TOML file can
//! describe several kinds:
//!
//! ```toml
//! [[request]]
//! name = "read"
//! weight = 9
//! path = "/users/{{id}}"
//!
//! [[request]]
//! method = "POST"
//! path = "/users"
//! headers = { "Content-Type" = "application/json" }
//! body = '{"name": "{{name}}"}'
//! ```
//!
//! Settings of the command line apply to all requests that do not override them. Rows of data, if a
//! file provides them, fill placeholders such as `{{id}}`. Start at [`build_kinds`].

use super::{TargetUrl, target};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value as Json;
use speedwell_adapters::discover::read_named_file;
use speedwell_formats::node_csv::{ScanResult, scan_record};
use speedwell_load::http1::{ConnectionOption, Http1Version};
use speedwell_load::load::{DataTable, RequestKind, RequestKinds};
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::{ParameterValue, ValueKind};
use std::path::{Path, PathBuf};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestFile {
    #[serde(default)]
    request: Vec<RequestEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RequestEntry {
    name: Option<String>,
    weight: Option<u32>,
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: IndexMap<String, String>,
    body: Option<String>,
    body_file: Option<PathBuf>,
}

/// Reads a request file. `default` is the request that the command line describes; paths of body
/// files are relative to the request file.
///
/// # Errors
/// Fails if the file is unreadable or invalid, or contains no request.
fn read_kinds(file: &Path, default: &RequestKind) -> Result<Vec<RequestKind>> {
    let displayed = file.display();
    let text = std::fs::read_to_string(file).with_context(|| {
        let number = ParameterValue::parse(&displayed.to_string(), ValueKind::Number);
        let hint = number
            .map_or("", |_| "\nhint: --requests takes a file; set the number of requests with -n");
        format!("cannot read requests from '{displayed}'{hint}")
    })?;
    let folder = file.parent().unwrap_or(Path::new("."));
    parse_kinds(&text, folder, default).with_context(|| format!("in the requests of '{displayed}'"))
}

fn parse_kinds(text: &str, folder: &Path, default: &RequestKind) -> Result<Vec<RequestKind>> {
    let file: RequestFile = toml::from_str(text).map_err(|error| add_hint(&error))?;
    ensure!(
        !file.request.is_empty(),
        "no request found\nhint: each begins with a line [[request]]"
    );
    let mut kinds: Vec<RequestKind> = Vec::new();
    for (entry, number) in file.request.into_iter().zip(1..) {
        let kind =
            build_kind(entry, folder, default).with_context(|| format!("request {number}"))?;
        if kinds.iter().any(|existing| existing.name == kind.name) {
            bail!("two requests are named '{}'", kind.name);
        }
        kinds.push(kind);
    }
    Ok(kinds)
}

/// Adds a hint to a parse error. The message of the error already shows its position, on several
/// lines.
fn add_hint(error: &toml::de::Error) -> anyhow::Error {
    let hint = if error.message().contains("unknown field") {
        "\nhint: the keys of a request are name, weight, method, path, headers, body, body-file"
    } else {
        ""
    };
    anyhow::anyhow!("{}{hint}", error.to_string().trim_end())
}

fn build_kind(entry: RequestEntry, folder: &Path, default: &RequestKind) -> Result<RequestKind> {
    let body = match (entry.body, entry.body_file) {
        (Some(_), Some(_)) => bail!("it has both a body and a body-file"),
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(file)) => Some(read_named_file(&folder.join(file))?),
        (None, None) => None,
    };
    let path = match &entry.path {
        None => default.target.clone(),
        Some(path) => {
            ensure!(path.starts_with('/'), "the path '{path}' does not begin with '/'");
            target::encode_path(path)
        }
    };
    let default_method = if body.is_some() { "POST" } else { "GET" };
    let method = entry.method.unwrap_or_else(|| default_method.to_owned());
    let mut kind = RequestKind {
        name: entry.name.unwrap_or_else(|| format!("{method} {path}")),
        weight: entry.weight.unwrap_or(1),
        method,
        target: path,
        body,
        ..default.clone()
    };
    for (name, value) in &entry.headers {
        set_header(&mut kind, name, Some(value.as_str()));
    }
    Ok(kind)
}

/// Builds all requests of the load to a URL.
///
/// # Errors
/// Fails for files that cannot be read, or requests that cannot be encoded.
pub(super) fn build_kinds(spec: &LoadSpec, url: &TargetUrl) -> Result<RequestKinds> {
    let command_line_request = plain_request(spec, url)?;
    let mut kinds = match &spec.requests {
        Some(file) => read_kinds(file, &command_line_request)?,
        None => vec![command_line_request],
    };
    if let Some(proxy) = target::find_proxy(spec, url)? {
        for kind in &mut kinds {
            kind.target = format!("http://{}{}", url.authority(), kind.target);
            if let Some((name, password)) = &proxy.credentials {
                kind.headers.push(("Proxy-Authorization".to_owned(), encode_basic(name, password)));
            }
        }
    }
    let rows = spec.data_rows.as_ref().map(|file| read_rows(file)).transpose()?.unwrap_or_default();
    RequestKinds::new(kinds, rows).with_context(|| format!("cannot send requests to '{url}'"))
}

/// Builds the request that the options of the command line describe.
fn plain_request(spec: &LoadSpec, url: &TargetUrl) -> Result<RequestKind> {
    let body = request_body(spec)?;
    let default_method = if body.is_some() { "POST" } else { "GET" };
    let method = spec.request.as_deref().unwrap_or(default_method);
    let mut kind = RequestKind {
        name: format!("{method} {}", url.path),
        method: method.to_owned(),
        headers: default_headers(spec, url)?,
        body,
        version: if spec.http10 { Http1Version::Http10 } else { Http1Version::Http11 },
        connection: if spec.no_keepalive {
            ConnectionOption::Close
        } else {
            ConnectionOption::KeepAlive
        },
        ..RequestKind::get(&url.authority(), &url.path)
    };
    for text in &spec.header {
        apply_header(&mut kind, text).with_context(|| format!("in --header '{text}'"))?;
    }
    Ok(kind)
}

fn request_body(spec: &LoadSpec) -> Result<Option<Vec<u8>>> {
    let file = match (&spec.data, &spec.body_file) {
        (Some(text), _) => match text.strip_prefix('@') {
            Some(file) => Path::new(file),
            None => return Ok(Some(text.clone().into_bytes())),
        },
        (None, Some(file)) => file,
        (None, None) => return Ok(None),
    };
    read_named_file(file).map(Some)
}

/// Default header fields, which `--header` may override.
fn default_headers(spec: &LoadSpec, url: &TargetUrl) -> Result<Vec<(String, Vec<u8>)>> {
    let default_agent = concat!("speedwell/", env!("CARGO_PKG_VERSION"));
    let agent = spec.user_agent.as_deref().unwrap_or(default_agent);
    let mut fields = vec![header_field("User-Agent", agent), header_field("Accept", "*/*")];
    if spec.data.is_some() {
        fields.push(header_field("Content-Type", "application/x-www-form-urlencoded"));
    }
    if let Some((name, password)) = basic_credentials(spec, url)? {
        fields.push(("Authorization".to_owned(), encode_basic(&name, &password)));
    }
    if !spec.cookie.is_empty() {
        fields.push(header_field("Cookie", &spec.cookie.join("; ")));
    }
    Ok(fields)
}

fn basic_credentials(spec: &LoadSpec, url: &TargetUrl) -> Result<Option<(String, String)>> {
    let Some(text) = &spec.user else { return Ok(url.credentials.clone()) };
    let (name, password) = (text.split_once(':'))
        .context("cannot parse --user: expected NAME:PASSWORD, where either may be empty")?;
    Ok(Some((name.to_owned(), password.to_owned())))
}

fn header_field(name: &str, value: &str) -> (String, Vec<u8>) {
    (name.to_owned(), value.as_bytes().to_vec())
}

/// Encodes basic credentials (RFC 7617).
fn encode_basic(name: &str, password: &str) -> Vec<u8> {
    let encoded = STANDARD.encode(format!("{name}:{password}"));
    format!("Basic {encoded}").into_bytes()
}

/// Applies a header as the user typed it. `Name: value` replaces the default field of that name. If
/// there is no such default, it adds a field, even if the request already has one of that name.
/// `Name:` removes a default field. `Name;` adds a field without a value.
///
/// # Errors
/// Fails if the header has none of these forms.
fn apply_header(kind: &mut RequestKind, text: &str) -> Result<()> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, Some(value.trim()).filter(|value| !value.is_empty())),
        None => (text.strip_suffix(';').context("expected the form 'Name: value'")?, Some("")),
    };
    set_header(kind, name, value);
    Ok(())
}

/// Adds a field, unless `value` is `None`. If `name` is one of `DEFAULT_FIELDS`, first removes all
/// fields with that name. The field Host can only be replaced.
fn set_header(kind: &mut RequestKind, name: &str, value: Option<&str>) {
    if name.eq_ignore_ascii_case("host") {
        // Host is not kept with the other fields, because HTTP/2 sends it as :authority.
        if let Some(value) = value {
            kind.host = value.to_owned();
        }
        return;
    }
    const DEFAULT_FIELDS: [&str; 5] =
        ["user-agent", "accept", "content-type", "authorization", "cookie"];
    if DEFAULT_FIELDS.contains(&name.to_ascii_lowercase().as_str()) {
        kind.headers.retain(|(field, _)| !field.eq_ignore_ascii_case(name));
    }
    if let Some(value) = value {
        kind.headers.push(header_field(name, value));
    }
}

/// Reads rows of data from a file; the extension of the file determines its format.
///
/// # Errors
/// Fails if the file is unreadable, has an unknown format, or has rows that do not match the
/// columns.
fn read_rows(file: &Path) -> Result<DataTable> {
    let displayed = file.display();
    let content =
        std::fs::read(file).with_context(|| format!("cannot read rows from '{displayed}'"))?;
    let bytes = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
    let extension = file.extension().and_then(|extension| extension.to_str());
    let parsed = match extension {
        Some("csv") => parse_csv(bytes),
        Some("jsonl" | "ndjson") => parse_json_lines(bytes),
        _ => bail!("'{displayed}' is neither a .csv nor a .jsonl file"),
    };
    let rows = parsed.with_context(|| format!("in the rows of '{displayed}'"))?;
    ensure!(!rows.values.is_empty(), "'{displayed}' has no rows");
    Ok(rows)
}

fn parse_csv(bytes: &[u8]) -> Result<DataTable> {
    let mut rows = DataTable::default();
    let (mut remaining, mut fields, mut number) = (bytes, Vec::new(), 0);
    while !remaining.is_empty() {
        let ScanResult::Record(length) = scan_record(remaining, true, &mut fields) else {
            bail!("record {} cannot be read: is a quote missing?", number + 1);
        };
        let record: Vec<String> =
            fields.iter().map(|field| field.text(remaining).into_owned()).collect();
        remaining = &remaining[length.max(1)..];
        if record.iter().all(String::is_empty) {
            continue;
        }
        number += 1;
        if rows.names.is_empty() {
            rows.names = record;
            continue;
        }
        ensure!(
            record.len() == rows.names.len(),
            "the number of fields in record {number} is {}, expected {}",
            record.len(),
            rows.names.len()
        );
        rows.values.push(record);
    }
    Ok(rows)
}

/// Parses one JSON object per line; the first object defines the columns.
fn parse_json_lines(bytes: &[u8]) -> Result<DataTable> {
    let text = std::str::from_utf8(bytes).context("it is not UTF-8 text")?;
    let mut rows = DataTable::default();
    for (line, number) in text.lines().zip(1..) {
        if line.trim().is_empty() {
            continue;
        }
        let object: serde_json::Map<String, Json> = serde_json::from_str(line)
            .with_context(|| format!("line {number} is not a JSON object"))?;
        if rows.names.is_empty() {
            rows.names = object.keys().cloned().collect();
        }
        let value = |name: &String| match object.get(name) {
            Some(Json::String(text)) => Ok(text.clone()),
            Some(other) => Ok(other.to_string()),
            None => bail!("line {number} has no '{name}'"),
        };
        rows.values.push(rows.names.iter().map(value).collect::<Result<_>>()?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_test_kinds(text: &str) -> anyhow::Result<Vec<RequestKind>> {
        let plain = RequestKind {
            headers: vec![("Accept".into(), b"*/*".to_vec())],
            ..RequestKind::get("h", "/base")
        };
        parse_kinds(text, Path::new("."), &plain)
    }

    #[test]
    fn requests_have_weights_bodies_and_fields_of_their_own() {
        let text = "[[request]]\nname = 'read'\nweight = 9\npath = '/users/{{id}}'\n\
                    [[request]]\npath = '/users'\nheaders = { Accept = 'text/plain', 'X-A' = '1' }\n\
                    body = '{\"a\": 1}'\n";
        let kinds = parse_test_kinds(text).unwrap();
        assert_eq!((kinds[0].name.as_str(), kinds[0].weight), ("read", 9));
        assert_eq!(kinds[0].target, "/users/{{id}}");
        assert_eq!((kinds[1].name.as_str(), kinds[1].weight), ("POST /users", 1));
        assert_eq!(kinds[1].body.as_deref(), Some(&b"{\"a\": 1}"[..]));
        let fields = [("Accept", "text/plain"), ("X-A", "1")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        assert_eq!(kinds[1].headers, fields);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let told = |text: &str| format!("{:#}", parse_test_kinds(text).unwrap_err());
        assert!(told("").contains("no request found"));
        let unknown = told("[[request]]\nbodyfile = 'x'\n");
        assert!(unknown.contains("line 2") && unknown.contains("body-file"), "{unknown}");
        assert!(told("[[request]]\npath = 'x'\n").contains("request 1: the path 'x'"));
        assert!(told("[[request]]\n[[request]]\n").contains("two requests are named 'GET /base'"));
    }
}

#[cfg(test)]
mod data_rows_tests {
    use super::*;

    #[test]
    fn csv_has_a_header_and_quotes() {
        let rows = parse_csv(b"id,name\r\n1,\"a, b\"\r\n2,\"say \"\"x\"\"\"\n").unwrap();
        assert_eq!(rows.names, ["id", "name"]);
        assert_eq!(rows.values, [["1", "a, b"], ["2", "say \"x\""]]);
        let error = parse_csv(b"a,b\n1\n").unwrap_err().to_string();
        assert_eq!(error, "the number of fields in record 2 is 1, expected 2");
    }

    #[test]
    fn json_lines_name_their_columns() {
        let rows =
            parse_json_lines(b"{\"id\":1,\"n\":\"x\"}\n\n{\"n\":\"y\",\"id\":[2]}\n").unwrap();
        assert_eq!(rows.names, ["id", "n"]);
        assert_eq!(rows.values, [["1", "x"], ["[2]", "y"]]);
        let error = parse_json_lines(b"{\"id\":1}\n{\"x\":1}\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2 has no 'id'");
    }
}
