//! Defines the context of one request, which every handler gets, and its query
//! (application/x-www-form-urlencoded).
//!
//! Unknown names in a query are rejected, because a filter in a URL must never be ignored.

use crate::dashboard::access::CallerIdentity;
use crate::dashboard::link::{decode_segment, encode_segment};
use crate::dashboard::project::HostedProject;
use crate::dashboard::site::{SiteState, unix_ms};
use crate::http::{ClientInfo, HttpError};
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use speedwell_model::Session;
use speedwell_store::{Store, UploadSender};
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::sync::Arc;

/// A request on its way to its handler.
#[derive(Debug)]
pub struct RequestContext {
    pub site: Arc<SiteState>,
    pub client: ClientInfo,
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// The whole body; empty until the handler needs it.
    pub body: Bytes,
    /// The start of a body that is too large for memory. `body` is then the rest.
    pub spool: Option<File>,
    /// The caller; anonymous until it is identified.
    pub caller: CallerIdentity,
    /// The project that the path names. It need not exist.
    pub project: Option<String>,
    /// The other name in the path, such as the id of a session; empty if there is none.
    pub name: String,
}

impl RequestContext {
    /// Creates the context of a request whose route and caller are not known yet.
    pub fn new(site: Arc<SiteState>, client: ClientInfo, head: Parts) -> RequestContext {
        RequestContext {
            site,
            client,
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body: Bytes::new(),
            spool: None,
            caller: CallerIdentity::default(),
            project: None,
            name: String::new(),
        }
    }

    /// Returns the project that the path names, or the first project if it names none.
    ///
    /// # Errors
    /// Fails if there is no such project, or the store cannot be read.
    pub fn find_project(&self) -> Result<Arc<HostedProject>, HttpError> {
        match &self.project {
            Some(name) => self.site.find_project(name),
            None => Ok(self.site.first.clone()),
        }
    }

    /// Returns the session id.
    ///
    /// # Errors
    /// Fails if the path contains no valid id.
    pub fn session_id(&self) -> Result<&str, HttpError> {
        let id = self.name.as_str();
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if id.is_empty() || id.len() > 64 || !id.bytes().all(is_letter) {
            return Err(HttpError::bad_request(
                "invalid session id: expected up to 64 letters, digits and hyphens",
            ));
        }
        Ok(id)
    }

    /// Parses the query.
    ///
    /// # Errors
    /// Fails if the query is invalid.
    pub fn parse_query(&self) -> Result<PageQuery, HttpError> {
        PageQuery::parse(self.uri.query().unwrap_or_default())
    }

    /// Reads the body from its start.
    ///
    /// # Errors
    /// Fails if the file with its start cannot be read.
    pub fn open_body(&self) -> Result<Box<dyn BufRead + '_>, HttpError> {
        let Some(mut file) = self.spool.as_ref() else {
            return Ok(Box::new(&self.body[..]));
        };
        file.rewind().map_err(anyhow::Error::from)?;
        Ok(Box::new(BufReader::new(file.chain(&self.body[..]))))
    }

    /// Parses the body as a form.
    ///
    /// # Errors
    /// Fails if the form is invalid.
    pub fn parse_form(&self) -> Result<PageQuery, HttpError> {
        let form = std::str::from_utf8(&self.body)
            .map_err(|_| HttpError::bad_request("the form is not valid UTF-8"))?;
        PageQuery::parse(form)
    }

    /// Adds an entry to the audit log for an action on the project.
    pub fn record_action(&self, action: &str, subject: &str, result: &str) {
        self.site.record_action(&self.caller, self.project.as_deref(), action, subject, result);
    }

    /// Returns the id of the caller's token, and the current time.
    pub fn upload_sender(&self) -> UploadSender<'_> {
        UploadSender { token: self.caller.token.as_deref(), at_unix_ms: unix_ms() }
    }

    /// Rejects a session if the token may not push sessions of its branch or machine.
    ///
    /// # Errors
    /// Returns 403 and records the rejection in the audit log.
    pub fn ensure_push_permitted(&self, session: &Session) -> Result<(), HttpError> {
        let caller = &self.caller;
        let origin = session.origin.as_ref();
        let branch = origin.and_then(|origin| origin.branch.clone());
        let environment = &session.environment;
        let machine = environment.machine.clone().or(environment.host.clone());
        let restrictions =
            [("branch", &caller.branches, branch), ("machine", &caller.machines, machine)];
        for (kind, allowed, name) in restrictions {
            let name = name.unwrap_or_default();
            if allowed.as_ref().is_some_and(|allowed| !allowed.contains(&name)) {
                let message = format!("the token may not push sessions of the {kind} '{name}'");
                self.record_action("push", &session.id, &message);
                return Err(HttpError::new(StatusCode::FORBIDDEN, message)
                    .with_hint("create a token with this permission: speedwell serve token add"));
            }
        }
        Ok(())
    }

    /// Runs `work` with the write connection to the project's store.
    ///
    /// # Errors
    /// Fails if the project does not exist, if its store cannot be opened, or if `work` fails.
    pub fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut Store) -> Result<T, HttpError>,
    ) -> Result<T, HttpError> {
        self.find_project()?.with_writer(work)
    }
}

