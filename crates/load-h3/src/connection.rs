//! HTTP/3 connections over QUIC: the handle that the event loop holds, and the task that drives the
//! connection from its socket to its end.
//!
//! The task reports when requests can be sent and why they no longer can. Start at
//! [`H3Engine::connect`], [`H3Connection::send`], then `ConnectionTask::run`.

use crate::datagrams::{QuicSocket, RaceWinner, TrafficCounters, race_futures};
use crate::engine::H3Engine;
use crate::event::{EstablishedConnection, EventKind, EventQueue, RequestSender, StreamKey};
use crate::exchange::{RequestHandle, RequestTask};
use crate::failure::{ConnectionEnd, H3ConnectError};
use crate::request::H3Request;
use bytes::Bytes;
use h3::error::Code;
use h3::{ConnectionState, client};
use quinn::crypto::rustls::HandshakeData;
use quinn::{ClientConfig, Endpoint, EndpointConfig, TokioRuntime, VarInt};
use rustls::pki_types::CertificateDer;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::yield_now;

type Driver = client::Connection<h3_quinn::Connection, Bytes>;

/// Turns that requests get after the end of a connection to read data that had already arrived.
const DRAIN_TURNS: u32 = 64;

/// Handle of a connection. Dropping it abandons the connection.
pub struct H3Connection {
    number: u64,
    sender: Option<RequestSender>,
    presence: Arc<()>,
    _given_up: oneshot::Sender<()>,
}

impl H3Connection {
    /// Returns the handle and a receiver that resolves when the handle is dropped.
    fn new(number: u64, presence: Arc<()>) -> (H3Connection, oneshot::Receiver<()>) {
        let (give_up, given_up) = oneshot::channel();
        let connection = H3Connection {
            number,
            sender: None,
            presence,
            _given_up: give_up,
        };
        (connection, given_up)
    }

    /// Takes over the sender from the connection's [`EventKind::Established`] event.
    pub fn establish(&mut self, established: EstablishedConnection) {
        self.sender = Some(established.sender);
    }

    /// Whether the server has announced that it accepts no further requests.
    pub fn is_closing(&self) -> bool {
        self.sender
            .as_ref()
            .is_some_and(ConnectionState::is_closing)
    }

    /// Sends a request, whose events carry `key`. `keep_bytes`, if given, is how much of the
    /// response body to keep, along with the header fields. Dropping the result cancels the
    /// request. Returns `None` until the connection is established.
    pub fn send(
        &self,
        engine: &mut H3Engine,
        key: StreamKey,
        request: &H3Request,
        keep_bytes: Option<usize>,
    ) -> Option<RequestHandle> {
        let sender = self.sender.clone()?;
        let (in_flight, given_up) = RequestHandle::new();
        let exchange = RequestTask {
            sender,
            head: request.head(),
            body: request.body(),
            expects_body: request.expects_body(),
            keep_bytes,
            events: engine.events.clone(),
            connection: self.number,
            key,
            given_up,
            presence: self.presence.clone(),
        };
        engine.queue_task(exchange.run());
        Some(in_flight)
    }
}

impl H3Engine {
    /// Starts connecting, from the address `local` if given. The connection's events carry
    /// `number`.
    pub fn connect(&mut self, to: SocketAddr, local: Option<IpAddr>, number: u64) -> H3Connection {
        let presence = Arc::new(());
        let line = ConnectionTask {
            to,
            local,
            name: self.name.clone(),
            config: self.config.clone(),
            passed: self.passed.clone(),
            events: self.events.clone(),
            number,
            presence: presence.clone(),
        };
        let (connection, given_up) = H3Connection::new(number, presence);
        self.queue_task(line.run(given_up));
        connection
    }
}

/// State of a connection's task.
struct ConnectionTask {
    to: SocketAddr,
    local: Option<IpAddr>,
    /// Server name for the handshake.
    name: String,
    config: ClientConfig,
    passed: Arc<TrafficCounters>,
    events: Arc<EventQueue>,
    number: u64,
    /// Held by the event loop, by this task and by every request in flight.
    presence: Arc<()>,
}

/// Holders of [`ConnectionTask::presence`] when no request is in flight.
const IDLE_HOLDERS: usize = 2;

/// An established connection.
struct ConnectedParts {
    connection: quinn::Connection,
    datagrams: Arc<QuicSocket>,
    driver: Driver,
    established: EstablishedConnection,
}

