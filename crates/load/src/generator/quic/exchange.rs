//! One request and its answer on a stream of their own: a task from opening the stream to the end.
//!
//! It knows the protocol and the clock. What an end means for the counts is decided in
//! [`super::Streams`]. Start reading at [`Exchange::run`].

use super::classes::{self, Failure};
use super::datagrams::{First, race};
use super::events::{Answered, Event, Events, News, What};
use super::line::Requests;
use crate::generator::clock::Clock;
use crate::http1::{Asked, Summary, Watch};
use crate::outcomes::ErrorClass;
use bytes::{Buf, Bytes};
use h3::client::RequestStream;
use h3::error::{Code, StreamError};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

type Whole = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;
type Up = RequestStream<h3_quinn::SendStream<Bytes>, Bytes>;
type Down = RequestStream<h3_quinn::RecvStream, Bytes>;

/// A request to be sent.
pub(super) struct Exchange {
    pub requests: Requests,
    pub head: http::Request<()>,
    pub body: Bytes,
    pub asked: Asked,
    /// What keeps parts of the answer, if it is looked at.
    pub watch: Option<Watch>,
    pub teller: Teller,
    /// Ends when the request is given up.
    pub given_up: oneshot::Receiver<()>,
    /// Tells the line that the connection is still in use.
    pub presence: Arc<()>,
}

/// Tells the loop what happens to one request.
pub(super) struct Teller {
    pub events: Arc<Events>,
    pub clock: Clock,
    pub token: u64,
    pub slot: u32,
    pub serial: u64,
}

impl Teller {
    fn tell(&self, news: News) {
        self.events.tell(Event {
            token: self.token,
            at_ns: self.clock.now_ns(),
            what: What::Stream {
                slot: self.slot,
                serial: self.serial,
                news,
            },
        });
    }
}

impl Exchange {
    /// Sends the request and reads its answer, unless it is given up.
    pub async fn run(mut self) {
        let opening = open(&mut self.requests, self.head, &self.teller);
        let stream = match race(opening, &mut self.given_up).await {
            First::This(Ok(stream)) => stream,
            First::This(Err(error)) => {
                let failure = match error {
                    // A head larger than the server takes was never sent.
                    StreamError::HeaderTooBig { .. } => Failure::ErrorClass(ErrorClass::Send),
                    error => classes::of_stream(&error),
                };
                return self.teller.tell(News::Failed(failure));
            }
            First::That(_) => return,
        };
        let (mut up, mut down) = stream.split();
        let mut is_sent = false;
        let answer = {
            let sending = upload(&mut up, self.body);
            let receiving = receive(&mut down, self.asked, self.watch, &self.teller);
            let both = while_sending(sending, &mut is_sent, receiving);
            race(both, &mut self.given_up).await
        };
        // Otherwise the end of a stream that is dropped would look like the end of the request.
        if !is_sent || matches!(answer, First::That(_)) {
            up.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
        match answer {
            First::This(Ok(answer)) => self.teller.tell(News::Answered(Box::new(answer))),
            First::This(Err(failure)) => self.teller.tell(News::Failed(failure)),
            First::That(_) => {}
        }
        drop(self.presence);
    }
}

/// Opens a stream and writes the head. Tells when the server's limit of streams makes it wait.
async fn open(
    requests: &mut Requests,
    head: http::Request<()>,
    teller: &Teller,
) -> Result<Whole, StreamError> {
    let mut opening = pin!(requests.send_request(head));
    let mut waits = false;
    let opened = poll_fn(|context| {
        let polled = opening.as_mut().poll(context);
        if polled.is_pending() && !waits {
            waits = true;
            teller.tell(News::Waits);
        }
        polled
    });
    let opened = opened.await;
    if waits && opened.is_ok() {
        teller.tell(News::Opened);
    }
    opened
}

async fn upload(up: &mut Up, body: Bytes) -> Result<(), StreamError> {
    if !body.is_empty() {
        up.send_data(body).await?;
    }
    up.finish().await
}

/// Receives while the body is sent: a server may answer before it has read all of it. One that
/// wants no more of it may still answer (RFC 9114, section 4.1), so a failure to send is no end.
async fn while_sending<T>(
    sending: impl Future<Output = Result<(), StreamError>>,
    is_sent: &mut bool,
    receiving: impl Future<Output = T>,
) -> T {
    let (mut sending, mut receiving) = (pin!(sending), pin!(receiving));
    let mut is_over = false;
    poll_fn(|context| {
        if !is_over && let Poll::Ready(sent) = sending.as_mut().poll(context) {
            is_over = true;
            *is_sent = sent.is_ok();
        }
        receiving.as_mut().poll(context)
    })
    .await
}

async fn receive(
    down: &mut Down,
    asked: Asked,
    mut watch: Option<Watch>,
    teller: &Teller,
) -> Result<Answered, Failure> {
    let failed = |error: StreamError| classes::of_stream(&error);
    let mut summary = Summary {
        reusable: true,
        ..Summary::default()
    };
    let response = loop {
        let response = down.recv_response().await.map_err(failed)?;
        teller.tell(News::Head);
        let status = response.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            // There is nothing to switch to (RFC 9114, section 4.5).
            return Err(Failure::ErrorClass(ErrorClass::ProtocolStatusLine));
        }
        if !status.is_informational() {
            break response;
        }
        summary.interim += 1;
        summary.interim_status = status.as_u16();
    };
    summary.status = response.status().as_u16();
    let announced = announced_bytes(response.headers())?;
    if let Some(watch) = &mut watch {
        for (name, value) in response.headers() {
            watch.field(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    while let Some(mut data) = down.recv_data().await.map_err(failed)? {
        while data.has_remaining() {
            let chunk = data.chunk();
            if let Some(watch) = &mut watch {
                watch.data(chunk);
            }
            let bytes = chunk.len();
            summary.body_bytes += bytes as u64;
            data.advance(bytes);
        }
    }
    down.recv_trailers().await.map_err(failed)?;
    let has_body = asked == Asked::Body && !matches!(summary.status, 204 | 304);
    match announced {
        Some(bytes) if has_body && bytes != summary.body_bytes => {
            Err(Failure::ErrorClass(ErrorClass::ProtocolLength))
        }
        _ if !has_body && summary.body_bytes > 0 => {
            Err(Failure::ErrorClass(ErrorClass::ProtocolLength))
        }
        _ => Ok(Answered { summary, watch }),
    }
}

/// What Content-Length says. Several values must agree (RFC 9110, section 8.6).
fn announced_bytes(fields: &HeaderMap) -> Result<Option<u64>, Failure> {
    let mut announced = None;
    for value in fields.get_all(CONTENT_LENGTH) {
        let digits = value.to_str().ok();
        let bytes = digits
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or(Failure::ErrorClass(ErrorClass::ProtocolLength))?;
        if announced.is_some_and(|known| known != bytes) {
            return Err(Failure::ErrorClass(ErrorClass::ProtocolLength));
        }
        announced = Some(bytes);
    }
    Ok(announced)
}
