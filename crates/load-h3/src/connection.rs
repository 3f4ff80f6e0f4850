//! HTTP/3 connections over QUIC: the handle that the event loop holds, and the task that drives the
//! connection from its socket to its end.
//!
//! The task reports when requests can be sent and why they no longer can. Start at
//! [`Engine::connect`], [`Connection::send`], then `Line::run`.

use crate::datagrams::{Datagrams, First, Passed, race};
use crate::engine::Engine;
use crate::event::{Established, Events, Sender, StreamKey, What};
use crate::exchange::{Exchange, InFlight};
use crate::failure::{ConnectError, Ended};
use crate::request::Request;
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
const LAST_TURNS: u32 = 64;

/// Handle of a connection. Dropping it abandons the connection.
pub struct Connection {
    number: u64,
    sender: Option<Sender>,
    presence: Arc<()>,
    _given_up: oneshot::Sender<()>,
}

impl Connection {
    /// Returns the handle and a receiver that resolves when the handle is dropped.
    fn new(number: u64, presence: Arc<()>) -> (Connection, oneshot::Receiver<()>) {
        let (give_up, given_up) = oneshot::channel();
        let connection = Connection {
            number,
            sender: None,
            presence,
            _given_up: give_up,
        };
        (connection, given_up)
    }

    /// Takes over the sender from the connection's [`What::Established`] event.
    pub fn establish(&mut self, established: Established) {
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
        engine: &mut Engine,
        key: StreamKey,
        request: &Request,
        keep_bytes: Option<usize>,
    ) -> Option<InFlight> {
        let sender = self.sender.clone()?;
        let (in_flight, given_up) = InFlight::new();
        let exchange = Exchange {
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
        engine.begin(exchange.run());
        Some(in_flight)
    }
}

impl Engine {
    /// Starts connecting, from the address `local` if given. The connection's events carry
    /// `number`.
    pub fn connect(&mut self, to: SocketAddr, local: Option<IpAddr>, number: u64) -> Connection {
        let presence = Arc::new(());
        let line = Line {
            to,
            local,
            name: self.name.clone(),
            config: self.config.clone(),
            passed: self.passed.clone(),
            events: self.events.clone(),
            number,
            presence: presence.clone(),
        };
        let (connection, given_up) = Connection::new(number, presence);
        self.begin(line.run(given_up));
        connection
    }
}

/// State of a connection's task.
struct Line {
    to: SocketAddr,
    local: Option<IpAddr>,
    /// Server name for the handshake.
    name: String,
    config: ClientConfig,
    passed: Arc<Passed>,
    events: Arc<Events>,
    number: u64,
    /// Held by the event loop, by this task and by every request in flight.
    presence: Arc<()>,
}

/// Holders of [`Line::presence`] when no request is in flight.
const OTHERS_PRESENT: usize = 2;

/// An established connection.
struct Connected {
    connection: quinn::Connection,
    datagrams: Arc<Datagrams>,
    driver: Driver,
    established: Established,
}

impl Line {
    /// Connects and drives the connection until it ends or the handle is dropped.
    async fn run(self, mut given_up: oneshot::Receiver<()>) {
        let connected = match race(self.connect(), &mut given_up).await {
            First::This(Ok(connected)) => connected,
            First::This(Err(error)) => return self.report(What::NotEstablished(error)),
            // Dropping the pending attempt closes it.
            First::That(_) => return,
        };
        let Connected {
            connection,
            datagrams,
            driver,
            established,
        } = connected;
        self.report(What::Established(Box::new(established)));
        let end = self.end(&connection, driver, &datagrams);
        if let First::This(ended) = race(end, given_up).await {
            self.hear_out().await;
            self.report(What::Ended(ended));
        }
        connection.close(varint(Code::H3_NO_ERROR), b"");
    }

    fn report(&self, what: What) {
        self.events.report(self.number, what);
    }

    async fn connect(&self) -> Result<Connected, ConnectError> {
        let socket = Datagrams::connect(self.to, self.local, self.passed.clone());
        let datagrams = Arc::new(socket.map_err(|error| ConnectError::of_socket(&error))?);
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            datagrams.clone(),
            Arc::new(TokioRuntime),
        )
        .map_err(|error| ConnectError::of_socket(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.to, &self.name)
            .map_err(|_| ConnectError::Handshake)?;
        let connection = match race(datagrams.failed(), connecting).await {
            First::This(error) => return Err(ConnectError::of_socket(&error)),
            First::That(Err(error)) => return Err(ConnectError::of_handshake(&error)),
            First::That(Ok(connection)) => connection,
        };
        let data = connection.handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        let alpn = data.and_then(|data| data.protocol).unwrap_or_default();
        if alpn != b"h3" {
            return Err(ConnectError::Alpn);
        }
        let chain = connection.peer_identity();
        let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer>>().ok());
        let certificate = chain.and_then(|chain| chain.into_iter().next());
        let (driver, sender) = client::builder()
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await
            .map_err(|_| self.why_not(&connection))?;
        Ok(Connected {
            connection,
            datagrams,
            driver,
            established: Established {
                sender,
                alpn,
                certificate,
            },
        })
    }

    /// The reason for a failed start: a server that requires a client certificate, for example,
    /// rejects the connection only after the client has completed its handshake.
    fn why_not(&self, connection: &quinn::Connection) -> ConnectError {
        connection
            .close_reason()
            .map_or(ConnectError::Protocol, |error| {
                ConnectError::of_handshake(&error)
            })
    }

    /// Waits for the end of the connection; reports when the server accepts no further requests.
    async fn end(
        &self,
        connection: &quinn::Connection,
        mut driver: Driver,
        datagrams: &Datagrams,
    ) -> Ended {
        let mut is_reported = false;
        let driving = poll_fn(|context| {
            let polled = driver.poll_close(context);
            if !is_reported && driver.is_closing() {
                is_reported = true;
                self.report(What::Closing);
            }
            polled
        });
        match race(datagrams.failed(), driving).await {
            First::This(_) => Ended::Reset,
            First::That(_) => match connection.close_reason() {
                Some(error) => Ended::of_connection(&error),
                None => Ended::Protocol,
            },
        }
    }

    /// Lets requests read data that arrived before the end.
    async fn hear_out(&self) {
        for _ in 0..LAST_TURNS {
            if Arc::strong_count(&self.presence) <= OTHERS_PRESENT {
                return;
            }
            yield_now().await;
        }
    }
}

fn varint(code: Code) -> VarInt {
    // HTTP/3 error codes have 9 bits.
    VarInt::from_u32(code.value() as u32)
}
