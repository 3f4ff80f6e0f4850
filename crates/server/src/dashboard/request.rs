//! Defines the context of one request, which every handler gets: its caller, its address, and its
//! query (application/x-www-form-urlencoded).
//!
//! A caller is identified by a token in the request, by a login, or as anonymous
//! ([`identify_caller`]). The audit log records failures.
//!
//! Addresses are percent-encoded. The path of a page is split into its parts, the project, and the
//! format of the response: every path may end in an extension such as `.json`, which requests the
//! same document in that format. A name may also end like that, so a path may have two readings
//! ([`PageAddress::readings`]); `routes.rs` finds the page of a reading. Unknown names in a query
//! are rejected, because a filter in a URL must never be ignored.

use crate::dashboard::project::HostedProject;
use crate::dashboard::site::{CallerIdentity, PublicAccess, SiteState, unix_ms};
use crate::http::token::{AccessToken, PresentedToken, SecretDigest, bearer_token};
use crate::http::{ClientInfo, HttpError};
use axum::body::Bytes;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use speedwell_model::Session;
use speedwell_model::stored::StoredToken;
use speedwell_report::ReportFormat;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};
use std::sync::Arc;
use std::time::Instant;

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

/// Encodes a string as one path segment or query value. Unreserved characters (RFC 3986, section
/// 2.3), `@` and `:` are not encoded.
pub fn encode_segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~@:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Encodes each segment of a path, keeping the slashes.
pub fn encode_path(text: &str) -> String {
    let parts: Vec<String> = text.split('/').map(encode_segment).collect();
    parts.join("/")
}

/// Decodes a part of an address. Returns `None` if an escape is invalid, or if the result is not
/// valid UTF-8 or contains NUL.
pub fn decode_segment(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut encoded = text.bytes();
    while let Some(byte) = encoded.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [encoded.next()?, encoded.next()?];
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.contains('\0')).then_some(text)
}

/// Format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageFormat {
    /// A page with its layout.
    Page,
    /// A document format.
    Document(ReportFormat),
    /// The sessions behind the page, one JSON object per line.
    JsonLines,
}

impl PageFormat {
    /// Formats in which every page is available as a file, by file extension.
    pub const DOCUMENTS: [(&'static str, ReportFormat); 5] = [
        ("json", ReportFormat::Json),
        ("md", ReportFormat::Markdown),
        ("csv", ReportFormat::Csv),
        ("html", ReportFormat::Html),
        ("txt", ReportFormat::Text),
    ];

    fn by_ending(ending: &str) -> Option<PageFormat> {
        if ending == "jsonl" {
            return Some(PageFormat::JsonLines);
        }
        let known = PageFormat::DOCUMENTS.iter().find(|(name, _)| *name == ending);
        known.map(|(_, format)| PageFormat::Document(*format))
    }
}

/// An address, as the parts of its path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    parts: Vec<String>,
}

impl PageAddress {
    /// Parses a path.
    ///
    /// # Errors
    /// Fails if the path does not decode to text.
    pub fn parse(path: &str) -> Result<PageAddress, HttpError> {
        let relative = path.strip_prefix('/').unwrap_or(path);
        let segments = relative.strip_suffix('/').unwrap_or(relative).split('/');
        match segments.map(decode_segment).collect::<Option<Vec<String>>>() {
            Some(parts) => Ok(PageAddress { parts }),
            None => Err(HttpError::not_found(
                "cannot decode the address: expected percent-encoded UTF-8",
            )),
        }
    }

    /// Returns the name of the project, or `None` for pages of the whole server.
    pub fn project(&self) -> Option<&str> {
        let first = self.parts.first()?;
        let name = match self.parts.len() {
            1 => first.split_once('.').map_or(first.as_str(), |(name, _)| name),
            _ => first,
        };
        (!["", "index", "settings"].contains(&name)).then_some(name)
    }

    /// Returns the possible readings of the address, most likely first: the parts of the path, and
    /// the format. The first reading takes the whole last part as a name. The second one takes the
    /// extension of the last part as a format.
    pub fn readings(&self) -> Vec<(Vec<String>, PageFormat)> {
        let mut readings = vec![(self.parts.clone(), PageFormat::Page)];
        if let Some((last, before)) = self.parts.split_last()
            && let Some((stem, extension)) = last.rsplit_once('.')
            && let Some(format) = PageFormat::by_ending(extension)
        {
            let mut parts = before.to_vec();
            // Pages without a name of their own are called `index`.
            match (stem, parts.len()) {
                ("index", 0) => parts.push(String::new()),
                ("index", 1) => {}
                _ => parts.push(stem.to_owned()),
            }
            readings.push((parts, format));
        }
        readings
    }
}

/// Identifies the caller of a request. Queries the database.
///
/// # Errors
/// Returns 401 for an invalid token, 429 after too many invalid tokens, and a status such as 503 if
/// the store cannot be read.
pub fn identify_caller(context: &RequestContext) -> Result<CallerIdentity, HttpError> {
    let identified = match bearer_token(&context.headers) {
        PresentedToken::None => caller_by_login(context)?,
        PresentedToken::Malformed => return Err(failed_login_error(context, None)),
        PresentedToken::Token(token) => Some(caller_by_token(context, &token)?),
    };
    if identified.is_some() {
        context.client.record_login();
    }
    let caller = identified.unwrap_or_default();
    Ok(CallerIdentity {
        address: context.client.address,
        public: public_access(context)?,
        ..caller
    })
}

