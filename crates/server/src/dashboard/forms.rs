//! Handles forms: login, logout, and triage of changes. Triage needs a permission. The audit log
//! records all these actions.
//!
//! `server::http` has already checked that the form comes from a page of this server. Start at
//! [`apply_form`].

use crate::dashboard::access::{self, CallerIdentity, RequiredPermission};
use crate::dashboard::address::{PageAddress, PageFormat, PageKind};
use crate::dashboard::handler::{build_response, render_bytes};
use crate::dashboard::layout::LayoutContext;
use crate::dashboard::link::encode_segment;
use crate::dashboard::page::PageContent;
use crate::dashboard::page_error::PageError;
use crate::dashboard::query::PageQuery;
use crate::dashboard::site::{SiteState, unix_ms};
use crate::http::ClientInfo;
use crate::http::token::{AccessToken, PresentedToken, bearer_token};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use speedwell_model::{ChangeTriage, RecordedChange, check_note};
use speedwell_report::html::{FormField, PageForm};
use speedwell_report::{Document, ReportBlock};
use speedwell_store::Store;
use std::time::Instant;

/// Applies a form and redirects to its result.
///
/// # Errors
/// Fails if the caller lacks the permission, or the form is invalid.
pub fn apply_form(
    site: &SiteState,
    client: &ClientInfo,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response<Body>, PageError> {
    let form = std::str::from_utf8(body)
        .map_err(|_| PageError::bad_request("the form is not valid UTF-8"))?;
    let form = PageQuery::parse(form)?;
    match uri.path() {
        "/login" => {
            let query = PageQuery::parse(uri.query().unwrap_or_default())?;
            return log_in(site, client, &form, &query);
        }
        "/logout" => return log_out(site, client, headers),
        _ => {}
    }
    let caller = access::identify_caller(site, headers, client)?;
    let address = PageAddress::parse(uri.path())?;
    let name = address.project().unwrap_or_default();
    let page = address.possible_pages(name)?.into_iter().next();
    match page {
        Some((PageKind::Alerts, PageFormat::Page)) => triage_change(site, &caller, name, &form),
        _ => Err(PageError {
            status: StatusCode::METHOD_NOT_ALLOWED,
            ..PageError::bad_request("this page does not accept forms")
        }),
    }
}

fn triage_change(
    site: &SiteState,
    caller: &CallerIdentity,
    project: &str,
    form: &PageQuery,
) -> Result<Response<Body>, PageError> {
    form.check_names(&["change", "triage", "note", "branch"])?;
    let subject = format!(
        "change {}: {}",
        form.get("change").unwrap_or_default(),
        form.get("triage").unwrap_or_default()
    );
    if let Err(error) = caller.ensure_permitted(RequiredPermission::Triage, Some(project)) {
        site.record_action(caller, Some(project), "triage", &subject, "refused");
        return Err(error.into());
    }
    let number =
        form.get_number("change")?.ok_or_else(|| PageError::bad_request("no change selected"))?;
    let triage_name = form.get("triage").unwrap_or_default();
    let triage =
        [ChangeTriage::Open, ChangeTriage::Accepted, ChangeTriage::Wrong, ChangeTriage::Fixed]
            .into_iter()
            .find(|triage| triage.to_string() == triage_name)
            .ok_or_else(|| {
                PageError::bad_request(format!("unknown triage '{triage_name}'"))
                    .with_hint("use open, accepted, wrong or fixed")
            })?;
    check_note(form.get("note").unwrap_or_default())
        .map_err(|error| PageError::from_error(StatusCode::BAD_REQUEST, &error))?;
    let project = site.find_project(project)?;
    let mut store = Store::open(project.path())?;
    let stored = store
        .find_change(number)
        .map_err(|error| PageError::from_error(StatusCode::NOT_FOUND, &error))?;
    store.store_triage(&RecordedChange {
        triage,
        note: form.get("note").map(str::to_owned).or(stored.change.note),
        triaged_by: Some(caller.name.clone()),
        triaged_unix_ms: Some(unix_ms()),
        ..stored.change
    })?;
    site.record_action(caller, Some(&project.name), "triage", &subject, "done");
    let branch = form.get("branch").map(encode_segment);
    let query = branch.map_or_else(String::new, |branch| format!("?branch={branch}"));
    Ok(redirect_to(&format!("/{}/alerts{query}", project.name)))
}

/// Builds the form for triaging and reopening changes. `changes` holds the number and the
/// description of each change.
pub fn triage_form(
    action: String,
    changes: Vec<(String, String)>,
    branch: Option<&str>,
) -> PageForm {
    let options = [
        ("accepted", "accepted: intended, or worth its cost"),
        ("wrong", "wrong: a false alarm"),
        ("fixed", "fixed: reverted or repaired"),
        ("open", "open: not triaged yet, or triage withdrawn"),
    ]
    .map(|(value, label)| (value.to_owned(), label.to_owned()));
    let mut fields = vec![
        FormField {
            name: "change",
            label: "change".into(),
            options: changes,
            ..FormField::default()
        },
        FormField {
            name: "triage",
            label: "triage".into(),
            options: options.into(),
            ..FormField::default()
        },
        FormField {
            name: "note",
            label: "note".into(),
            placeholder: "reason".into(),
            ..FormField::default()
        },
    ];
    if let Some(branch) = branch {
        fields.push(FormField {
            name: "branch",
            label: "branch".into(),
            options: vec![(branch.to_owned(), branch.to_owned())],
            ..FormField::default()
        });
    }
    PageForm {
        action,
        title: "Triage a change".into(),
        button: "Save".into(),
        fields,
        set: Vec::new(),
    }
}

/// Renders the login page. Logs in immediately if the address contains the startup key or a token
/// (`?key=`).
pub fn login_page(site: &SiteState, client: &ClientInfo, uri: &Uri) -> Response<Body> {
    let query = PageQuery::parse(uri.query().unwrap_or_default()).unwrap_or_default();
    if let Some(key) = query.get("key") {
        let logged_in = authenticate(site, client, key);
        return match logged_in {
            Ok(caller) => start_session(site, client, &caller, "/"),
            Err(error) => login_form(site, &query, Some(&error)),
        };
    }
    login_form(site, &query, None)
}

fn login_form(site: &SiteState, query: &PageQuery, error: Option<&PageError>) -> Response<Body> {
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
    let target_path = query.get("to").filter(|path| is_site_path(path)).unwrap_or("/");
    let form = PageForm {
        action: format!("/login?to={}", encode_segment(target_path)),
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
    let layout_context =
        LayoutContext { site, project: &site.first, caller: &CallerIdentity::default() };
    let empty_query = PageQuery::default();
    let bytes =
        render_bytes(&layout_context, None, &page, PageFormat::Page, "/login", &empty_query);
    let mut response = build_response(page.status, PageFormat::Page, "", bytes.unwrap_or_default());
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, no_store);
    response
}

/// Logs in a caller that sends a token or the startup key.
fn log_in(
    site: &SiteState,
    client: &ClientInfo,
    form: &PageQuery,
    query: &PageQuery,
) -> Result<Response<Body>, PageError> {
    let token_or_key = form.get("token").unwrap_or_default();
    match authenticate(site, client, token_or_key) {
        Ok(caller) => {
            let target_path = query.get("to").filter(|path| is_site_path(path));
            Ok(start_session(site, client, &caller, target_path.unwrap_or("/")))
        }
        Err(error) => Ok(login_form(site, query, Some(&error))),
    }
}

/// Identifies the caller by a token or the startup key.
fn authenticate(
    site: &SiteState,
    client: &ClientInfo,
    token_or_key: &str,
) -> Result<CallerIdentity, PageError> {
    site.access.failures.check_address(client.address, Instant::now())?;
    if let Some(token) = AccessToken::parse(token_or_key) {
        return Ok(access::caller_by_token(site, client, &token)?);
    }
    if site.access.redeem(token_or_key) {
        return Ok(CallerIdentity::with_key());
    }
    Err(access::failed_login_error(site, client, None).into())
}

/// Sets the login cookie and redirects.
fn start_session(
    site: &SiteState,
    client: &ClientInfo,
    caller: &CallerIdentity,
    target_path: &str,
) -> Response<Body> {
    let mut located_caller = caller.clone();
    located_caller.address = client.address;
    site.record_action(&located_caller, None, "login", "", "done");
    let mut response = redirect_to(target_path);
    let login_cookie =
        site.access.logins.start_login(located_caller, client.secure, Instant::now());
    if let Ok(cookie) = login_cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn log_out(
    site: &SiteState,
    client: &ClientInfo,
    headers: &HeaderMap,
) -> Result<Response<Body>, PageError> {
    if matches!(bearer_token(headers), PresentedToken::None) {
        let caller = access::identify_caller(site, headers, client)?;
        if caller.is_authenticated() {
            site.record_action(&caller, None, "logout", "", "done");
        }
    }
    let mut response = redirect_to("/");
    if let Ok(cookie) = site.access.logins.end_login(headers, client.secure) {
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

fn redirect_to(path: &str) -> Response<Body> {
    let builder = Response::builder()
        .status(StatusCode::SEE_OTHER)
        .header(header::LOCATION, path)
        .header(header::CACHE_CONTROL, "no-store");
    builder.body(Body::empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_to_another_site() {
        for path in ["/", "/core/sessions?branch=a%2Fb"] {
            assert!(is_site_path(path), "{path}");
        }
        for path in ["//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nb", ""] {
            assert!(!is_site_path(path), "{path}");
        }
    }
}
