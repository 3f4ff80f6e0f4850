//! Defines the callers of a site and their permissions, identifies callers, and logs people in and
//! out.
//!
//! Reading may be open to everyone who can reach the server, and each project may be public.
//! Everything else requires a permission ([`CallerIdentity::ensure_permitted`]). Callers without
//! permission for a project learn nothing about it, not even whether it exists.
//!
//! A caller is identified by a token in the request, by a login, or as anonymous
//! ([`identify_caller`]). The audit log records logins and failures. `server::http` has already
//! checked that a form comes from a page of this server.

use crate::dashboard::address::{PageFormat, PageQuery, encode_segment};
use crate::dashboard::page::{PageContent, PageLayout, page_response, redirect_to};
use crate::dashboard::site::{RequestContext, unix_ms};
use crate::http::cookie::{LoginKey, LoginStore};
use crate::http::token::{AccessToken, FailureLimiter, PresentedToken, SecretDigest, bearer_token};
use crate::http::{ClientInfo, HttpError};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use speedwell_model::stored::{StoredToken, TokenScope};
use speedwell_report::html::{FormField, PageForm};
use speedwell_report::{Document, ReportBlock};
use std::net::IpAddr;
use std::time::Instant;

/// Access rules of a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessRules {
    /// Whether everyone who can reach the server may read.
    pub allows_anonymous_reads: bool,
    /// Whether a key that grants full access is printed at startup.
    pub has_key: bool,
    /// Whether all connections to the server are protected by TLS.
    pub has_tls: bool,
}

/// Permission that an action requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredPermission {
    /// None.
    Nothing,
    /// Reading the project.
    Read,
    /// Pushing to the project.
    Push,
    /// Triaging changes of the project.
    Triage,
    /// Full access.
    Admin,
}

/// The access rules and startup key of a server, its current logins, and recent failed attempts.
#[derive(Debug)]
pub struct SiteAccess {
    pub(super) rules: AccessRules,
    pub(super) key: Option<LoginKey>,
    pub(super) logins: LoginStore<CallerIdentity>,
    pub(super) failures: FailureLimiter,
    /// Limits audit entries for tokens that are expired or revoked.
    pub(super) expired_tokens: FailureLimiter,
}

impl SiteAccess {
    /// Creates an access state without logins.
    ///
    /// # Errors
    /// Fails if the system has no random bytes.
    pub fn new(rules: AccessRules) -> anyhow::Result<SiteAccess> {
        // Browsers send a cookie to all ports of a host, so each server needs its own cookie name.
        let name = if rules.has_tls {
            "speedwell".to_owned()
        } else {
            format!("speedwell-{}", std::process::id())
        };
        Ok(SiteAccess {
            rules,
            key: rules.has_key.then(LoginKey::new).transpose()?,
            logins: LoginStore::new(name),
            failures: FailureLimiter::default(),
            expired_tokens: FailureLimiter::default(),
        })
    }

    /// Returns the key to print at startup. The key works once.
    pub fn startup_key(&self) -> Option<&str> {
        self.key.as_ref().map(LoginKey::expose)
    }

    /// Whether pages offer a login. They do if there is a startup key, or if anonymous callers may
    /// not read everything.
    pub fn offers_login(&self) -> bool {
        self.key.is_some() || !self.rules.allows_anonymous_reads
    }
}

/// The caller of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerIdentity {
    /// The name of the token, `start key` for the startup key, or empty for an anonymous caller.
    pub name: String,
    /// The id of the token.
    pub token: Option<String>,
    /// Address of the client.
    pub address: Option<IpAddr>,
    /// Restricts pushes to sessions of these branches.
    pub branches: Option<Vec<String>>,
    /// Restricts pushes to sessions of these machines.
    pub machines: Option<Vec<String>>,
    pub(super) scopes: Vec<TokenScope>,
    /// Restricts the scopes to this project.
    pub(super) project: Option<String>,
    /// What everyone may read.
    pub(super) public: PublicAccess,
}

/// What everyone may read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum PublicAccess {
    #[default]
    Nothing,
    /// The projects with these names.
    Projects(Vec<String>),
    Everything,
}

impl CallerIdentity {
    /// Creates a caller that sent a token, or logged in with one.
    pub(super) fn with_token(token: StoredToken) -> CallerIdentity {
        CallerIdentity {
            name: token.name,
            token: Some(token.id),
            address: None,
            branches: token.branches,
            machines: token.machines,
            scopes: token.scopes,
            project: token.project,
            public: PublicAccess::Nothing,
        }
    }

    /// Whether the caller is authenticated.
    pub fn is_authenticated(&self) -> bool {
        !self.name.is_empty() || self.token.is_some()
    }

    /// Returns the key for limiting expensive requests. Callers without a token share a key if they
    /// have the same address.
    pub(super) fn limiter_key(&self, client: &ClientInfo) -> String {
        match (&self.token, client.address) {
            (Some(token), _) => format!("token {token}"),
            (None, Some(address)) => address.to_string(),
            (None, None) => String::new(),
        }
    }

