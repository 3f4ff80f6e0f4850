//! What is being measured, sent to those who watch, as events.

use crate::refusal::Refusal;
use crate::site::Site;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use std::sync::Arc;

/// Those who watch.
#[derive(Debug, Default)]
pub struct Watchers;

/// The stream of events of a session.
pub async fn stream(_site: Arc<Site>, _id: String) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::NOT_FOUND;
    let _ = Refusal::busy();
    answer
}
