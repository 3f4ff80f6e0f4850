//! One QUIC connection with HTTP/3 on it: a task from the socket to the end.
//!
//! It says when requests can be sent, and why they no longer can. Start reading at [`Line::run`].

use super::classes;
use super::datagrams::{Datagrams, First, Passed, race};
use super::events::{Event, Events, What};
use crate::generator::clock::Clock;
use crate::generator::sent::Lost;
use crate::outcomes::ErrorClass;
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

/// Sends requests on a connection.
pub(super) type Requests = client::SendRequest<h3_quinn::OpenStreams, Bytes>;

type Driver = client::Connection<h3_quinn::Connection, Bytes>;

/// After the end of a connection its requests are given so many turns to read what had arrived.
const LAST_TURNS: u32 = 64;

/// A connection that can be used.
pub(in crate::generator) struct Up {
    pub(super) requests: Requests,
    /// What ALPN agreed on.
    pub alpn: Vec<u8>,
    /// The server's certificate.
    pub certificate: Option<CertificateDer<'static>>,
}

/// What a connection is made of.
pub(super) struct Line {
    pub to: SocketAddr,
    pub local: Option<IpAddr>,
    /// The name in the handshake.
    pub name: String,
    pub config: ClientConfig,
    pub passed: Arc<Passed>,
    pub events: Arc<Events>,
    pub clock: Clock,
    pub token: u64,
    /// Held by the loop, by this task, and by every request in flight.
    pub presence: Arc<()>,
}

/// Those who hold [`Line::presence`] when no request is in flight.
const OTHERS_PRESENT: usize = 2;

/// A connection that came about.
struct Connected {
    connection: quinn::Connection,
    datagrams: Arc<Datagrams>,
    driver: Driver,
    up: Up,
}

impl Line {
    /// Connects, and keeps the connection until its end or until the loop gives it up.
    pub async fn run(self, mut given_up: oneshot::Receiver<()>) {
        let connected = match race(self.connect(), &mut given_up).await {
            First::This(Ok(connected)) => connected,
            First::This(Err(class)) => return self.tell(What::NotUp(class)),
            // What was begun is closed as it is dropped.
            First::That(_) => return,
        };
        let Connected {
            connection,
            datagrams,
            driver,
            up,
        } = connected;
        self.tell(What::Up(Box::new(up)));
        let end = self.end(&connection, driver, &datagrams);
        if let First::This(lost) = race(end, given_up).await {
            self.hear_out().await;
            self.tell(What::Lost(lost));
        }
        connection.close(varint(Code::H3_NO_ERROR), b"");
    }

    fn tell(&self, what: What) {
        self.events.tell(Event {
            token: self.token,
            at_ns: self.clock.now_ns(),
            what,
        });
    }

    async fn connect(&self) -> Result<Connected, ErrorClass> {
        let socket = Datagrams::connect(self.to, self.local, self.passed.clone());
        let datagrams = Arc::new(socket.map_err(|error| classes::of_socket(&error))?);
        let endpoint = Endpoint::new_with_abstract_socket(
            EndpointConfig::default(),
            None,
            datagrams.clone(),
            Arc::new(TokioRuntime),
        )
        .map_err(|error| classes::of_socket(&error))?;
        let connecting = endpoint
            .connect_with(self.config.clone(), self.to, &self.name)
            .map_err(|_| ErrorClass::TlsHandshake)?;
        let connection = match race(datagrams.failed(), connecting).await {
            First::This(error) => return Err(classes::of_socket(&error)),
            First::That(Err(error)) => return Err(classes::of_handshake(&error)),
            First::That(Ok(connection)) => connection,
        };
        let data = connection.handshake_data();
        let data = data.and_then(|data| data.downcast::<HandshakeData>().ok());
        let alpn = data.and_then(|data| data.protocol).unwrap_or_default();
        if alpn != b"h3" {
            return Err(ErrorClass::TlsAlpn);
        }
        let chain = connection.peer_identity();
        let chain = chain.and_then(|chain| chain.downcast::<Vec<CertificateDer>>().ok());
        let certificate = chain.and_then(|chain| chain.into_iter().next());
        let (driver, requests) = client::builder()
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await
            .map_err(|_| self.why_not(&connection))?;
        Ok(Connected {
            connection,
            datagrams,
            driver,
            up: Up {
                requests,
                alpn,
                certificate,
            },
        })
    }

    /// A server that wants a certificate, for one, says so after the client's part of the handshake.
    fn why_not(&self, connection: &quinn::Connection) -> ErrorClass {
        connection
            .close_reason()
            .map_or(ErrorClass::H3Protocol, |error| {
                classes::of_handshake(&error)
            })
    }

    /// Waits for the end of a connection, and tells when it takes no further requests.
    async fn end(
        &self,
        connection: &quinn::Connection,
        mut driver: Driver,
        datagrams: &Datagrams,
    ) -> Lost {
        let mut is_told = false;
        let driving = poll_fn(|context| {
            let polled = driver.poll_close(context);
            if !is_told && driver.is_closing() {
                is_told = true;
                self.tell(What::Closing);
            }
            polled
        });
        match race(datagrams.failed(), driving).await {
            First::This(_) => Lost::Reset,
            First::That(_) => match connection.close_reason() {
                Some(error) => classes::of_connection(&error),
                None => Lost::Failed(ErrorClass::H3Protocol),
            },
        }
    }

    /// Lets requests read what had arrived before the end.
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
    // The codes of HTTP/3 have 9 bits.
    VarInt::from_u32(code.value() as u32)
}
