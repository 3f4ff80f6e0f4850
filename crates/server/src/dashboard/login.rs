//! Logs people in and out. The audit log records logins; `request.rs` identifies callers.
//!
//! `server::http` has already checked that a form comes from a page of this server. Start at
//! [`login_page`].

use crate::dashboard::page::{PageContent, PageLayout, page_response, redirect_to};
use crate::dashboard::request::{
    PageFormat, PageQuery, RequestContext, caller_by_token, encode_segment, failed_login_error,
    identify_caller,
};
use crate::dashboard::site::CallerIdentity;
use crate::http::HttpError;
use crate::http::token::{AccessToken, PresentedToken, bearer_token};
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, Uri, header};
use speedwell_report::html::{FormField, PageForm};
use speedwell_report::{Document, ReportBlock};
use std::time::Instant;

/// Renders the login page. Logs in immediately if the address contains the startup key or a token
/// (`?key=`).
///
/// # Errors
/// Never fails: the page shows errors.
pub fn login_page(context: &RequestContext) -> Result<Response<Body>, HttpError> {
    let query = context.parse_query().unwrap_or_default();
    let Some(key) = query.get("key") else {
        return Ok(login_form(context, &query, None));
    };
    Ok(match authenticate(context, key) {
        Ok(caller) => start_session(context, caller, "/"),
        Err(error) => login_form(context, &query, Some(&error)),
    })
}

/// Logs in a caller that sends a token or the startup key.
///
/// # Errors
/// Returns 400 if the form or the query is invalid.
pub fn log_in(context: &RequestContext) -> Result<Response<Body>, HttpError> {
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

fn login_form(
    context: &RequestContext,
    query: &PageQuery,
    error: Option<&HttpError>,
) -> Response<Body> {
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
        set: Vec::new(),
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
    let mut response = page_response(page.status, PageFormat::Page, "", bytes);
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

/// Identifies the caller by a token or the startup key.
fn authenticate(context: &RequestContext, token_or_key: &str) -> Result<CallerIdentity, HttpError> {
    let access = &context.site.access;
    access.failures.check_address(context.client.address, Instant::now())?;
    if let Some(token) = AccessToken::parse(token_or_key) {
        return caller_by_token(context, &token);
    }
    if access.key.as_ref().is_some_and(|key| key.redeem(token_or_key)) {
        return Ok(CallerIdentity::with_key());
    }
    Err(failed_login_error(context, None))
}

/// Sets the login cookie and redirects.
fn start_session(
    context: &RequestContext,
    caller: CallerIdentity,
    target_path: &str,
) -> Response<Body> {
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
pub fn log_out(context: &RequestContext) -> Result<Response<Body>, HttpError> {
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
pub fn redirect_to_login(uri: &Uri) -> Response<Body> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    redirect_to(&format!("/login?to={}", encode_segment(path)))
}

/// Whether a path is on this site.
fn is_site_path(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

#[cfg(test)]
mod tests {
    use super::*;

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
