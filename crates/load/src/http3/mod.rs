//! Provides HTTP/3 to an event loop that drives many client connections in one thread.
//!
//! The protocols are implemented by `quinn` and `h3`. Their tasks run only during
//! [`H3Engine::run_until_event`]. The event loop calls this method instead of waiting for sockets,
//! and receives [`H3Event`]s from it. This module knows nothing about the timing or the purpose of
//! requests, and counts only traffic. Start at [`H3Engine`], then
//! [`H3Connection::send`].

mod engine;
mod event;
mod exchange;

pub use engine::H3Engine;
pub use event::{
    ConnectionEnd, EstablishedConnection, EventKind, H3Event, H3Response, RequestFailure,
    StreamEvent, StreamKey,
};
pub use exchange::{H3Request, RequestHandle};

use crate::http1::{MethodKind, ResponseWatch};
use bytes::Bytes;
use engine::{QuicSocket, RaceWinner, TrafficCounters, race_futures};
use event::{EventQueue, RequestSender, handshake_error_class, socket_error_class};
use exchange::RequestTask;
use h3::error::Code;
use h3::{ConnectionState, client};
use quinn::crypto::rustls::HandshakeData;
use quinn::{ClientConfig, Endpoint, EndpointConfig, TokioRuntime, VarInt};
use rustls::pki_types::CertificateDer;
use speedwell_model::load::outcomes::ErrorClass;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::yield_now;

// A connection has a handle and a task. The event loop holds the handle. The task opens the
// connection, drives it until it ends, and reports when requests can be sent and why they no longer
// can. Start at [`H3Engine::connect`] and [`H3Connection::send`], then read `ConnectionTask::run`.

type Driver = client::Connection<h3_quinn::Connection, Bytes>;

/// Maximum number of times that the task yields after the connection ends. Meanwhile, requests can
/// read data that has already arrived.
const MAX_DRAIN_YIELDS: u32 = 64;

/// Handle of a connection. Dropping it abandons the connection.
pub struct H3Connection {
    number: u64,
    sender: Option<RequestSender>,
    users: Arc<()>,
    _given_up: oneshot::Sender<()>,
}

impl H3Connection {
    /// Stores the sender from the connection's event [`EventKind::Established`].
    pub fn establish(&mut self, established: EstablishedConnection) {
        self.sender = Some(established.sender);
    }

    /// Whether the server has announced that it accepts no further requests.
    pub fn is_closing(&self) -> bool {
        self.sender.as_ref().is_some_and(ConnectionState::is_closing)
    }

    /// Sends a request. Its events carry `key`. If the response is inspected, its contents go
    /// into `watch`. Dropping the result cancels the request. Returns `None` until the connection is
    /// established.
    pub fn send(
        &self,
        engine: &mut H3Engine,
        key: StreamKey,
        request: &H3Request,
        watch: Option<ResponseWatch>,
    ) -> Option<RequestHandle> {
        let sender = self.sender.clone()?;
        // The receiver resolves when the handle is dropped.
        let (give_up, given_up) = oneshot::channel();
        let exchange = RequestTask {
            sender,
            head: request.head.clone(),
            body: request.body.clone(),
            expects_body: request.method == MethodKind::Body,
            watch,
            events: engine.events.clone(),
            connection: self.number,
            key,
            given_up,
            users: self.users.clone(),
        };
        engine.queue_task(exchange.run());
        Some(RequestHandle { _given_up: give_up })
    }
}

impl H3Engine {
    /// Starts connecting, from the address `local` if given. The connection's events carry
    /// `number`.
    pub fn connect(&mut self, to: SocketAddr, local: Option<IpAddr>, number: u64) -> H3Connection {
        let users = Arc::new(());
        let task = ConnectionTask {
            to,
            local,
            name: self.name.clone(),
            config: self.config.clone(),
            traffic: self.traffic.clone(),
            events: self.events.clone(),
            number,
            users: users.clone(),
        };
        // The receiver resolves when the handle is dropped.
        let (give_up, given_up) = oneshot::channel();
        self.queue_task(task.run(given_up));
        H3Connection { number, sender: None, users, _given_up: give_up }
    }
}

struct ConnectionTask {
    to: SocketAddr,
    local: Option<IpAddr>,
    /// Server name for the handshake.
    name: String,
    config: ClientConfig,
    traffic: Arc<TrafficCounters>,
    events: Arc<EventQueue>,
    number: u64,
    /// Counts the users of the connection: the event loop, this task and every request in flight
    /// hold a reference.
    users: Arc<()>,
}