    /// Returns the key that separates the cached pages of different callers.
    pub(super) fn cache_key(&self) -> String {
        format!("{}\n{}", self.token.as_deref().unwrap_or_default(), self.name)
    }

    /// Whether the caller has this permission in a project, or on the whole server.
    pub fn is_permitted(&self, permission: RequiredPermission, project: Option<&str>) -> bool {
        let is_public = match (&self.public, project) {
            (PublicAccess::Everything, _) => true,
            (PublicAccess::Projects(names), Some(name)) => {
                names.iter().any(|public| public == name)
            }
            _ => false,
        };
        let sufficient_scopes: &[TokenScope] = match permission {
            RequiredPermission::Nothing => return true,
            RequiredPermission::Read if is_public => return true,
            RequiredPermission::Read => &[TokenScope::Read, TokenScope::Push, TokenScope::Triage],
            RequiredPermission::Push => &[TokenScope::Push],
            RequiredPermission::Triage => &[TokenScope::Triage],
            RequiredPermission::Admin => &[],
        };
        let is_in_scope = match (&self.project, project) {
            (None, _) => true,
            (Some(bound_project), Some(name)) => bound_project == name,
            (Some(_), None) => false,
        };
        let has =
            |scope: &TokenScope| *scope == TokenScope::Admin || sufficient_scopes.contains(scope);
        is_in_scope && self.scopes.iter().any(has)
    }

    /// Whether the caller may read a project.
    pub fn can_read(&self, project: &str) -> bool {
        self.is_permitted(RequiredPermission::Read, Some(project))
    }

    /// Returns an error unless the caller has this permission. The error does not depend on whether
    /// the project exists.
    ///
    /// # Errors
    /// Returns 401 for anonymous callers, otherwise 403.
    pub fn ensure_permitted(
        &self,
        permission: RequiredPermission,
        project: Option<&str>,
    ) -> Result<(), HttpError> {
        if self.is_permitted(permission, project) {
            return Ok(());
        }
        let action = match (permission, project) {
            (RequiredPermission::Push, Some(project)) => format!("push to '{project}'"),
            (RequiredPermission::Triage, Some(project)) => format!("triage changes of '{project}'"),
            (RequiredPermission::Admin, Some(project)) => format!("administer '{project}'"),
            (_, Some(project)) => format!("read '{project}'"),
            (_, None) => "do this".to_owned(),
        };
        Err(if self.is_authenticated() {
            let message = format!("'{}' is not allowed to {action}", self.name);
            HttpError::new(StatusCode::FORBIDDEN, message)
                .with_hint("create a token with this permission: speedwell serve token add")
        } else {
            let message = format!("a token is required to {action}");
            HttpError::new(StatusCode::UNAUTHORIZED, message)
                .with_hint("send Authorization: Bearer TOKEN, or log in at /login")
        })
    }
}

/// Renders the login page. Logs in immediately if the address contains the startup key or a token
/// (`?key=`).
///
/// # Errors
/// Never fails: the page shows errors.
pub fn login_page(context: &RequestContext) -> Result<Response, HttpError> {
    let query = context.parse_query().unwrap_or_default();
    Ok(match query.get("key").map(|key| authenticate(context, key)) {
        None => login_form(context, &query, None),
        Some(Ok(caller)) => start_session(context, caller, "/"),
        Some(Err(error)) => login_form(context, &query, Some(&error)),
    })
}

/// Logs in a caller that sends a token or the startup key.
///
/// # Errors
/// Returns 400 if the form or the query is invalid.
pub fn log_in(context: &RequestContext) -> Result<Response, HttpError> {
    let (form, query) = (context.parse_form()?, context.parse_query()?);
    Ok(match authenticate(context, form.get("token").unwrap_or_default()) {
        Ok(caller) => start_session(context, caller, target_path(&query)),
        Err(error) => login_form(context, &query, Some(&error)),
    })
}

/// Returns the path on this site to open after the login.
fn target_path(query: &PageQuery) -> &str {
    query.get("to").filter(|path| is_site_path(path)).unwrap_or("/")
}

fn login_form(context: &RequestContext, query: &PageQuery, error: Option<&HttpError>) -> Response {
    let mut document = Document::new("login");
    document.push(ReportBlock::Headline("Log in".into()));
    if let Some(error) = error {
        document.push(ReportBlock::Note(format!("{}.", error.message)));
        document.extend(error.hints.iter().cloned().map(ReportBlock::Paragraph));
    }
    document.push(ReportBlock::Paragraph(
        "Create a token with 'speedwell serve token add'. A local server prints a one-time key at startup instead."
            .into(),
    ));
    let form = PageForm {
        action: format!("/login?to={}", encode_segment(target_path(query))),
        title: "Token or key".into(),
        button: "Log in".into(),
        fields: vec![FormField {
            name: "token",
            label: "token or key".into(),
            is_secret: true,
            ..FormField::default()
        }],
        ..PageForm::default()
    };
    let page = PageContent {
        changes: vec![form],
        status: error.map_or(StatusCode::OK, |error| error.status),
        ..PageContent::from_document(document)
    };
    let layout = PageLayout {
        site: &context.site,
        project: &context.site.first,
        caller: &CallerIdentity::default(),
        section: None,
        path: "/login",
        query: &PageQuery::default(),
    };
    let bytes = layout.render_page(&page, PageFormat::Page).unwrap_or_default();
    let response = page_response(page.status, PageFormat::Page, "", bytes);
    ([(header::CACHE_CONTROL, "no-store")], response).into_response()
}