impl ConnectionTask {
    /// Connects and drives the connection until it ends or the handle is dropped.
    async fn run(self, mut given_up: oneshot::Receiver<()>) {
        let connected = match race_futures(self.connect(), &mut given_up).await {
            RaceWinner::This(Ok(connected)) => connected,
            RaceWinner::This(Err(error)) => {
                return self.report_event(EventKind::NotEstablished(error));
            }
            // Dropping the pending attempt closes it.
            RaceWinner::That(_) => return,
        };
        let ConnectedParts {
            connection,
            datagrams,
            driver,
            established,
        } = connected;
        self.report_event(EventKind::Established(Box::new(established)));
        let end = self.wait_for_end(&connection, driver, &datagrams);
        if let RaceWinner::This(ended) = race_futures(end, given_up).await {
            self.drain_requests().await;
            self.report_event(EventKind::Ended(ended));
        }
        connection.close(code_to_varint(Code::H3_NO_ERROR), b"");
    }

    fn report_event(&self, what: EventKind) {
        self.events.push_event(self.number, what);
    }

    async fn connect(&self) -> Result<ConnectedParts, H3ConnectError> {
        let socket = QuicSocket::open(self.to, self.local, self.passed.clone());
        let datagrams =
            Arc::new(socket.map_err(|error| H3ConnectError::from_socket_error(&error))?);
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            datagrams.clone(),
            Arc::new(TokioRuntime),
        )
        .map_err(|error| H3ConnectError::from_socket_error(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.to, &self.name)
            .map_err(|_| H3ConnectError::Handshake)?;
        let connection = match race_futures(datagrams.wait_for_failure(), connecting).await {
            RaceWinner::This(error) => return Err(H3ConnectError::from_socket_error(&error)),
            RaceWinner::That(Err(error)) => {
                return Err(H3ConnectError::from_handshake_error(&error));
            }
            RaceWinner::That(Ok(connection)) => connection,
        };
        let alpn = connection
            .handshake_data()
            .and_then(|data| data.downcast::<HandshakeData>().ok())
            .and_then(|data| data.protocol)
            .unwrap_or_default();
        if alpn != b"h3" {
            return Err(H3ConnectError::Alpn);
        }
        let certificate = connection
            .peer_identity()
            .and_then(|chain| chain.downcast::<Vec<CertificateDer>>().ok())
            .and_then(|chain| chain.into_iter().next());
        let (driver, sender) = client::builder()
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await
            .map_err(|_| self.setup_error(&connection))?;
        Ok(ConnectedParts {
            connection,
            datagrams,
            driver,
            established: EstablishedConnection {
                sender,
                alpn,
                certificate,
            },
        })
    }

    /// The reason for a failed start: a server that requires a client certificate, for example,
    /// rejects the connection only after the client has completed its handshake.
    fn setup_error(&self, connection: &quinn::Connection) -> H3ConnectError {
        connection
            .close_reason()
            .map_or(H3ConnectError::Protocol, |error| {
                H3ConnectError::from_handshake_error(&error)
            })
    }

    /// Waits for the end of the connection; reports when the server accepts no further requests.
    async fn wait_for_end(
        &self,
        connection: &quinn::Connection,
        mut driver: Driver,
        datagrams: &QuicSocket,
    ) -> ConnectionEnd {
        let mut is_reported = false;
        let driving = poll_fn(|context| {
            let polled = driver.poll_close(context);
            if !is_reported && driver.is_closing() {
                is_reported = true;
                self.report_event(EventKind::Closing);
            }
            polled
        });
        match race_futures(datagrams.wait_for_failure(), driving).await {
            RaceWinner::This(_) => ConnectionEnd::Reset,
            RaceWinner::That(_) => match connection.close_reason() {
                Some(error) => ConnectionEnd::from_connection_error(&error),
                None => ConnectionEnd::Protocol,
            },
        }
    }

    /// Lets requests read data that arrived before the end.
    async fn drain_requests(&self) {
        for _ in 0..DRAIN_TURNS {
            if Arc::strong_count(&self.presence) <= IDLE_HOLDERS {
                return;
            }
            yield_now().await;
        }
    }
}

fn code_to_varint(code: Code) -> VarInt {
    // HTTP/3 error codes have 9 bits.
    VarInt::from_u32(code.value() as u32)
}
