//! Handles forms: login, logout, and judging changes. Judging needs a permission; all are recorded
//! in the audit log.
//!
//! `serve` has already checked that the form comes from one of our pages. Start at [`change`].

use crate::access::{self, Caller, Need};
use crate::address::{Address, Format, Place};
use crate::answer::{rendered, reply};
use crate::frame::Around;
use crate::link::encoded;
use crate::page::Page;
use crate::query::Query;
use crate::refusal::Refusal;
use crate::site::{Site, unix_ms};
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use speedwell_model::{Change, Judgement, check_note};
use speedwell_report::html::{Field, Form};
use speedwell_report::{Block, Document};
use speedwell_results::store::Store;
use speedwell_serve::Client;
use speedwell_serve::token::{Presented, Token, bearer};
use std::time::Instant;

/// Applies a form and redirects to its result.
///
/// # Errors
/// If the caller lacks the permission, or the form is invalid.
pub fn change(
    site: &Site,
    client: &Client,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response<Body>, Refusal> {
    let form = std::str::from_utf8(body).map_err(|_| Refusal::bad("the form is no text"))?;
    let form = Query::parse(form)?;
    match uri.path() {
        "/login" => {
            let query = Query::parse(uri.query().unwrap_or_default())?;
            return log_in(site, client, &form, &query);
        }
        "/logout" => return log_out(site, client, headers),
        _ => {}
    }
    let caller = access::caller(site, headers, client)?;
    let address = Address::parse(uri.path())?;
    let name = address.project().unwrap_or_default();
    let place = address.readings(name)?.into_iter().next();
    match place {
        Some((Place::Alerts, Format::Page)) => judge(site, &caller, name, &form),
        _ => Err(Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            ..Refusal::bad("nothing is changed at this address")
        }),
    }
}

/// Stores the judgement of a change.
fn judge(
    site: &Site,
    caller: &Caller,
    project: &str,
    form: &Query,
) -> Result<Response<Body>, Refusal> {
    form.check(&["change", "judgement", "note", "branch"])?;
    let subject = format!(
        "change {}: {}",
        form.get("change").unwrap_or_default(),
        form.get("judgement").unwrap_or_default()
    );
    if let Err(refusal) = caller.ensure_may(Need::Judge, Some(project)) {
        site.note(caller, Some(project), "judge", &subject, "refused");
        return Err(refusal.into());
    }
    let number = form
        .number("change")?
        .ok_or_else(|| Refusal::bad("no change was chosen"))?;
    let known = [
        Judgement::Open,
        Judgement::Accepted,
        Judgement::Wrong,
        Judgement::Fixed,
    ];
    let wanted = form.get("judgement").unwrap_or_default();
    let judgement = known.into_iter().find(|known| known.to_string() == wanted);
    let judgement = judgement.ok_or_else(|| {
        Refusal::bad(format!("'{wanted}' is no judgement"))
            .hint("it is open, accepted, wrong or fixed")
    })?;
    check_note(form.get("note").unwrap_or_default())
        .map_err(|error| Refusal::of(StatusCode::BAD_REQUEST, &error))?;
    let project = site.project(project)?;
    let mut store = Store::open(project.path())?;
    let found = store.change_numbered(number);
    let found = found.map_err(|error| Refusal::of(StatusCode::NOT_FOUND, &error))?;
    store.judge(&Change {
        judgement,
        note: form.get("note").map(str::to_owned).or(found.change.note),
        judged_by: Some(caller.name.clone()),
        judged_unix_ms: Some(unix_ms()),
        ..found.change
    })?;
    site.note(caller, Some(&project.name), "judge", &subject, "done");
    let branch = form.get("branch").map(encoded);
    let query = branch.map_or_else(String::new, |branch| format!("?branch={branch}"));
    Ok(seen_at(&format!("/{}/alerts{query}", project.name)))
}

/// Builds the form for judging changes and taking judgements back. `changes` are numbers with
/// descriptions.
pub fn judge_form(action: String, changes: Vec<(String, String)>, branch: Option<&str>) -> Form {
    let judgements = [
        ("accepted", "accepted: meant, or worth its price"),
        ("wrong", "wrong: it is none"),
        ("fixed", "fixed: undone"),
        ("open", "open: nothing yet, or no longer"),
    ];
    let judgements = judgements.map(|(value, words)| (value.to_owned(), words.to_owned()));
    let mut fields = vec![
        Field {
            name: "change",
            label: "change".into(),
            options: changes,
            ..Field::default()
        },
        Field {
            name: "judgement",
            label: "it is".into(),
            options: judgements.into(),
            ..Field::default()
        },
        Field {
            name: "note",
            label: "because".into(),
            placeholder: "why".into(),
            ..Field::default()
        },
    ];
    if let Some(branch) = branch {
        fields.push(Field {
            name: "branch",
            label: "branch".into(),
            options: vec![(branch.to_owned(), branch.to_owned())],
            ..Field::default()
        });
    }
    Form {
        action,
        title: "Judge a change".into(),
        button: "Keep".into(),
        fields,
        set: Vec::new(),
    }
}