/// Identifies the caller by a token or the startup key.
fn authenticate(context: &RequestContext, token_or_key: &str) -> Result<CallerIdentity, HttpError> {
    let access = &context.site.access;
    access.failures.check_address(context.client.address, Instant::now())?;
    if let Some(token) = AccessToken::parse(token_or_key) {
        return caller_by_token(context, &token);
    }
    if access.key.as_ref().is_some_and(|key| key.redeem(token_or_key)) {
        return Ok(CallerIdentity {
            name: "start key".into(),
            scopes: vec![TokenScope::Admin],
            ..CallerIdentity::default()
        });
    }
    Err(failed_login_error(context, None))
}

/// Sets the login cookie and redirects.
fn start_session(context: &RequestContext, caller: CallerIdentity, target_path: &str) -> Response {
    let caller = CallerIdentity { address: context.client.address, ..caller };
    context.site.record_action(&caller, None, "login", "", "done");
    let mut response = redirect_to(target_path);
    let logins = &context.site.access.logins;
    if let Ok(cookie) = logins.start_login(caller, context.client.secure, Instant::now()) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

/// Ends the login that the request's cookie belongs to.
///
/// # Errors
/// Fails if the store cannot be read.
pub fn log_out(context: &RequestContext) -> Result<Response, HttpError> {
    if matches!(bearer_token(&context.headers), PresentedToken::None) {
        let caller = identify_caller(context)?;
        if caller.is_authenticated() {
            context.site.record_action(&caller, None, "logout", "", "done");
        }
    }
    let mut response = redirect_to("/");
    let logins = &context.site.access.logins;
    if let Ok(cookie) = logins.end_login(&context.headers, context.client.secure) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Redirects to the login page. After the login, the browser returns to `uri`.
pub fn redirect_to_login(uri: &Uri) -> Response {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    redirect_to(&format!("/login?to={}", encode_segment(path)))
}

/// Whether a path is on this site.
pub(super) fn is_site_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
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
fn caller_by_token(
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
fn failed_login_error(context: &RequestContext, token: Option<&AccessToken>) -> HttpError {
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

    fn caller(scopes: &[TokenScope], project: Option<&str>) -> CallerIdentity {
        CallerIdentity {
            name: "t".into(),
            scopes: scopes.to_vec(),
            project: project.map(str::to_owned),
            ..CallerIdentity::default()
        }
    }

    #[test]
    fn a_permission_holds_only_in_its_project_and_for_its_action() {
        use RequiredPermission::{Admin, Push, Read, Triage};
        let all = [Read, Push, Triage, Admin];
        for (scopes, allowed) in [
            (&[TokenScope::Read][..], &[Read][..]),
            (&[TokenScope::Push], &[Read, Push]),
            (&[TokenScope::Triage], &[Read, Triage]),
            (&[TokenScope::Admin], &all),
            (&[], &[]),
        ] {
            for need in all {
                let is_allowed = allowed.contains(&need);
                let bound = caller(scopes, Some("core"));
                assert_eq!(
                    bound.is_permitted(need, Some("core")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
                assert!(!bound.is_permitted(need, Some("other")), "{scopes:?} {need:?}");
                assert!(!bound.is_permitted(need, None), "the whole server is more than a project");
                let free = caller(scopes, None);
                assert_eq!(
                    free.is_permitted(need, Some("other")),
                    is_allowed,
                    "{scopes:?} {need:?}"
                );
            }
        }
    }

    #[test]
    fn public_projects_can_be_read_but_not_changed_without_a_token() {
        let nobody = CallerIdentity {
            public: PublicAccess::Projects(vec!["open".into()]),
            ..CallerIdentity::default()
        };
        assert!(nobody.can_read("open") && !nobody.can_read("core"));
        let refused = nobody.ensure_permitted(RequiredPermission::Push, Some("open")).unwrap_err();
        assert_eq!(refused.status, 401);
        let known = caller(&[TokenScope::Read], Some("core"));
        let refused = |project: &str| {
            known.ensure_permitted(RequiredPermission::Read, Some(project)).unwrap_err()
        };
        assert_eq!(refused("there").status, 403);
        let message = |project: &str| refused(project).message.replace(project, "P");
        assert_eq!(message("there"), message("not-there"), "the error reveals nothing");
    }

    #[test]
    fn a_login_redirects_only_to_paths_of_this_site() {
        for path in ["/", "/core/sessions?branch=a%2Fb"] {
            assert!(is_site_path(path), "{path}");
        }
        for path in ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", ""] {
            assert!(!is_site_path(path), "{path}");
        }
    }
}
