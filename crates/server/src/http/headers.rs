//! Sets the security headers of every response.
//!
//! The headers make browsers enforce two rules. First, this server's pages load nothing from
//! elsewhere, run no inline code and cannot be framed. Second, other sites cannot read this
//! server's pages or keep references to their windows.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    SERVER, X_CONTENT_TYPE_OPTIONS,
};

/// Content security policy: pages load only this server's files, and pictures inlined in the page.
pub const CONTENT_SECURITY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
     frame-ancestors 'none'";

const FIXED_HEADERS: [(HeaderName, &str); 4] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Headers that a handler may override, for example for downloads and immutable files.
const DEFAULT_HEADERS: [(HeaderName, &str); 2] =
    [(CONTENT_SECURITY_POLICY, CONTENT_SECURITY), (CACHE_CONTROL, "private")];

/// Adds the required fields to a response, and removes the forbidden ones.
pub(crate) fn set_security_headers(headers: &mut HeaderMap) {
    for (name, value) in FIXED_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in DEFAULT_HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.remove(SERVER);
    for name in ["access-control-allow-origin", "access-control-allow-credentials"] {
        headers.remove(name);
    }
}
