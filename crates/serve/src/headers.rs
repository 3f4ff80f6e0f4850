//! The header fields that every answer has, whoever made it.
//!
//! A page of this server loads nothing from elsewhere and executes nothing that stands in the page itself; it cannot
//! be framed, and pages of other sites cannot read it or hold a window of it.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    SERVER, X_CONTENT_TYPE_OPTIONS,
};

/// What pages may load: own files, and pictures that stand in the page.
pub const CONTENT_SECURITY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

const ALWAYS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

/// What a handler may know better: a file to be saved, files that never change.
const UNLESS_SET: [(HeaderName, &str); 2] = [
    (CONTENT_SECURITY_POLICY, CONTENT_SECURITY),
    (CACHE_CONTROL, "private"),
];

/// Adds what every answer has, and removes what none has.
pub(crate) fn protect(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in UNLESS_SET {
        headers
            .entry(name)
            .or_insert(HeaderValue::from_static(value));
    }
    headers.remove(SERVER);
    for name in [
        "access-control-allow-origin",
        "access-control-allow-credentials",
    ] {
        headers.remove(name);
    }
}
