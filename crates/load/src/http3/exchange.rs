//! Runs one request as a task that opens a stream, sends the request and reads the response. Start
//! at [`RequestTask::run`], or at [`H3Request::new`] for what is sent.

use crate::http3::engine::{RaceWinner, race_futures};
use crate::http3::event::{
    EventKind, EventQueue, H3Response, KeptResponse, RequestFailure, RequestSender, StreamEvent,
    StreamKey,
};
use bytes::{Buf, Bytes};
use h3::client::RequestStream;
use h3::error::{Code, StreamError};
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

type BidiRequestStream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;
type SendHalf = RequestStream<h3_quinn::SendStream<Bytes>, Bytes>;
type ReceiveHalf = RequestStream<h3_quinn::RecvStream, Bytes>;

/// A request in flight. Dropping it cancels the request.
#[derive(Debug)]
pub struct RequestHandle {
    _given_up: oneshot::Sender<()>,
}

impl RequestHandle {
    /// Returns the handle and a receiver that resolves when the handle is dropped.
    pub(crate) fn new() -> (RequestHandle, oneshot::Receiver<()>) {
        let (give_up, given_up) = oneshot::channel();
        let handle = RequestHandle { _given_up: give_up };
        (handle, given_up)
    }
}

pub(crate) struct RequestTask {
    pub sender: RequestSender,
    pub head: http::Request<()>,
    pub body: Bytes,
    pub expects_body: bool,
    /// How much of the body to keep, if the response is to be inspected.
    pub keep_bytes: Option<usize>,
    pub events: Arc<EventQueue>,
    pub connection: u64,
    pub key: StreamKey,
    /// Resolves when the request is cancelled.
    pub given_up: oneshot::Receiver<()>,
    /// Tells the connection's task that the connection is still in use.
    pub users: Arc<()>,
}

