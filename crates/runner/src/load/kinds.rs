//! From the options of a request to what is sent: kinds, header fields, body.
//!
//! It decides which fields are usual and what replaces them, as curl does. Start at [`kinds`].

use super::{Url, data_rows, requests_file, target};
use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use speedwell_load::http1::{Connection, Version};
use speedwell_load::load::{Kind, Kinds, Rows};
use speedwell_model::load_spec::LoadSpec;
use std::path::Path;

/// The header fields of a request, in order.
pub type Fields = Vec<(String, Vec<u8>)>;

/// Everything that is sent to a URL.
///
/// # Errors
/// Files that cannot be read, requests that cannot be written.
pub(super) fn kinds(spec: &LoadSpec, url: &Url) -> anyhow::Result<Kinds> {
    let plain = plain(spec, url)?;
    let kinds = match &spec.requests {
        Some(file) => requests_file::read(file, &plain, url)?,
        None => vec![plain],
    };
    let mut kinds = kinds;
    if let Some(proxy) = target::proxy(spec, url)? {
        for kind in &mut kinds {
            kind.target = format!("http://{}{}", url.authority(), kind.target);
            if let Some((name, password)) = &proxy.credentials {
                let field = ("Proxy-Authorization".to_owned(), basic(name, password));
                kind.headers.push(field);
            }
        }
    }
    let rows = match &spec.data_rows {
        Some(file) => data_rows::read(file)?,
        None => Rows::default(),
    };
    Kinds::new(kinds, rows).with_context(|| format!("cannot send requests to '{url}'"))
}

/// The request that the options describe.
fn plain(spec: &LoadSpec, url: &Url) -> anyhow::Result<Kind> {
    let body = body(spec)?;
    let usual = if body.is_some() { "POST" } else { "GET" };
    let method = spec.request.as_deref().unwrap_or(usual);
    let mut kind = Kind {
        name: format!("{method} {}", url.path),
        method: method.to_owned(),
        headers: usual_fields(spec, url)?,
        body,
        version: if spec.http10 {
            Version::Http10
        } else {
            Version::Http11
        },
        connection: if spec.no_keepalive {
            Connection::Close
        } else {
            Connection::KeepAlive
        },
        ..Kind::get(&url.authority(), &url.path)
    };
    for text in &spec.header {
        apply(&mut kind, text).with_context(|| format!("in --header '{text}'"))?;
    }
    Ok(kind)
}

fn body(spec: &LoadSpec) -> anyhow::Result<Option<Vec<u8>>> {
    let file = match (&spec.data, &spec.body_file) {
        (Some(text), _) => match text.strip_prefix('@') {
            Some(file) => Path::new(file),
            None => return Ok(Some(text.clone().into_bytes())),
        },
        (None, Some(file)) => file,
        (None, None) => return Ok(None),
    };
    read_body(file).map(Some)
}

/// The bytes of a file that is to be a body.
///
/// # Errors
/// It cannot be read.
pub fn read_body(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).with_context(|| format!("cannot read the body from '{}'", file.display()))
}

/// The fields that are sent unless `--header` says otherwise.
fn usual_fields(spec: &LoadSpec, url: &Url) -> anyhow::Result<Fields> {
    let own = concat!("speedwell/", env!("CARGO_PKG_VERSION"));
    let agent = spec.user_agent.as_deref().unwrap_or(own);
    let mut fields = vec![field("User-Agent", agent), field("Accept", "*/*")];
    if spec.data.is_some() {
        fields.push(field("Content-Type", "application/x-www-form-urlencoded"));
    }
    if let Some((name, password)) = credentials(spec, url)? {
        fields.push(("Authorization".to_owned(), basic(&name, &password)));
    }
    if !spec.cookie.is_empty() {
        fields.push(field("Cookie", &spec.cookie.join("; ")));
    }
    Ok(fields)
}

fn credentials(spec: &LoadSpec, url: &Url) -> anyhow::Result<Option<(String, String)>> {
    match &spec.user {
        None => Ok(url.credentials.clone()),
        Some(text) => match text.split_once(':') {
            Some((name, password)) => Ok(Some((name.to_owned(), password.to_owned()))),
            None => bail!("--user has the form NAME:PASSWORD, and either may be empty"),
        },
    }
}

fn field(name: &str, value: &str) -> (String, Vec<u8>) {
    (name.to_owned(), value.as_bytes().to_vec())
}

/// RFC 7617.
fn basic(name: &str, password: &str) -> Vec<u8> {
    let words = STANDARD.encode(format!("{name}:{password}"));
    format!("Basic {words}").into_bytes()
}

/// Applies a field as it is typed: `Name: value` replaces a usual one and is added to others of its
/// name, `Name:` removes a usual one, `Name;` is a field without a value.
///
/// # Errors
/// It has none of these forms.
pub fn apply(kind: &mut Kind, text: &str) -> anyhow::Result<()> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, Some(value.trim()).filter(|value| !value.is_empty())),
        None => match text.strip_suffix(';') {
            Some(name) => (name, Some("")),
            None => bail!("it has not the form 'Name: value'"),
        },
    };
    replace(kind, name, value);
    Ok(())
}

/// Sets a field; without a value it is left out.
pub fn replace(kind: &mut Kind, name: &str, value: Option<&str>) {
    if name.eq_ignore_ascii_case("host") {
        // Host is no ordinary field: HTTP/2 calls it :authority.
        if let Some(value) = value {
            kind.host = value.to_owned();
        }
        return;
    }
    const USUAL: [&str; 5] = [
        "user-agent",
        "accept",
        "content-type",
        "authorization",
        "cookie",
    ];
    if USUAL.contains(&name.to_ascii_lowercase().as_str()) {
        kind.headers
            .retain(|(known, _)| !known.eq_ignore_ascii_case(name));
    }
    if let Some(value) = value {
        kind.headers.push(field(name, value));
    }
}
