//! Runs one request as a task that opens a stream, sends the request and reads the response. Start
//! at [`RequestTask::run`], or at [`H3Request::new`], which prepares the request.

use crate::http1::{
    InvalidRequest, MethodKind, RequestParts, ResponseSummary, ResponseWatch, parse_number,
    validate_parts,
};
use crate::http2::is_omitted;
use crate::http3::engine::{RaceWinner, race_futures};
use crate::http3::event::{
    EventKind, EventQueue, H3Response, RequestFailure, RequestSender, StreamEvent, StreamKey,
};
use bytes::{Buf, Bytes};
use h3::client::RequestStream;
use h3::error::{Code, StreamError};
use http::header::{CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use speedwell_model::load::outcomes::ErrorClass;
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
    pub(crate) _given_up: oneshot::Sender<()>,
}

pub(crate) struct RequestTask {
    pub sender: RequestSender,
    pub head: http::Request<()>,
    pub body: Bytes,
    pub expects_body: bool,
    /// Empty watch for the contents of the response, if they are inspected.
    pub watch: Option<ResponseWatch>,
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
                    // A head that exceeds the server's limit was never sent.
                    StreamError::HeaderTooBig { .. } => RequestFailure::Failed(ErrorClass::Send),
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
                receive_response(&mut receive_half, self.expects_body, self.watch, report);
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
    mut watch: Option<ResponseWatch>,
    report: impl Fn(StreamEvent),
) -> Result<H3Response, RequestFailure> {
    let mut summary = ResponseSummary { reusable: true, ..ResponseSummary::default() };
    let head = loop {
        let head = receive_half.recv_response().await.map_err(RequestFailure::from_stream_error)?;
        report(StreamEvent::Head);
        let status = head.status();
        if status == StatusCode::SWITCHING_PROTOCOLS {
            // HTTP/3 cannot switch protocols (RFC 9114, section 4.5).
            return Err(RequestFailure::Failed(ErrorClass::ProtocolStatusLine));
        }
        if !status.is_informational() {
            break head;
        }
        summary.interim += 1;
        summary.interim_status = status.as_u16();
    };
    summary.status = head.status().as_u16();
    let announced = parse_content_length(head.headers())?;
    if let Some(watch) = &mut watch {
        for (name, value) in head.headers() {
            watch.add_field(name.as_str().as_bytes(), value.as_bytes());
        }
    }
    while let Some(mut data) =
        receive_half.recv_data().await.map_err(RequestFailure::from_stream_error)?
    {
        while data.has_remaining() {
            let chunk = data.chunk();
            if let Some(watch) = &mut watch {
                watch.add_data(chunk);
            }
            let bytes = chunk.len();
            summary.body_bytes += bytes as u64;
            data.advance(bytes);
        }
    }
    receive_half.recv_trailers().await.map_err(RequestFailure::from_stream_error)?;
    let has_body = expects_body && !matches!(summary.status, 204 | 304);
    match announced {
        Some(bytes) if has_body && bytes != summary.body_bytes => Err(LENGTH_FAILURE),
        _ if !has_body && summary.body_bytes > 0 => Err(LENGTH_FAILURE),
        _ => Ok(H3Response { summary, watch }),
    }
}

/// Content-Length is malformed or does not match the body.
const LENGTH_FAILURE: RequestFailure = RequestFailure::Failed(ErrorClass::ProtocolLength);

/// Parses Content-Length. Repeated values must agree (RFC 9110, section 8.6).
fn parse_content_length(fields: &HeaderMap) -> Result<Option<u64>, RequestFailure> {
    let mut announced = None;
    for value in fields.get_all(CONTENT_LENGTH) {
        let bytes = parse_number(value.as_bytes()).ok_or(LENGTH_FAILURE)?;
        if announced.is_some_and(|known| known != bytes) {
            return Err(LENGTH_FAILURE);
        }
        announced = Some(bytes);
    }
    Ok(announced)
}

// The code below converts a request once to the types that `h3` takes, so that it can be sent any
// number of times.

/// A prepared request.
#[derive(Debug, Clone)]
pub struct H3Request {
    pub(crate) head: http::Request<()>,
    pub(crate) body: Bytes,
    pub(crate) method: MethodKind,
}

