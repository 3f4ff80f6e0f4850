//! Identifies callers, and logs people in and out.
//!
//! A caller is identified by a token in the request, by a login, or as anonymous
//! ([`identify_caller`]). The audit log records logins and failures. `server::http` has already
//! checked that a form comes from a page of this server.

use crate::dashboard::access::{CallerIdentity, PublicAccess};
use crate::dashboard::address::{PageFormat, PageQuery, encode_segment, is_site_path};
use crate::dashboard::page::{PageContent, PageLayout, page_response, redirect_to};
use crate::dashboard::site::{RequestContext, unix_ms};
use crate::http::HttpError;
use crate::http::token::{AccessToken, PresentedToken, SecretDigest, bearer_token};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use speedwell_model::stored::{StoredToken, TokenScope};
use speedwell_report::html::{FormField, PageForm};
use speedwell_report::{Document, ReportBlock};
use std::time::Instant;

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
