//! Answers that are sent again only if they have changed (RFC 9110, 8.8.3 and 13.1.2).
//!
//! Tags are weak: the same answer may travel packed or not.

use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::{ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Context, SHA256};

/// What an answer is made of, as a short text: equal texts, equal answers.
///
/// ```
/// use axum::http::HeaderMap;
/// use axum::http::header::{ETAG, IF_NONE_MATCH};
/// use speedwell_serve::etag::Tag;
///
/// let tag = Tag::of(["sessions", "data version 12"]);
/// let first = tag.answer(&HeaderMap::new(), || "drawn only if the client does not have it");
/// assert_eq!(first.status(), 200);
///
/// let asked = HeaderMap::from_iter([(IF_NONE_MATCH, first.headers()[ETAG].clone())]);
/// assert_eq!(tag.answer(&asked, || "not drawn again").status(), 304);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag(String);

impl Tag {
    /// A tag of these parts. Their lengths count, so that no two lists of parts have the same tag.
    pub fn of<P: AsRef<[u8]>>(parts: impl IntoIterator<Item = P>) -> Tag {
        let mut context = Context::new(&SHA256);
        for part in parts {
            let part = part.as_ref();
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let digest = context.finish();
        Tag(format!(
            "W/\"{}\"",
            URL_SAFE_NO_PAD.encode(&digest.as_ref()[..16])
        ))
    }

    /// Whether the client says that it has this answer already.
    pub fn is_known_to(&self, asked: &HeaderMap) -> bool {
        let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        let own = opaque(&self.0);
        asked.get_all(IF_NONE_MATCH).iter().any(|value| {
            value.to_str().is_ok_and(|value| {
                value.trim() == "*" || value.split(',').any(|tag| opaque(tag) == own)
            })
        })
    }

    /// 304 if the client has the answer, else the answer, which is made only then.
    pub fn answer<A: IntoResponse>(&self, asked: &HeaderMap, make: impl FnOnce() -> A) -> Response {
        if self.is_known_to(asked) {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return self.on(response);
        }
        let response = make().into_response();
        if response.status() == StatusCode::OK {
            self.on(response)
        } else {
            response
        }
    }

    /// The answer with this tag.
    pub fn on(&self, mut response: Response) -> Response {
        // Base64 and quotes are characters of header fields.
        if let Ok(value) = HeaderValue::from_str(&self.0) {
            response.headers_mut().insert(ETAG, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, value.parse().unwrap())])
    }

    #[test]
    fn a_client_may_name_several_answers_that_it_has() {
        let tag = Tag::of(["a"]);
        let own = tag.0.clone();
        assert!(tag.is_known_to(&asking(&own)));
        assert!(tag.is_known_to(&asking(own.trim_start_matches("W/"))));
        assert!(tag.is_known_to(&asking(&format!("\"x\", {own}"))));
        assert!(tag.is_known_to(&asking("*")));
        assert!(!tag.is_known_to(&asking("\"x\"")));
        assert!(!tag.is_known_to(&HeaderMap::new()));
    }

    #[test]
    fn where_one_part_ends_counts() {
        assert_ne!(Tag::of(["ab", "c"]), Tag::of(["a", "bc"]));
        assert_eq!(Tag::of(["ab", "c"]), Tag::of(["ab", "c"]));
    }

    #[test]
    fn failures_have_no_tag() {
        let answer = Tag::of(["a"]).answer(&HeaderMap::new(), || StatusCode::NOT_FOUND);
        assert!(!answer.headers().contains_key(ETAG));
    }
}