impl RequestTask {
    /// Sends the request and reads its response, unless cancelled.
    pub async fn run(mut self) {
        let report = |event| {
            self.events.push_event(self.connection, EventKind::Stream(self.key, event));
        };
        let opening = open_stream(&mut self.sender, self.head, report);
        let stream = match race_futures(opening, &mut self.given_up).await {
            RaceWinner::First(Ok(stream)) => stream,
            RaceWinner::First(Err(error)) => {
                let failure = match error {
                    StreamError::HeaderTooBig { .. } => RequestFailure::HeadTooLarge,
                    error => RequestFailure::from_stream_error(error),
                };
                return report(StreamEvent::Failed(failure));
            }
            RaceWinner::Second(_) => return,
        };
        let (mut send_half, mut receive_half) = stream.split();
        let mut is_sent = false;
        let response = {
            let sending = send_body(&mut send_half, self.body);
            let receiving =
                receive_response(&mut receive_half, self.expects_body, self.keep_bytes, report);
            let both = receive_while_sending(sending, &mut is_sent, receiving);
            race_futures(both, &mut self.given_up).await
        };
        // Without a reset, dropping the stream would look to the server like the end of the
        // request.
        if !is_sent || matches!(response, RaceWinner::Second(_)) {
            send_half.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
        match response {
            RaceWinner::First(Ok(response)) => report(StreamEvent::Response(Box::new(response))),
            RaceWinner::First(Err(failure)) => report(StreamEvent::Failed(failure)),
            RaceWinner::Second(_) => {}
        }
        drop(self.users);
    }
}

/// Opens a stream and writes the head. If the stream has to wait, usually because of the server's
/// stream limit, reports the start and the end of the wait.
async fn open_stream(
    sender: &mut RequestSender,
    head: http::Request<()>,
    report: impl Fn(StreamEvent),
) -> Result<BidiRequestStream, StreamError> {
    let mut opening = pin!(sender.send_request(head));
    let mut is_waiting = false;
    let opened = poll_fn(|context| {
        let polled = opening.as_mut().poll(context);
        if polled.is_pending() && !is_waiting {
            is_waiting = true;
            report(StreamEvent::Waits);
        }
        polled
    })
    .await;
    if is_waiting && opened.is_ok() {
        report(StreamEvent::Opened);
    }
    opened
}

async fn send_body(send_half: &mut SendHalf, body: Bytes) -> Result<(), StreamError> {
    if !body.is_empty() {
        send_half.send_data(body).await?;
    }
    send_half.finish().await
}

/// Receives while sending, since a server may respond before it has read the whole body. A failure
/// to send is not an error: a server that stops reading may still respond (RFC 9114, section 4.1).
async fn receive_while_sending<T>(
    sending: impl Future<Output = Result<(), StreamError>>,
    is_sent: &mut bool,
    receiving: impl Future<Output = T>,
) -> T {
    let (mut sending, mut receiving) = (pin!(sending), pin!(receiving));
    let mut is_send_done = false;
    poll_fn(|context| {
        if !is_send_done && let Poll::Ready(sent) = sending.as_mut().poll(context) {
            is_send_done = true;
            *is_sent = sent.is_ok();
        }
        receiving.as_mut().poll(context)
    })
    .await
}

async fn receive_response(
    receive_half: &mut ReceiveHalf,
    expects_body: bool,
    keep_bytes: Option<usize>,
    report: impl Fn(StreamEvent),
) -> Result<H3Response, RequestFailure> {
    let mut response = H3Response::default();
    let head = loop {
        let head = receive_half.recv_response().await.map_err(RequestFailure::from_stream_error)?;
        report(StreamEvent::Head);
        let status = head.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            // HTTP/3 cannot switch protocols (RFC 9114, section 4.5).
            return Err(RequestFailure::SwitchingProtocols);
        }
        if !status.is_informational() {
            break head;
        }
        response.interim += 1;
        response.interim_status = status.as_u16();
    };
    response.status = head.status().as_u16();
    let announced = parse_content_length(head.headers())?;
    let mut kept =
        keep_bytes.map(|_| KeptResponse { fields: head.into_parts().0.headers, body: Vec::new() });
    while let Some(mut data) =
        receive_half.recv_data().await.map_err(RequestFailure::from_stream_error)?
    {
        while data.has_remaining() {
            let chunk = data.chunk();
            if let (Some(kept), Some(most)) = (&mut kept, keep_bytes) {
                let room = most - kept.body.len();
                kept.body.extend_from_slice(&chunk[..room.min(chunk.len())]);
            }
            let bytes = chunk.len();
            response.body_bytes += bytes as u64;
            data.advance(bytes);
        }
    }
    receive_half.recv_trailers().await.map_err(RequestFailure::from_stream_error)?;
    response.kept = kept;
    let has_body = expects_body && !matches!(response.status, 204 | 304);
    match announced {
        Some(bytes) if has_body && bytes != response.body_bytes => Err(RequestFailure::Length),
        _ if !has_body && response.body_bytes > 0 => Err(RequestFailure::Length),
        _ => Ok(response),
    }
}

/// Parses Content-Length. Repeated values must agree (RFC 9110, section 8.6).
fn parse_content_length(fields: &HeaderMap) -> Result<Option<u64>, RequestFailure> {
    let mut announced = None;
    for value in fields.get_all(CONTENT_LENGTH) {
        let digits = value.to_str().ok();
        let bytes = digits
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
            .and_then(|text| text.parse().ok())
            .ok_or(RequestFailure::Length)?;
        if announced.is_some_and(|known| known != bytes) {
            return Err(RequestFailure::Length);
        }
        announced = Some(bytes);
    }
    Ok(announced)
}

// The code below converts a request once to the types that `h3` takes, so that it can be sent any
// number of times.

/// Parts of a request head.
#[derive(Debug, Clone, Copy)]
pub struct RequestHead<'a> {
    /// Method.
    pub method: &'a str,
    /// Host and port, as in `:authority`.
    pub authority: &'a [u8],
    /// Path with query, or `*`.
    pub target: &'a str,
    /// Value of the Content-Length field to add. It is ignored if the fields already contain one.
    pub content_length: Option<usize>,
    /// Whether a response may have a body, i.e. the method is not HEAD.
    pub expects_body: bool,
}

/// A prepared request.
#[derive(Debug, Clone)]
pub struct H3Request {
    head: http::Request<()>,
    body: Bytes,
    expects_body: bool,
}

/// The malformed part of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum H3RequestError {
    /// The method is not a token.
    Method,
    /// Authority and target do not form a URL.
    Target,
    /// The name of this field is not a token.
    Name(String),
    /// The value of this field contains control characters.
    Value(String),
}

