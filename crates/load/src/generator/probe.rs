//! Sends one request before the load and returns the complete response.

use super::LoadStartError;
use super::clock::{LoadClock, NEVER};
use super::recorder::{RequestRecorder, TotalsMailbox};
use super::worker::LoadWorker;
use super::worker_core::{ConnectionFacts, TlsFacts, WorkerCore};
use crate::generator;
use crate::load::{CertificateRefusal, LoadConfig, LoadShare, ServerAddress};
use crate::pace::{ClosedPace, PacingModel, StopCondition, ThinkTime};
use speedwell_model::load::latency::RequestOutcome;
use speedwell_model::load::measurement::RequestRecord;
use speedwell_model::load::outcomes::ErrorClass;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResponse {
    /// Address connected to.
    pub address: ServerAddress,
    /// Negotiated TLS parameters.
    pub tls: Option<TlsFacts>,
    /// Status code.
    pub status: u16,
    /// Value of the `Server` header.
    pub server: Option<String>,
    /// Value of the `Content-Type` header.
    pub content_type: Option<String>,
    /// Value of the `Location` header.
    pub location: Option<String>,
    /// Beginning of the body.
    pub body: Vec<u8>,
    /// Length of the body in bytes.
    pub body_bytes: u64,
    /// Length of the whole response in bytes; with HTTP/3, where only the body's length is known,
    /// the same as `body_bytes`.
    pub wire_bytes: u64,
    /// Whether the connection can be reused.
    pub is_reusable: bool,
    /// Time to connect, in nanoseconds.
    pub connect_ns: u64,
    /// Time from sending the request to the last byte of the response, in nanoseconds.
    pub service_ns: u64,
    /// Whether the response counts as success.
    pub is_success: bool,
}

/// Why there is no complete response.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nothing could be sent.
    #[error(transparent)]
    Start(#[from] LoadStartError),
    /// The request failed.
    #[error("{}", .0.description())]
    Failed(ErrorClass),
    /// The server's certificate was rejected.
    #[error("the server's certificate was rejected: {0}")]
    Certificate(CertificateRefusal),
    /// The probe was interrupted.
    #[error("interrupted")]
    Interrupted,
}

/// Sends the first request of a load once, on its own connection.
///
/// # Errors
/// Fails if there is no complete response.
pub fn send_probe(load: &LoadConfig, stop: &AtomicBool) -> Result<ProbeResponse, ProbeError> {
    generator::validate_load(load)?;
    let load = single_request(load);
    let (tls, source) = (generator::tls_parameters(&load)?, generator::request_source(&load)?);
    let (mailbox, end_ns) = (TotalsMailbox::new(true), AtomicU64::new(NEVER));
    let recorder = RequestRecorder::new(&load, NEVER);
    let clock = LoadClock::start(speedwell_model::clock::WaitClock::REAL);
    let mut core = WorkerCore::new(&load, &source, tls, recorder, clock, LoadShare::ONLY)
        .map_err(LoadStartError::from_wait_error)?;
    core.facts = Some(ConnectionFacts::default());
    let mut worker = LoadWorker::new(core, &mailbox, stop, &end_ns);
    let end = worker.send_all().map_err(LoadStartError::from_wait_error)?;
    #[cfg(feature = "http3")]
    worker.close_quic();
    let row = worker.core.recorder.rows.first().copied();
    let Some(row) = row.filter(|_| !end.is_interrupted) else {
        return Err(ProbeError::Interrupted);
    };
    match row.outcome {
        RequestOutcome::Ok | RequestOutcome::Failed(ErrorClass::Status | ErrorClass::Assertion) => {
        }
        RequestOutcome::Failed(class) => return Err(explain_failure(class, &worker)),
        _ => return Err(ProbeError::Interrupted),
    }
    Ok(build_response(&worker, &row))
}

/// Explains why the request failed: by the error class or, if the certificate was rejected, by the
/// reason for the rejection.
fn explain_failure(class: ErrorClass, worker: &LoadWorker) -> ProbeError {
    let tls = worker.core.tls.as_ref();
    let refusal = tls.filter(|_| class == ErrorClass::TlsVerify);
    match refusal.and_then(|tls| tls.last_refusal.take()) {
        Some(refusal) => ProbeError::Certificate(refusal),
        None => ProbeError::Failed(class),
    }
}

/// Reduces a load to one request on one connection.
fn single_request(load: &LoadConfig) -> LoadConfig {
    LoadConfig {
        pace: PacingModel::Closed(ClosedPace { concurrency: 1, think: ThinkTime::None }),
        stop: StopCondition { after_requests: Some(1), after_ns: None },
        steady: None,
        streams_per_connection: 1,
        warmup_ns: 0,
        drain_ns: NEVER,
        threads: 1,
        part: LoadShare::ONLY,
        keeps_rows: true,
        ..load.clone()
    }
}

fn build_response(worker: &LoadWorker, row: &RequestRecord) -> ProbeResponse {
    let connection = worker.connections.first();
    let watch = connection.and_then(|connection| connection.protocol.response_watch());
    let field = |name: &str| {
        let value = watch.and_then(|watch| watch.value(name))?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    let core = &worker.core;
    let facts = core.facts.clone().unwrap_or_default();
    let [server, content_type, location] = ConnectionFacts::FIELDS;
    ProbeResponse {
        address: core.load.target.addresses[0].clone(),
        tls: facts.tls,
        status: row.status,
        server: field(server),
        content_type: field(content_type),
        location: field(location),
        body: watch.map_or(Vec::new(), |watch| watch.body().to_vec()),
        body_bytes: row.body_bytes,
        wire_bytes: row.wire_bytes,
        is_reusable: core.recorder.last.reusable,
        connect_ns: facts.connect_ns,
        service_ns: row.end_ns - row.sent_ns.unwrap_or(row.end_ns),
        is_success: row.outcome == RequestOutcome::Ok,
    }
}