/// Strong count of [`ConnectionTask::users`] when no request is in flight.
const IDLE_USERS: usize = 2;

type ConnectedParts = (quinn::Connection, Arc<QuicSocket>, Driver, EstablishedConnection);

impl ConnectionTask {
    /// Connects and drives the connection until it ends or the handle is dropped.
    async fn run(self, mut given_up: oneshot::Receiver<()>) {
        let connected = race_futures(self.connect(), &mut given_up).await;
        let (connection, datagrams, driver, established) = match connected {
            RaceWinner::First(Ok(parts)) => parts,
            RaceWinner::First(Err(error)) => {
                return self.report_event(EventKind::NotEstablished(error));
            }
            // The handle was dropped first. Returning drops the attempt to connect, which closes
            // the connection.
            RaceWinner::Second(_) => return,
        };
        self.report_event(EventKind::Established(Box::new(established)));
        let end = self.wait_for_end(&connection, driver, &datagrams);
        if let RaceWinner::First(ended) = race_futures(end, given_up).await {
            self.drain_requests().await;
            self.report_event(EventKind::Ended(ended));
        }
        // The conversion is lossless, because the code (0x100) has only 9 bits.
        connection.close(VarInt::from_u32(Code::H3_NO_ERROR.value() as u32), b"");
    }

    fn report_event(&self, kind: EventKind) {
        self.events.push_event(self.number, kind);
    }

    async fn connect(&self) -> Result<ConnectedParts, ErrorClass> {
        let socket = QuicSocket::open(self.to, self.local, self.traffic.clone());
        let datagrams = Arc::new(socket.map_err(|error| socket_error_class(&error))?);
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            datagrams.clone(),
            Arc::new(TokioRuntime),
        )
        .map_err(|error| socket_error_class(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.to, &self.name)
            .map_err(|_| ErrorClass::TlsHandshake)?;
        let connection = match race_futures(datagrams.wait_for_failure(), connecting).await {
            RaceWinner::First(error) => return Err(socket_error_class(&error)),
            RaceWinner::Second(Err(error)) => {
                return Err(handshake_error_class(&error));
            }
            RaceWinner::Second(Ok(connection)) => connection,
        };
        let alpn = connection
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol)
            .unwrap_or_default();
        if alpn != b"h3" {
            return Err(ErrorClass::TlsAlpn);
        }
        let certificate = connection
            .peer_identity()
            .and_then(|chain| chain.downcast::<Vec<CertificateDer>>().ok())
            .and_then(|chain| chain.into_iter().next());
        let (driver, sender) = client::builder()
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await
            .map_err(|_| {
                // HTTP/3 may fail to start on a connection that was already open: a server that
                // requires a client certificate rejects the connection only after the client has
                // completed its handshake.
                let reason = connection.close_reason();
                reason.map_or(ErrorClass::H3Protocol, |error| handshake_error_class(&error))
            })?;
        let established = EstablishedConnection { sender, alpn, certificate };
        Ok((connection, datagrams, driver, established))
    }

    /// Waits for the end of the connection. If the server first announces that it accepts no
    /// further requests, reports an event.
    async fn wait_for_end(
        &self,
        connection: &quinn::Connection,
        mut driver: Driver,
        datagrams: &QuicSocket,
    ) -> ConnectionEnd {
        let mut is_closing_reported = false;
        let driving = poll_fn(|context| {
            let polled = driver.poll_close(context);
            if !is_closing_reported && driver.is_closing() {
                is_closing_reported = true;
                self.report_event(EventKind::Closing);
            }
            polled
        });
        match race_futures(datagrams.wait_for_failure(), driving).await {
            RaceWinner::First(_) => ConnectionEnd::Reset,
            RaceWinner::Second(_) => match connection.close_reason() {
                Some(error) => ConnectionEnd::from_connection_error(&error),
                None => ConnectionEnd::Protocol,
            },
        }
    }

    /// Lets requests read data that arrived before the end.
    async fn drain_requests(&self) {
        for _ in 0..MAX_DRAIN_YIELDS {
            if Arc::strong_count(&self.users) <= IDLE_USERS {
                return;
            }
            yield_now().await;
        }
    }
}