/// Maximum number of values; no page has so many parameters.
const MAX_VALUES: usize = 64;

/// Names and values in order; empty values are omitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PageQuery(Vec<(String, String)>);

impl PageQuery {
    /// Parses the text after the `?`.
    ///
    /// # Errors
    /// Fails if there are too many values, or a part does not decode to text.
    pub fn parse(text: &str) -> Result<PageQuery, HttpError> {
        let mut values = Vec::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let decode = |text: &str| decode_segment(&text.replace('+', " "));
            let (Some(name), Some(value)) = (decode(name), decode(value)) else {
                return Err(HttpError::bad_request(format!(
                    "cannot decode '{part}': expected percent-encoded UTF-8"
                )));
            };
            if !value.trim().is_empty() {
                values.push((name, value.trim().to_owned()));
            }
        }
        if values.len() > MAX_VALUES {
            return Err(HttpError::bad_request(format!(
                "the query has {} parameters: expected at most {MAX_VALUES}",
                values.len()
            )));
        }
        Ok(PageQuery(values))
    }

    /// Returns the last value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut matching = self.0.iter().rev().filter(|(key, _)| key == name);
        matching.next().map(|(_, value)| value.as_str())
    }

    pub fn get_all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        let matching = self.0.iter().filter(move |(key, _)| key == name);
        matching.map(|(_, value)| value.as_str())
    }

    /// Returns the value of a name as a number.
    ///
    /// # Errors
    /// Fails if the value is not a number.
    pub fn get_number(&self, name: &str) -> Result<Option<i64>, HttpError> {
        let parsed = self.get(name).map(|text| {
            text.trim_start_matches('@').parse::<i64>().map_err(|_| {
                HttpError::bad_request(format!("invalid {name} '{text}': expected a number"))
            })
        });
        parsed.transpose()
    }

    /// Rejects parameters that the page does not have.
    ///
    /// # Errors
    /// Fails if there is an unknown name.
    pub fn check_names(&self, known: &[&str]) -> Result<(), HttpError> {
        let unknown = self.0.iter().find(|(name, _)| !known.contains(&name.as_str()));
        match unknown {
            None => Ok(()),
            Some((name, _)) if known.is_empty() => Err(HttpError::bad_request(format!(
                "unknown parameter '{name}': no parameters are accepted here"
            ))),
            Some((name, _)) => Err(HttpError::bad_request(format!("unknown parameter '{name}'"))
                .with_hint(format!("known parameters: {}", known.join(", ")))),
        }
    }

    /// Formats the query with `name` set to `value`, or without `name` if `value` is `None`.
    pub fn with_value(&self, name: &str, value: Option<&str>) -> String {
        let mut parts: Vec<String> = Vec::new();
        for (key, current) in self.0.iter().filter(|(key, _)| key != name) {
            parts.push(format!("{}={}", encode_segment(key), encode_segment(current)));
        }
        if let Some(value) = value {
            parts.push(format!("{}={}", encode_segment(name), encode_segment(value)));
        }
        if parts.is_empty() { String::new() } else { format!("?{}", parts.join("&")) }
    }

    /// Returns the query without a name.
    pub fn without_name(&self, name: &str) -> PageQuery {
        let remaining = self.0.iter().filter(|(key, _)| key != name);
        PageQuery(remaining.cloned().collect())
    }

    /// Formats the query string for a URL.
    pub fn to_query_string(&self) -> String {
        self.with_value("", None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_values_survive_a_round_trip() {
        let query = PageQuery::parse("case=a%2Fb+len%3D16&empty=&of=%401&of=%402").unwrap();
        assert_eq!(query.get("case"), Some("a/b len=16"));
        assert_eq!(query.get("empty"), None);
        assert_eq!(query.get_all("of").collect::<Vec<_>>(), ["@1", "@2"]);
        assert_eq!(PageQuery::parse(&query.to_query_string()[1..]).unwrap(), query);
        assert_eq!(query.with_value("of", None), "?case=a%2Fb%20len%3D16");
    }

    #[test]
    fn invalid_oversized_and_unknown_query_parameters_are_refused() {
        assert!(PageQuery::parse("a=%ff").is_err());
        assert!(PageQuery::parse("a=%4").is_err());
        assert!(PageQuery::parse(&"a=1&".repeat(65)).is_err());
        assert!(PageQuery::parse("brnch=x").unwrap().check_names(&["branch"]).is_err());
        assert!(PageQuery::parse("n=one").unwrap().get_number("n").is_err());
    }
}
