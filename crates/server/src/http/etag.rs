//! Sends a response body only if the client does not have it yet (RFC 9110, 8.8.3 and 13.1.2).
//! Start at [`with_etag`].
//!
//! Tags are weak, because the same response may be sent compressed or not. They are computed from
//! the body: pages are rendered for each caller and have no date. Layers of tower-http support
//! conditional requests for files only.

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::Body as _;
use ring::digest::{SHA256, digest};

/// Entity tag of a response: equal tags mean equal bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
struct EntityTag(String);

/// Adds a tag to the response, and drops the body if the client has it. Leaves a response unchanged
/// if its status is not 200, if it already has a tag, or if the length of its body is unknown.
///
/// ```
/// use axum::http::HeaderMap;
/// use axum::http::header::{ETAG, IF_NONE_MATCH};
/// use axum::response::IntoResponse;
/// use speedwell_server::http::etag::with_etag;
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
    let tag = EntityTag::of_bytes(&bytes);
    // This cannot fail: Base64 and quotes are valid in header values.
    if let Ok(value) = HeaderValue::from_str(&tag.0) {
        parts.headers.insert(ETAG, value);
    }
    if !tag.matches_request(request_headers) {
        return Response::from_parts(parts, Body::from(bytes));
    }
    parts.status = StatusCode::NOT_MODIFIED;
    for body_header in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_DISPOSITION] {
        parts.headers.remove(body_header);
    }
    Response::from_parts(parts, Body::empty())
}

impl EntityTag {
    /// Computes the tag of these bytes.
    fn of_bytes(bytes: &[u8]) -> EntityTag {
        let hash = digest(&SHA256, bytes);
        let short = URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]);
        EntityTag(format!("W/\"{short}\""))
    }

    /// Whether the client has this response.
    fn matches_request(&self, request_headers: &HeaderMap) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own_tag = opaque(&self.0);
        request_headers.get_all(IF_NONE_MATCH).iter().any(|value| {
            value.to_str().is_ok_and(|value| {
                value.trim() == "*" || value.split(',').any(|tag| opaque(tag) == own_tag)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Bytes;
    use axum::response::IntoResponse;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    fn if_none_match(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, value.parse().unwrap())])
    }

    #[test]
    fn an_etag_is_matched_against_all_those_named_in_the_request() {
        let tag = EntityTag::of_bytes(b"a");
        let own_tag = tag.0.clone();
        assert!(tag.matches_request(&if_none_match(&own_tag)));
        assert!(tag.matches_request(&if_none_match(own_tag.trim_start_matches("W/"))));
        assert!(tag.matches_request(&if_none_match(&format!("\"x\", {own_tag}"))));
        assert!(tag.matches_request(&if_none_match("*")));
        assert!(!tag.matches_request(&if_none_match("\"x\"")));
        assert!(!tag.matches_request(&HeaderMap::new()));
    }

    #[tokio::test]
    async fn a_not_modified_response_has_a_tag_but_no_body() {
        let fields = [("content-type", "text/html"), ("cache-control", "private")];
        let known = with_etag(&if_none_match("*"), (fields, "a").into_response()).await;
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(known.headers()[ETAG], EntityTag::of_bytes(b"a").0.as_str());
        assert!(known.headers().contains_key("cache-control"));
        assert!(!known.headers().contains_key(CONTENT_TYPE));
        assert_eq!(known.body().size_hint().exact(), Some(0));
    }

    /// A body of unknown length.
    struct EndlessBody;

    impl hyper::body::Body for EndlessBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
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
