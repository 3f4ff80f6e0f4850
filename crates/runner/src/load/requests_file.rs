//! Requests of several kinds from a TOML file:
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
//! What the command line says holds for all of them unless they say otherwise.

use super::Url;
use super::kinds::{read_body, replace};
use anyhow::{Context, bail, ensure};
use indexmap::IndexMap;
use serde::Deserialize;
use speedwell_load::load::Kind;
use speedwell_model::{Value, ValueKind};
use std::path::{Path, PathBuf};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    request: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: Option<String>,
    #[serde(default = "one")]
    weight: u32,
    method: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: IndexMap<String, String>,
    body: Option<String>,
    body_file: Option<PathBuf>,
}

fn one() -> u32 {
    1
}

/// Reads a file. `plain` is the request of the command line; files of bodies are looked for beside
/// the file.
///
/// # Errors
/// It cannot be read or understood, or holds no request.
pub fn read(file: &Path, plain: &Kind, url: &Url) -> anyhow::Result<Vec<Kind>> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).with_context(|| {
        let number = Value::parse(&shown.to_string(), ValueKind::Number);
        let hint = number.map_or(
            "",
            |_| "\nhint: --requests names a file; the number of requests is -n",
        );
        format!("cannot read requests from '{shown}'{hint}")
    })?;
    let folder = file.parent().unwrap_or(Path::new("."));
    kinds(&text, folder, plain, url).with_context(|| format!("in the requests of '{shown}'"))
}

fn kinds(text: &str, folder: &Path, plain: &Kind, url: &Url) -> anyhow::Result<Vec<Kind>> {
    let file: File = toml::from_str(text).map_err(|error| hinted(&error))?;
    ensure!(
        !file.request.is_empty(),
        "there is no request in it\nhint: each begins with a line [[request]]"
    );
    let mut kinds: Vec<Kind> = Vec::new();
    for (entry, number) in file.request.into_iter().zip(1..) {
        let kind = kind(entry, folder, plain, url).with_context(|| format!("request {number}"))?;
        if kinds.iter().any(|known| known.name == kind.name) {
            bail!("two requests are named '{}'", kind.name);
        }
        kinds.push(kind);
    }
    Ok(kinds)
}

/// What is wrong with a file, and where. The library's message says the place in several lines.
fn hinted(error: &toml::de::Error) -> anyhow::Error {
    const KNOWN: [&str; 7] = [
        "name",
        "weight",
        "method",
        "path",
        "headers",
        "body",
        "body-file",
    ];
    let hint = if error.message().contains("unknown field") {
        format!("\nhint: the keys of a request are {}", KNOWN.join(", "))
    } else {
        String::new()
    };
    anyhow::anyhow!("{}{hint}", error.to_string().trim_end())
}

fn kind(entry: Entry, folder: &Path, plain: &Kind, url: &Url) -> anyhow::Result<Kind> {
    let body = match (entry.body, entry.body_file) {
        (Some(_), Some(_)) => bail!("it has both a body and a body-file"),
        (Some(text), None) => Some(text.into_bytes()),
        (None, Some(file)) => Some(read_body(&folder.join(file))?),
        (None, None) => None,
    };
    let path = match &entry.path {
        None => url.path.clone(),
        Some(path) => {
            ensure!(
                path.starts_with('/'),
                "the path '{path}' does not begin with '/'"
            );
            url.with_path(path).path
        }
    };
    let usual = if body.is_some() { "POST" } else { "GET" };
    let method = entry.method.unwrap_or_else(|| usual.to_owned());
    let mut kind = Kind {
        name: entry.name.unwrap_or_else(|| format!("{method} {path}")),
        weight: entry.weight,
        method,
        target: path,
        body,
        ..plain.clone()
    };
    for (name, value) in &entry.headers {
        replace(&mut kind, name, Some(value.as_str()));
    }
    Ok(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> anyhow::Result<Vec<Kind>> {
        let url = Url::parse("http://h/base").unwrap();
        let plain = Kind {
            headers: vec![("Accept".into(), b"*/*".to_vec())],
            ..Kind::get("h", "/base")
        };
        kinds(text, Path::new("."), &plain, &url)
    }

    #[test]
    fn requests_have_weights_bodies_and_fields_of_their_own() {
        let text = "[[request]]\nname = 'read'\nweight = 9\npath = '/users/{{id}}'\n\
                    [[request]]\npath = '/users'\nheaders = { Accept = 'text/plain', 'X-A' = '1' }\n\
                    body = '{\"a\": 1}'\n";
        let kinds = read(text).unwrap();
        assert_eq!((kinds[0].name.as_str(), kinds[0].weight), ("read", 9));
        assert_eq!(kinds[0].target, "/users/{{id}}");
        assert_eq!(
            (kinds[1].name.as_str(), kinds[1].weight),
            ("POST /users", 1)
        );
        assert_eq!(kinds[1].body.as_deref(), Some(&b"{\"a\": 1}"[..]));
        let fields = [("Accept", "text/plain"), ("X-A", "1")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec()));
        assert_eq!(kinds[1].headers, fields);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let told = |text: &str| format!("{:#}", read(text).unwrap_err());
        assert!(told("").contains("there is no request in it"));
        let unknown = told("[[request]]\nbodyfile = 'x'\n");
        assert!(
            unknown.contains("line 2") && unknown.contains("body-file"),
            "{unknown}"
        );
        assert!(told("[[request]]\npath = 'x'\n").contains("request 1: the path 'x'"));
        assert!(told("[[request]]\n[[request]]\n").contains("two requests are named 'GET /base'"));
    }
}
