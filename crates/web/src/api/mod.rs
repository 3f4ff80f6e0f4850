//! The HTTP API for programs, below `/api/v1/`: sessions go in, results come out.
//!
//! Decides which endpoints exist and which permission each needs. The table in `routes.rs` defines
//! them; the OpenAPI document is generated from it. v1 is only ever extended. Responses are JSON,
//! errors are [`problem::Problem`]s. Start at [`router`].

mod call;
mod check;
mod data;
mod openapi;
mod problem;
mod route;
mod routes;
mod sessions;
mod writers;

use crate::access;
use crate::site::{PATIENCE, Site};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{Method, Response};
use axum::routing::any;
use call::Call;
use problem::Problem;
use speedwell_serve::Client;
use speedwell_serve::blocking::{Pool, QUEUE};
use speedwell_serve::etag::unless_known;
use std::sync::Arc;
use writers::Writers;

/// Threads for API requests. Parsing sessions is the work; writes are serialized per project.
const THREADS: usize = 4;

/// Maximum bytes of a body, decompressed.
const BODY: usize = 64 << 20;

/// State of the API.
#[derive(Debug)]
struct Api {
    site: Arc<Site>,
    writers: Writers,
    pool: Pool,
}

/// Returns the router of the API.
///
/// # Errors
/// If the system cannot start threads.
pub fn router(site: Arc<Site>) -> anyhow::Result<Router> {
    let api = Api {
        site,
        writers: Writers::default(),
        pool: Pool::new("api", THREADS, QUEUE)?,
    };
    let router = Router::new().route("/api/{*rest}", any(handle));
    Ok(router.with_state(Arc::new(api)))
}

async fn handle(
    State(api): State<Arc<Api>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response<Body> {
    let (is_look, asked) = (request.method() == Method::GET, request.headers().clone());
    match answered(api, client, request).await {
        Ok(answer) if is_look => unless_known(&asked, answer).await,
        Ok(answer) => answer,
        Err(problem) => problem.answer(),
    }
}

async fn answered(
    api: Arc<Api>,
    client: Client,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (parts, body) = request.into_parts();
    let (route, names) = routes::found(&parts.method, parts.uri.path())?;
    let (api_pool, heavy) = (api.pool.clone(), api.site.heavy.clone());
    // Reject unauthorized callers before reading the body.
    let caller = {
        let (api, headers, names) = (api.clone(), parts.headers.clone(), names.clone());
        let client = client.clone();
        let ask = move || {
            let caller = access::caller(&api.site, &headers, &client)?;
            let allowed = caller.ensure_may(route.need, names.first().map(String::as_str));
            allowed.map(|()| caller)
        };
        api_pool.run(ask).await??
    };
    let share = if route.is_heavy {
        Some(api.site.shares.take(&caller.shares_as(&client)).await?)
    } else {
        None
    };
    let body = to_bytes(body, BODY).await;
    let body = body.map_err(|_| Problem::bad("the body cannot be read"))?;
    let work = move || {
        let call = Call {
            site: &api.site,
            writers: &api.writers,
            names: &names,
            query: parts.uri.query().unwrap_or_default(),
            body: &body,
            caller: &caller,
        };
        let answer = (route.answer)(&call);
        drop(share);
        answer
    };
    if route.is_heavy {
        return heavy.run_within(PATIENCE, work).await?;
    }
    api_pool.run(work).await?
}