impl H3Request {
    /// Prepares a request. As with HTTP/2, Host becomes `:authority` and connection-specific fields
    /// of HTTP/1 are omitted (RFC 9114, section 4.2).
    ///
    /// # Errors
    /// Fails if a part is malformed, or if the request is one for a proxy: CONNECT or a full URL.
    pub fn new(parts: &RequestParts) -> Result<H3Request, InvalidRequest> {
        validate_parts(parts)?;
        let target_error = || InvalidRequest::Target(parts.target.to_owned());
        if parts.method == "CONNECT" || !(parts.target == "*" || parts.target.starts_with('/')) {
            return Err(target_error());
        }
        let mut head = http::Request::new(());
        *head.uri_mut() = Uri::builder()
            .scheme("https")
            .authority(parts.field_values("host").next().unwrap_or(parts.host.as_bytes()))
            .path_and_query(parts.target)
            .build()
            .map_err(|_| target_error())?;
        *head.method_mut() = Method::from_bytes(parts.method.as_bytes())
            .map_err(|_| InvalidRequest::Method(parts.method.to_owned()))?;
        for (name, value) in parts.headers {
            if is_omitted(name, value) {
                continue;
            }
            let value = HeaderValue::from_bytes(value.trim_ascii())
                .map_err(|_| InvalidRequest::Value((*name).to_owned()))?;
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| InvalidRequest::Name((*name).to_owned()))?;
            head.headers_mut().append(name, value);
        }
        if let Some(length) = parts.content_length()
            && !head.headers().contains_key(CONTENT_LENGTH)
        {
            head.headers_mut().insert(CONTENT_LENGTH, length.into());
        }
        Ok(H3Request {
            head,
            body: Bytes::copy_from_slice(parts.body.unwrap_or_default()),
            method: MethodKind::for_method(parts.method),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get<'a>(headers: &'a [(&'a str, &'a [u8])]) -> RequestParts<'a> {
        let (target, host) = ("/a?b=c", "localhost:8443");
        RequestParts { method: "GET", target, host, headers, ..RequestParts::default() }
    }

    fn error_of(parts: &RequestParts) -> InvalidRequest {
        H3Request::new(parts).unwrap_err()
    }

    #[test]
    fn a_request_contains_the_given_head_fields_and_body() {
        let fields = [("Accept", &b" text/plain "[..]), ("accept", b"*/*")];
        let parts = RequestParts { method: "POST", body: Some(b"body"), ..get(&fields) };
        let request = H3Request::new(&parts).unwrap();
        let sent = request.head;
        assert_eq!(sent.method(), "POST");
        assert_eq!(sent.uri(), "https://localhost:8443/a?b=c");
        let accept: Vec<_> = sent.headers().get_all("accept").iter().collect();
        assert_eq!(accept, ["text/plain", "*/*"]);
        assert_eq!(sent.headers()[CONTENT_LENGTH], "4");
        assert_eq!(&request.body[..], b"body");
    }

    #[test]
    fn a_given_length_is_kept() {
        let fields = [("content-length", &b"7"[..])];
        let parts = RequestParts { method: "POST", body: Some(b"1234567"), ..get(&fields) };
        let request = H3Request::new(&parts).unwrap();
        let lengths: Vec<_> = request.head.headers().get_all(CONTENT_LENGTH).iter().collect();
        assert_eq!(lengths, ["7"]);
    }

    #[test]
    fn malformed_parts_are_named() {
        let method = RequestParts { method: "G T", ..get(&[]) };
        assert_eq!(error_of(&method), InvalidRequest::Method("G T".to_owned()));
        let target = error_of(&get(&[("Host", b"local host")]));
        assert_eq!(target, InvalidRequest::Target("/a?b=c".to_owned()));
        assert_eq!(error_of(&get(&[("a b", b"")])), InvalidRequest::Name("a b".to_owned()));
        assert_eq!(error_of(&get(&[("a", b"x\ny")])), InvalidRequest::Value("a".to_owned()));
        let value = H3Request::new(&get(&[("a", b" \t ")])).map(|_| ());
        assert_eq!(value, Ok(()), "spaces around a value are left out");
    }
}
