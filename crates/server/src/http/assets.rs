//! Avoids sending content that a browser already has. Serves static files that are compiled into
//! the program. Sends the body of any other response only if the browser does not have it yet
//! ([`with_etag`]).
//!
//! The name of a file contains a digest of its content. A name therefore always refers to the same
//! content, and browsers may cache a file forever. Request paths are only looked up in the table,
//! and never reach the file system.
//!
//! The tags of other responses (RFC 9110, 8.8.3 and 13.1.2) are weak, because the same response may
//! be sent compressed or not. They are computed from the body: pages are rendered for each caller
//! and have no date. Layers of tower-http support conditional requests for files only.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::{Body as _, Bytes};
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::sync::Arc;

/// Table of static files.
///
/// ```
/// use speedwell_server::http::assets::AssetTable;
///
/// let mut assets = AssetTable::default();
/// let path = assets.add_file("style.css", "text/css", b"body { margin: 0 }");
/// assert!(path.starts_with("/static/style."));
/// let router: axum::Router = assets.router();
/// ```
#[derive(Debug, Clone, Default)]
pub struct AssetTable {
    /// Maps request paths to media types and contents.
    files: HashMap<String, (&'static str, Bytes)>,
}

impl AssetTable {
    /// Adds a file. Returns the path under which it is served, for links in pages.
    pub fn add_file(&mut self, name: &str, mime: &'static str, bytes: &'static [u8]) -> String {
        let path = format!("/static/{}", hashed_name(name, bytes));
        self.files.insert(path.clone(), (mime, Bytes::from_static(bytes)));
        path
    }

    /// Returns a router that serves the files.
    pub fn router(&self) -> Router {
        let assets = Arc::new(self.clone());
        let handler = get(move |uri: Uri| async move { assets.serve_file(&uri) });
        Router::new().route("/static/{*path}", handler)
    }

    fn serve_file(&self, uri: &Uri) -> Response {
        let Some((mime, bytes)) = self.files.get(uri.path()) else {
            return StatusCode::NOT_FOUND.into_response();
        };
        let headers = [
            (CONTENT_TYPE, *mime),
            (CACHE_CONTROL, "public, max-age=31536000, immutable"),
            (ACCEPT_RANGES, "none"),
        ];
        (headers, bytes.clone()).into_response()
    }
}

/// Turns `style.css` into `style.0123456789abcdef.css`.
fn hashed_name(name: &str, bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    let hex: String = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    match name.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}.{hex}.{extension}"),
        None => format!("{name}.{hex}"),
    }
}

/// Adds a tag to the response, and drops the body if the client has it. Leaves a response unchanged
/// if its status is not 200, if it already has a tag, or if the length of its body is unknown.
///
/// ```
/// use axum::http::HeaderMap;
/// use axum::http::header::{ETAG, IF_NONE_MATCH};
/// use axum::response::IntoResponse;
/// use speedwell_server::http::assets::with_etag;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # runtime.block_on(async {
/// let first = with_etag(&HeaderMap::new(), "a page".into_response()).await;
/// assert_eq!(first.status(), 200);
///
/// let asked = HeaderMap::from_iter([(IF_NONE_MATCH, first.headers()[ETAG].clone())]);
/// assert_eq!(with_etag(&asked, "a page".into_response()).await.status(), 304);
/// assert_eq!(with_etag(&asked, "another one".into_response()).await.status(), 200);
/// # });
/// ```
pub async fn with_etag(request_headers: &HeaderMap, response: Response) -> Response {
    let has_length = response.body().size_hint().exact().is_some();
    if response.status() != StatusCode::OK || !has_length || response.headers().contains_key(ETAG) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // A body of known length is complete in memory, so reading it neither waits nor fails.
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let tag = entity_tag(&bytes);
    // This cannot fail: Base64 and quotes are valid in header values.
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(ETAG, value);
    }
    if !has_tag(request_headers, &tag) {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.status = StatusCode::NOT_MODIFIED;
    for body_header in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_DISPOSITION] {
        parts.headers.remove(body_header);
    }
    Response::from_parts(parts, Body::empty())
}

/// Returns the tag of a response with this body.
fn entity_tag(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]))
}

/// Whether the client has the response with this tag.
fn has_tag(request_headers: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let own_tag = opaque(tag);
    request_headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        value.to_str().is_ok_and(|value| {
            value.trim() == "*" || value.split(',').any(|tag| opaque(tag) == own_tag)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::FramePoll;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    #[test]
    fn asset_names_change_with_their_content() {
        let path =
            |content: &'static [u8]| AssetTable::default().add_file("a.b.css", "text/css", content);
        assert_ne!(path(b"one"), path(b"two"));
        assert_eq!(path(b"one"), path(b"one"));
        assert_eq!(path(b""), "/static/a.b.e3b0c44298fc1c14.css");
    }

    fn if_none_match(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, value.parse().unwrap())])
    }

    #[test]
    fn an_etag_is_matched_against_all_those_named_in_the_request() {
        let tag = entity_tag(b"a");
        let is_known = |value: &str| has_tag(&if_none_match(value), &tag);
        assert!(is_known(&tag));
        assert!(is_known(tag.trim_start_matches("W/")));
        assert!(is_known(&format!("\"x\", {tag}")));
        assert!(is_known("*"));
        assert!(!is_known("\"x\""));
        assert!(!has_tag(&HeaderMap::new(), &tag));
    }

    #[tokio::test]
    async fn a_not_modified_response_has_a_tag_but_no_body() {
        let fields = [("content-type", "text/html"), ("cache-control", "private")];
        let known = with_etag(&if_none_match("*"), (fields, "a").into_response()).await;
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(known.headers()[ETAG], entity_tag(b"a").as_str());
        assert!(known.headers().contains_key("cache-control"));
        assert!(!known.headers().contains_key(CONTENT_TYPE));
        assert_eq!(known.body().size_hint().exact(), Some(0));
    }

    /// A body of unknown length.
    struct EndlessBody;

    impl hyper::body::Body for EndlessBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> FramePoll<Infallible> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn failures_and_streams_have_no_tag() {
        let failure = (StatusCode::NOT_FOUND, "none").into_response();
        let failure = with_etag(&if_none_match("*"), failure).await;
        assert_eq!(failure.status(), StatusCode::NOT_FOUND);
        let stream = with_etag(&if_none_match("*"), Response::new(Body::new(EndlessBody))).await;
        assert_eq!(stream.status(), StatusCode::OK);
        for answer in [failure, stream] {
            assert!(!answer.headers().contains_key(ETAG));
        }
    }
}
