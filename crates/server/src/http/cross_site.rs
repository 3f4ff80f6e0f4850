//! Rejects requests that another site's page triggers in the user's browser. Links that the user
//! follows are allowed.
//!
//! Browsers report the source of a request (`Sec-Fetch-Site`, Fetch Metadata; `Origin`, RFC 6454),
//! and pages cannot forge these fields. Programs other than browsers send neither field, but they
//! have no cookies that a page could abuse. The CORS layer of tower-http does the opposite: it
//! grants access to other sites.

use crate::http::client::ClientInfo;
use crate::http::http_error::HttpError;
use axum::http::header::{COOKIE, HeaderMap, ORIGIN};
use axum::http::{Method, StatusCode};

/// Returns the reason to reject this request, if there is one.
pub(crate) fn cross_site_error(
    method: &Method,
    headers: &HeaderMap,
    client: &ClientInfo,
) -> Option<HttpError> {
    let is_same_site = match fetch_site(headers) {
        FetchSite::Same => true,
        FetchSite::Other => false,
        FetchSite::Missing => match origin_header(headers) {
            Some(origin) => origin == client.origin,
            // Programs and very old browsers send neither field. Only browsers have cookies that a
            // page could abuse, so a request without a cookie is safe.
            None => method.is_safe() || !headers.contains_key(COOKIE),
        },
    };
    // A form on a page with `Referrer-Policy: no-referrer` has the origin null. `Sec-Fetch-Site`,
    // which pages cannot set, tells whether that page is ours.
    let is_same_origin = matches!(fetch_site(headers), FetchSite::Same);
    let has_own_origin = origin_header(headers)
        .is_none_or(|origin| origin == client.origin || (origin == "null" && is_same_origin));
    let is_rejected = if method.is_safe() {
        !is_same_site && !is_navigation(headers)
    } else {
        !is_same_site || !has_own_origin
    };
    is_rejected.then(|| {
        HttpError::new(StatusCode::FORBIDDEN, "the request was sent by a page of another site")
            .with_hint(format!("open {} and retry from there", client.origin))
    })
}

enum FetchSite {
    Same,
    Other,
    Missing,
}

fn fetch_site(headers: &HeaderMap) -> FetchSite {
    match headers.get("sec-fetch-site").map(|value| value.as_bytes()) {
        None => FetchSite::Missing,
        // "none" means that the user typed the address or opened a bookmark.
        Some(b"same-origin" | b"none") => FetchSite::Same,
        Some(_) => FetchSite::Other,
    }
}

/// Returns the `Origin` field; repeated fields count as a wrong origin.
fn origin_header(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(ORIGIN).iter();
    let first = values.next()?;
    match (first.to_str(), values.next()) {
        (Ok(origin), None) => Some(origin),
        _ => Some("invalid"),
    }
}

/// Whether the user followed a link, the only kind of request that other sites may cause. A request
/// that has an `Origin`, but no `Sec-Fetch-Mode`, comes from a script or a form.
fn is_navigation(headers: &HeaderMap) -> bool {
    let has_value =
        |name: &str, value: &str| headers.get(name).is_some_and(|actual| actual == value);
    has_value("sec-fetch-mode", "navigate") && has_value("sec-fetch-dest", "document")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    fn is_refused(method: &Method, lines: &[(&'static str, &str)]) -> bool {
        let client = ClientInfo {
            address: None,
            secure: false,
            origin: "http://127.0.0.1:7600".to_owned(),
            login: Default::default(),
        };
        let pair = |(name, value): &(&'static str, &str)| {
            (HeaderName::from_static(name), value.parse().unwrap())
        };
        let headers = lines.iter().map(pair).collect();
        cross_site_error(method, &headers, &client).is_some()
    }

    const OURS: (&str, &str) = ("origin", "http://127.0.0.1:7600");

    #[test]
    fn changes_are_accepted_only_from_own_pages_or_from_programs() {
        let allowed = |lines: &[(&'static str, &str)]| !is_refused(&Method::POST, lines);
        assert!(allowed(&[]));
        assert!(allowed(&[OURS]));
        assert!(allowed(&[OURS, ("sec-fetch-site", "same-origin"), ("cookie", "a=b")]));
        assert!(allowed(&[
            ("origin", "null"),
            ("sec-fetch-site", "same-origin"),
            ("cookie", "a=b")
        ]));
        for lines in [
            &[("origin", "http://evil.example")][..],
            &[("origin", "null")],
            &[("origin", "https://127.0.0.1:7600")],
            &[("origin", "http://127.0.0.1:7601")],
            &[OURS, ("sec-fetch-site", "cross-site")],
            &[OURS, ("sec-fetch-site", "same-site")],
            &[("sec-fetch-site", "cross-site")],
            &[("sec-fetch-site", "something new")],
            &[("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
            &[("cookie", "speedwell=stolen")],
        ] {
            for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
                assert!(is_refused(&method, lines), "{method} {lines:?}");
            }
        }
    }

    #[test]
    fn other_sites_may_link_to_pages_but_not_embed_or_fetch_them() {
        let allowed = |lines: &[(&'static str, &str)]| !is_refused(&Method::GET, lines);
        let other = ("sec-fetch-site", "cross-site");
        let visit = [other, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
        assert!(allowed(&[]));
        assert!(allowed(&visit));
        assert!(allowed(&[("cookie", "a=b")]));
        for (mode, kind) in [
            ("no-cors", "image"),
            ("no-cors", "script"),
            ("cors", "empty"),
            ("navigate", "iframe"),
            ("navigate", "object"),
        ] {
            assert!(!allowed(&[other, ("sec-fetch-mode", mode), ("sec-fetch-dest", kind)]));
        }
        assert!(!allowed(&[("origin", "http://evil.example")]));
    }
}