/// Renders the login page; logs in at once if the address contains the startup key.
pub fn login_page(site: &Site, client: &Client, uri: &Uri) -> Response<Body> {
    let query = Query::parse(uri.query().unwrap_or_default()).unwrap_or_default();
    if let Some(key) = query.get("key") {
        let logged_in = with_word(site, client, key);
        return match logged_in {
            Ok(caller) => welcome(site, client, &caller, "/"),
            Err(refusal) => login_form(site, &query, Some(&refusal)),
        };
    }
    login_form(site, &query, None)
}

fn login_form(site: &Site, query: &Query, refusal: Option<&Refusal>) -> Response<Body> {
    let mut document = Document::new("login");
    document.push(Block::Headline("Log in".into()));
    if let Some(refusal) = refusal {
        document.push(Block::Note(format!("{}.", refusal.words)));
        document.extend(refusal.hints.iter().cloned().map(Block::Paragraph));
    }
    document.push(Block::Paragraph(
        "A token is made by 'speedwell serve token add'. A server of one machine prints a key at its start instead, \
         which works once."
            .into(),
    ));
    let to = query.get("to").filter(|path| is_own(path)).unwrap_or("/");
    let form = Form {
        action: format!("/login?to={}", encoded(to)),
        title: "Token or key".into(),
        button: "Log in".into(),
        fields: vec![Field {
            name: "token",
            label: "token or key".into(),
            is_secret: true,
            ..Field::default()
        }],
        set: Vec::new(),
    };
    let page = Page {
        changes: vec![form],
        status: refusal.map_or(StatusCode::OK, |refusal| refusal.status),
        ..Page::of(document)
    };
    let around = Around {
        site,
        project: &site.first,
        caller: &Caller::default(),
    };
    let nothing = Query::default();
    let bytes = rendered(&around, None, &page, Format::Page, "/login", &nothing);
    let mut answer = reply(page.status, Format::Page, "", bytes.unwrap_or_default());
    let never = HeaderValue::from_static("no-store");
    answer.headers_mut().insert(header::CACHE_CONTROL, never);
    answer
}

/// Logs in a caller that sends a token or the key.
fn log_in(
    site: &Site,
    client: &Client,
    form: &Query,
    query: &Query,
) -> Result<Response<Body>, Refusal> {
    let word = form.get("token").unwrap_or_default();
    match with_word(site, client, word) {
        Ok(caller) => {
            let to = query.get("to").filter(|path| is_own(path));
            Ok(welcome(site, client, &caller, to.unwrap_or("/")))
        }
        Err(refusal) => Ok(login_form(site, query, Some(&refusal))),
    }
}

/// Identifies the caller by a token or the startup key.
fn with_word(site: &Site, client: &Client, word: &str) -> Result<Caller, Refusal> {
    site.access.failures.check(client.address, Instant::now())?;
    if let Some(token) = Token::parse(word) {
        return Ok(access::by_token(site, client, &token)?);
    }
    if site.access.redeem(word) {
        return Ok(Caller::with_key());
    }
    Err(access::failed(site, client, None).into())
}

/// Sets the login cookie and redirects.
fn welcome(site: &Site, client: &Client, caller: &Caller, to: &str) -> Response<Body> {
    let mut known = caller.clone();
    known.address = client.address;
    site.note(&known, None, "login", "", "done");
    let mut answer = seen_at(to);
    let begun = site
        .access
        .logins
        .begin(known, client.secure, Instant::now());
    if let Ok(cookie) = begun {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

fn log_out(site: &Site, client: &Client, headers: &HeaderMap) -> Result<Response<Body>, Refusal> {
    if matches!(bearer(headers), Presented::None) {
        let caller = access::caller(site, headers, client)?;
        if caller.is_known() {
            site.note(&caller, None, "logout", "", "done");
        }
    }
    let mut answer = seen_at("/");
    if let Ok(cookie) = site.access.logins.end(headers, client.secure) {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(answer)
}

/// Redirects to the login page, which leads back afterwards.
pub fn to_login(uri: &Uri) -> Response<Body> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    seen_at(&format!("/login?to={}", encoded(path)))
}

/// Whether a path is on this site, not on another.
fn is_own(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//")
        && path
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && byte != b'\\')
}

fn seen_at(path: &str) -> Response<Body> {
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
            assert!(is_own(path), "{path}");
        }
        for path in [
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nb",
            "",
        ] {
            assert!(!is_own(path), "{path}");
        }
    }
}