impl fmt::Display for H3RequestError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            H3RequestError::Method => f.write_str("the method is malformed"),
            H3RequestError::Target => f.write_str("the authority or the target is malformed"),
            H3RequestError::Name(name) => write!(f, "invalid field name '{name}'"),
            H3RequestError::Value(name) => write!(f, "the value of '{name}' is malformed"),
        }
    }
}

impl std::error::Error for H3RequestError {}

impl H3Request {
    /// Prepares a request. `fields` must not contain connection-specific fields of HTTP/1 (RFC
    /// 9114, section 4.2).
    ///
    /// # Errors
    /// Fails if a part is malformed.
    pub fn new<'a>(
        parts: &RequestHead,
        fields: impl Iterator<Item = (&'a str, &'a [u8])>,
        body: &[u8],
    ) -> Result<H3Request, H3RequestError> {
        let uri = Uri::builder()
            .scheme("https")
            .authority(parts.authority)
            .path_and_query(parts.target)
            .build()
            .map_err(|_| H3RequestError::Target)?;
        let mut head = http::Request::new(());
        *head.uri_mut() = uri;
        *head.method_mut() =
            Method::from_bytes(parts.method.as_bytes()).map_err(|_| H3RequestError::Method)?;
        for (name, value) in fields {
            let value = HeaderValue::from_bytes(value.trim_ascii())
                .map_err(|_| H3RequestError::Value(name.to_owned()))?;
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| H3RequestError::Name(name.to_owned()))?;
            head.headers_mut().append(name, value);
        }
        if let Some(length) = parts.content_length
            && !head.headers().contains_key(CONTENT_LENGTH)
        {
            head.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        Ok(H3Request { head, body: Bytes::copy_from_slice(body), expects_body: parts.expects_body })
    }

    /// Returns a copy of the head to send.
    pub(crate) fn head(&self) -> http::Request<()> {
        self.head.clone()
    }

    pub(crate) fn body(&self) -> Bytes {
        self.body.clone()
    }

    pub(crate) fn expects_body(&self) -> bool {
        self.expects_body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: RequestHead = RequestHead {
        method: "GET",
        authority: b"localhost:8443",
        target: "/a?b=c",
        content_length: None,
        expects_body: true,
    };

    fn write_request(
        head: &RequestHead,
        fields: &[(&str, &[u8])],
    ) -> Result<H3Request, H3RequestError> {
        H3Request::new(head, fields.iter().copied(), b"")
    }

    #[test]
    fn a_request_contains_the_given_head_fields_and_body() {
        let head = RequestHead { method: "POST", content_length: Some(4), ..GET };
        let fields = [("Accept", &b" text/plain "[..]), ("accept", b"*/*")];
        let request = H3Request::new(&head, fields.into_iter(), b"body").unwrap();
        let sent = request.head();
        assert_eq!(sent.method(), "POST");
        assert_eq!(sent.uri(), "https://localhost:8443/a?b=c");
        let accept: Vec<_> = sent.headers().get_all("accept").iter().collect();
        assert_eq!(accept, ["text/plain", "*/*"]);
        assert_eq!(sent.headers()[CONTENT_LENGTH], "4");
        assert_eq!(&request.body()[..], b"body");
    }

    #[test]
    fn a_given_length_is_kept() {
        let head = RequestHead { content_length: Some(4), ..GET };
        let request = write_request(&head, &[("content-length", b"7")]).unwrap();
        assert_eq!(request.head().headers()[CONTENT_LENGTH], "7");
    }

    #[test]
    fn malformed_parts_are_named() {
        let method = RequestHead { method: "G T", ..GET };
        let target = RequestHead { authority: b"local host", ..GET };
        assert_eq!(write_request(&method, &[]).unwrap_err(), H3RequestError::Method);
        assert_eq!(write_request(&target, &[]).unwrap_err(), H3RequestError::Target);
        let name = write_request(&GET, &[("a b", b"")]).unwrap_err();
        assert_eq!(name, H3RequestError::Name("a b".to_owned()));
        let value = write_request(&GET, &[("a", b"\r\n")]).map(|_| ());
        assert_eq!(value, Ok(()), "spaces around a value are left out");
        let value = write_request(&GET, &[("a", b"x\ny")]).unwrap_err();
        assert_eq!(value, H3RequestError::Value("a".to_owned()));
    }
}
