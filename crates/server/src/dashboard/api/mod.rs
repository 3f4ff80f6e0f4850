//! Implements the HTTP API for programs, below `/api/v1/`. Programs upload sessions and read
//! results.
//!
//! The table in `routes.rs` defines the endpoints and their permissions. The OpenAPI document is
//! generated from the table. Version 1 of the API is only ever extended. Responses are JSON (a
//! session is JSON Lines), and errors are [`error::ApiError`]s. Start at [`router`].

mod check;
mod data;
mod error;
mod openapi;
mod request;
mod route;
mod routes;
mod sessions;
mod writers;

use crate::dashboard::access;
use crate::dashboard::site::{HEAVY_TIMEOUTS, SiteState};
use crate::http::ClientInfo;
use crate::http::blocking::{BlockingPool, QUEUE_LENGTH};
use crate::http::etag::with_etag;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{Method, Response};
use axum::routing::any;
use error::ApiError;
use request::ApiRequest;
use std::sync::Arc;
use writers::WriterPool;

/// Threads for API requests. Most of the work is parsing sessions. Writes are serialized per
/// project.
const API_THREADS: usize = 4;

/// Maximum bytes of a decompressed body.
const MAX_BODY_BYTES: usize = 64 << 20;

#[derive(Debug)]
struct ApiState {
    site: Arc<SiteState>,
    writers: WriterPool,
    pool: BlockingPool,
}

/// Returns the router of the API.
///
/// # Errors
/// Fails if the system cannot start threads.
pub fn router(site: Arc<SiteState>) -> anyhow::Result<Router> {
    let api = ApiState {
        site,
        writers: WriterPool::default(),
        pool: BlockingPool::new("api", API_THREADS, QUEUE_LENGTH)?,
    };
    let router = Router::new().route("/api/{*rest}", any(handle));
    Ok(router.with_state(Arc::new(api)))
}

async fn handle(
    State(api): State<Arc<ApiState>>,
    Extension(client): Extension<ClientInfo>,
    request: Request,
) -> Response<Body> {
    let (is_get, request_headers) = (request.method() == Method::GET, request.headers().clone());
    match route_request(api, client, request).await {
        Ok(response) if is_get => with_etag(&request_headers, response).await,
        Ok(response) => response,
        Err(problem) => problem.into_response(),
    }
}

async fn route_request(
    api: Arc<ApiState>,
    client: ClientInfo,
    request: Request,
) -> Result<Response<Body>, ApiError> {
    let (parts, body) = request.into_parts();
    let (route, names) = routes::find_route(&parts.method, parts.uri.path())?;
    let (api_pool, heavy) = (api.pool.clone(), api.site.heavy.clone());
    // Reject unauthorized callers before reading the body.
    let caller = {
        let (api, headers, names) = (api.clone(), parts.headers.clone(), names.clone());
        let client = client.clone();
        let identify = move || {
            let caller = access::identify_caller(&api.site, &headers, &client)?;
            let permitted =
                caller.ensure_permitted(route.permission, names.first().map(String::as_str));
            permitted.map(|()| caller)
        };
        api_pool.run(identify).await??
    };
    let permit = if route.is_heavy {
        Some(api.site.client_limiter.acquire_permit(&caller.limiter_key(&client)).await?)
    } else {
        None
    };
    let body = to_bytes(body, MAX_BODY_BYTES)
        .await
        .map_err(|_| ApiError::bad_request("cannot read the body"))?;
    let work = move || {
        let call = ApiRequest {
            site: &api.site,
            writers: &api.writers,
            names: &names,
            query: parts.uri.query().unwrap_or_default(),
            body: &body,
            caller: &caller,
        };
        let response = (route.handler)(&call);
        drop(permit);
        response
    };
    if route.is_heavy {
        return heavy.run_within(HEAVY_TIMEOUTS, work).await?;
    }
    api_pool.run(work).await?
}
