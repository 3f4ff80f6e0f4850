//! What programs ask of the server, below `/api/v1/`: sessions come in here, and figures go out.
//!
//! Decides which addresses there are and who may ask what; `routes.rs` is the table of them, of which the OpenAPI document
//! is made. v1 only grows. Answers are JSON, refusals are [`problem::Problem`]s. Start at [`router`].

mod call;
mod check;
mod openapi;
mod problem;
mod routes;
mod sessions;
mod writers;

pub use routes::{Need, ROUTES, Route};

use crate::access::{self, Caller};
use crate::site::Site;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::routing::any;
use call::Call;
use problem::Problem;
use speedwell_serve::Client;
use speedwell_serve::blocking::{Pool, QUEUE};
use std::sync::Arc;
use writers::Writers;

/// Threads that take sessions in: reading them is the work, writing them happens one after the other.
const THREADS: usize = 4;

/// Bytes of a body, unpacked.
const BODY: usize = 64 << 20;

/// The API of a site.
#[derive(Debug)]
struct Api {
    site: Arc<Site>,
    writers: Writers,
    pool: Pool,
}

/// All of it.
///
/// # Errors
/// The system gives no more threads.
pub fn router(site: Arc<Site>) -> anyhow::Result<Router> {
    let api = Api {
        site,
        writers: Writers::default(),
        pool: Pool::new("api", THREADS, QUEUE)?,
    };
    let handler = any(handle);
    Ok(Router::new()
        .route("/api/{*rest}", handler)
        .with_state(Arc::new(api)))
}

async fn handle(
    State(api): State<Arc<Api>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response<Body> {
    answered(api, client, request)
        .await
        .unwrap_or_else(Problem::answer)
}

async fn answered(
    api: Arc<Api>,
    client: Client,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let (parts, body) = request.into_parts();
    let (route, names) = found(&parts.method, parts.uri.path())?;
    let caller = access::caller(&api.site, &parts.headers, &client).await?;
    // Who may not ask is told before anything is read of what he sends.
    let body = match permitted(&caller, route, names.first()) {
        Ok(()) => axum::body::to_bytes(body, BODY).await,
        Err(problem) => return Err(problem),
    };
    let body: Bytes = body.map_err(|_| Problem::bad("the body cannot be read").too_large())?;
    let work = move || {
        let call = Call {
            site: &api.site,
            writers: &api.writers,
            names: &names,
            query: parts.uri.query().unwrap_or_default(),
            body: &body,
            caller: &caller,
            client: &client,
        };
        (route.answer)(&call)
    };
    let pool = api_pool(&api);
    pool.run(work).await?.map(|reply| reply.answer())
}