/// Returns the projects that everyone may read, even without a login.
fn public_access(context: &RequestContext) -> Result<PublicAccess, HttpError> {
    if context.site.access.rules.allows_anonymous_reads {
        return Ok(PublicAccess::Everything);
    }
    let projects = context.site.list_projects().map_err(without_hints)?;
    let public = projects.into_iter().filter(|(_, is_public)| *is_public);
    Ok(PublicAccess::Projects(public.map(|(project, _)| project.name.clone()).collect()))
}

/// Identifies the caller by its login. Returns `None` if there is no login, or if the token used to
/// log in has since expired or been revoked.
fn caller_by_login(context: &RequestContext) -> Result<Option<CallerIdentity>, HttpError> {
    let logins = &context.site.access.logins;
    let login = logins.find_login(&context.headers, context.client.secure, Instant::now());
    let Some(id) = login.as_ref().and_then(|caller| caller.token.clone()) else {
        return Ok(login);
    };
    let stored = context.site.first.with_reader(|store| Ok(store.find_token(&id)?));
    match stored.map_err(without_hints)?.filter(|token| token.is_valid(unix_ms())) {
        Some(token) => Ok(Some(CallerIdentity::with_token(token))),
        None => {
            logins.end_matching(|login| login.token.as_ref() == Some(&id));
            Ok(None)
        }
    }
}

/// Identifies the caller by its token. Wrong and unknown tokens take the same code path.
///
/// # Errors
/// Fails under the same conditions as [`identify_caller`].
pub(super) fn caller_by_token(
    context: &RequestContext,
    token: &AccessToken,
) -> Result<CallerIdentity, HttpError> {
    let site = &context.site;
    site.access.failures.check_address(context.client.address, Instant::now())?;
    let presented = token.digest();
    let found = site
        .first
        .with_reader(|store| Ok(store.find_token_with_digest(token.id(), presented.as_bytes())?));
    let stored = match found.map_err(without_hints)? {
        // The token was found by the digest of the presented token, so the caller has the secret.
        Some(token) if !token.is_valid(unix_ms()) => {
            return Err(expired_token_error(context, &token));
        }
        stored => stored,
    };
    let digest = stored.as_ref().and_then(|stored| {
        let bytes = stored.digest.as_slice().try_into().ok()?;
        Some(SecretDigest::from_bytes(bytes))
    });
    match (token.matches_digest(digest.as_ref()), stored) {
        (true, Some(stored)) => {
            record_use(context, &stored);
            Ok(CallerIdentity::with_token(stored))
        }
        _ => Err(failed_login_error(context, Some(token))),
    }
}

/// Rejects a token that was revoked or has expired. A caller that knows the secret is not guessing,
/// so the attempt is not counted as a failed login: a forgotten job must not lock out everyone else
/// at its address.
fn expired_token_error(context: &RequestContext, token: &StoredToken) -> HttpError {
    let (expired_tokens, now) = (&context.site.access.expired_tokens, Instant::now());
    // Limit the audit entries: otherwise, each attempt would add one.
    if expired_tokens.check_address(context.client.address, now).is_ok() {
        expired_tokens.record_failure(context.client.address, now);
        record_failed_login(context, &token.id);
    }
    invalid_token_error()
}

fn record_use(context: &RequestContext, token: &StoredToken) {
    const HOUR_MS: i64 = 3_600_000;
    let now = unix_ms();
    if token.used_unix_ms.is_none_or(|used| now - used >= HOUR_MS) {
        // Accept the token even if its use cannot be recorded.
        let _ = context.site.with_writer(|store| store.record_token_use(token, now));
    }
}

/// Counts and records a failed login. The error does not say what was wrong, except that the
/// address has failed too often.
pub(super) fn failed_login_error(
    context: &RequestContext,
    token: Option<&AccessToken>,
) -> HttpError {
    let (failures, now) = (&context.site.access.failures, Instant::now());
    if let Err(error) = failures.check_address(context.client.address, now) {
        return error;
    }
    failures.record_failure(context.client.address, now);
    record_failed_login(context, token.map_or("", |token| token.id()));
    invalid_token_error()
}

fn record_failed_login(context: &RequestContext, subject: &str) {
    let caller = CallerIdentity { address: context.client.address, ..CallerIdentity::default() };
    context.site.record_action(&caller, None, "login", subject, "refused");
}

fn invalid_token_error() -> HttpError {
    HttpError::new(
        StatusCode::UNAUTHORIZED,
        "invalid token or key: unknown, expired, revoked or already used",
    )
    .with_hint("speedwell serve token list shows all tokens")
}

/// Drops the hints of an error of the store. They describe the store, which a caller that is not
/// identified need not know about.
fn without_hints(error: HttpError) -> HttpError {
    HttpError { hints: Vec::new(), ..error }
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

    #[test]
    fn any_text_survives_encoding_into_an_address() {
        for text in ["", "a b/c?d=e&f#g", "\"<>'%41", "Größe\u{202e}語", "..", "@rev:1/2"] {
            assert_eq!(decode_segment(&encode_segment(text)).as_deref(), Some(text));
            assert_eq!(decode_segment(&encode_path(text)).as_deref(), Some(text));
            let letters = encode_segment(text);
            assert!(letters.bytes().all(|byte| byte.is_ascii_graphic()));
            assert!(!letters.contains(['<', '>', '"', '\'', '&', '/', '#', '?']));
        }
    }

    #[test]
    fn invalid_escapes_are_not_decoded() {
        for text in ["%", "%4", "%zz", "%ff", "a%00b"] {
            assert_eq!(decode_segment(text), None, "{text}");
        }
    }
}
