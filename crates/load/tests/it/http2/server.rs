//! Tests against the server of the `h2` crate, over an in-memory pipe with random splitting.

use bytes::Bytes;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_load::http1::{RequestParts, ResponseSummary};
use speedwell_load::http2::hpack::FieldList;
use speedwell_load::http2::{
    Http2Connection, Http2Event, Http2Request, Http2Settings, Http2StreamError, UrlScheme,
};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// The client's view of one response.
#[derive(Debug, Default)]
struct Answer {
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
    ended: Option<ResponseSummary>,
    failed: Option<Http2StreamError>,
}

struct Exchange {
    connection: Http2Connection,
    pipe: DuplexStream,
    random: Xoshiro256PlusPlus,
    answers: Vec<Answer>,
}

impl Exchange {
    fn new(settings: &Http2Settings, pipe: DuplexStream, seed: u64) -> Exchange {
        Exchange {
            connection: Http2Connection::new(settings),
            pipe,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            answers: Vec::new(),
        }
    }

    /// Moves bytes in both directions, in pieces of random size, until something arrives.
    async fn step(&mut self) {
        let Exchange { connection, pipe, random, answers } = self;
        let mut buffer = [0; 4000];
        let read = poll_fn(|context| {
            loop {
                let output = connection.output();
                if output.is_empty() {
                    break;
                }
                let length = 1 + random.next_u32() as usize % output.len().min(3000);
                match Pin::new(&mut *pipe).poll_write(context, &output[..length]) {
                    Poll::Ready(written) => connection.mark_sent(written.unwrap()),
                    Poll::Pending => break,
                }
            }
            let room = 1 + random.next_u32() as usize % 4000;
            let mut buffer = ReadBuf::new(&mut buffer[..room]);
            let polled = Pin::new(&mut *pipe).poll_read(context, &mut buffer);
            polled.map(|read| read.map(|()| buffer.filled().len()).unwrap())
        })
        .await;
        assert!(read > 0, "the server went away");
        let on = &mut |event: Http2Event| note(answers, event);
        connection.feed(&buffer[..read], on).unwrap();
    }

    async fn ask(&mut self, requests: &[Http2Request]) {
        // Before that, more streams would be opened than this server accepts.
        while !self.connection.is_ready() {
            self.step().await;
        }
        for request in requests {
            while self.connection.capacity() == 0 {
                self.step().await;
            }
            let token = self.answers.len() as u32;
            self.answers.push(Answer::default());
            assert!(self.connection.open_stream(request, token));
        }
        while self.connection.open_streams() > 0 {
            self.step().await;
        }
    }
}

fn note(answers: &mut [Answer], event: Http2Event) {
    match event {
        Http2Event::Head { token, block, .. } => {
            let mut memory = FieldList::default();
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            for (name, value) in block.decode_fields(&mut memory).unwrap().iter() {
                let answer = &mut answers[token as usize];
                answer.fields.insert(text(name), text(value));
            }
        }
        Http2Event::Data { token, bytes } => answers[token as usize].body.extend(bytes),
        Http2Event::Ended { token, summary } => answers[token as usize].ended = Some(summary),
        Http2Event::Failed { token, why } => answers[token as usize].failed = Some(why),
        _ => {}
    }
}

/// Answers according to the path: `/echo` with the received body, `/bytes/N` with N bytes, `/reset`
/// and `/refuse` not at all.
async fn serve(pipe: DuplexStream) {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(20).initial_window_size(5000);
    let mut connection = builder.handshake::<_, Bytes>(pipe).await.unwrap();
    while let Some(request) = connection.accept().await {
        let Ok((request, respond)) = request else {
            return;
        };
        tokio::spawn(answer(request, respond));
    }
}

async fn answer(
    request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    let (head, mut incoming) = request.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = incoming.data().await {
        let piece = piece.unwrap();
        body.extend_from_slice(&piece);
        incoming.flow_control().release_capacity(piece.len()).unwrap();
    }
    let path = head.uri.path();
    if let Some(count) = path.strip_prefix("/bytes/") {
        body = vec![b'b'; count.parse().unwrap()];
    }
    match path {
        "/reset" => return respond.send_reset(h2::Reason::INTERNAL_ERROR),
        "/refuse" => return respond.send_reset(h2::Reason::REFUSED_STREAM),
        _ => {}
    }
    let response = http::Response::builder()
        .status(if body.is_empty() { 204 } else { 200 })
        .header("content-length", body.len())
        .header("method", head.method.as_str())
        .header("x-agent", head.headers.get("user-agent").unwrap())
        .header("authority", head.uri.authority().unwrap().as_str())
        .header("x-many", "a value that other values resemble");
    let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::from(body), false).unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-sum", http::HeaderValue::from_static("1"));
    stream.send_trailers(trailers).unwrap();
}

fn request(method: &str, target: &str, body: Option<&[u8]>) -> Http2Request {
    let parts = RequestParts {
        method,
        target,
        host: "example.com",
        headers: &[("User-Agent", b"speedwell/test")],
        body,
        ..RequestParts::default()
    };
    Http2Request::new(&parts, UrlScheme::Http).unwrap()
}

fn exchange(settings: Http2Settings, seed: u64, requests: Vec<Http2Request>) -> Vec<Answer> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(30 + seed as usize * 1997 % 20_000);
        tokio::spawn(serve(theirs));
        let mut exchange = Exchange::new(&settings, ours, seed);
        exchange.ask(&requests).await;
        exchange.answers
    })
}

#[test]
fn a_server_understands_us_and_we_understand_it_however_the_bytes_are_cut() {
    let body: Vec<u8> = (0..60_000u32).map(|at| (at % 251) as u8).collect();
    for seed in 0..12 {
        let settings = Http2Settings {
            table_size: [0, 4096, 100][seed as usize % 3],
            stream_window: [1 << 20, 3000][seed as usize % 2],
            connection_window: [1 << 20, 65_535][seed as usize / 2 % 2],
            ..Http2Settings::default()
        };
        let mut requests = Vec::new();
        for turn in 0..20usize {
            requests.push(request("GET", &format!("/bytes/{}", turn * 1500), None));
            requests.push(request("POST", "/echo", Some(&body[..turn * 3000])));
            requests.push(request("PUT", "/echo", Some(&body[..turn])));
        }
        let answers = exchange(settings, seed, requests.clone());
        assert_eq!(answers.len(), 60);
        for (place, answer) in answers.iter().enumerate() {
            let (turn, kind) = (place / 3, place % 3);
            let expected = match kind {
                0 => vec![b'b'; turn * 1500],
                _ => requests[place].body().to_vec(),
            };
            assert_eq!(answer.failed, None, "{seed} {place} {:?}", answer.fields);
            let summary = answer.ended.unwrap();
            assert!(answer.body == expected, "{seed} {place} {summary:?}");
            assert_eq!(summary.body_bytes, expected.len() as u64);
            assert_eq!(summary.status, if expected.is_empty() { 204 } else { 200 });
            assert_eq!(answer.fields["method"], ["GET", "POST", "PUT"][kind]);
            assert_eq!(answer.fields["x-agent"], "speedwell/test");
            assert_eq!(answer.fields["authority"], "example.com");
            assert_eq!(answer.fields["content-length"], expected.len().to_string());
        }
    }
}

#[test]
fn resets_of_a_server_are_told_apart() {
    let requests = ["/reset", "/refuse", "/bytes/5"].map(|target| request("GET", target, None));
    let answers = exchange(Http2Settings::default(), 3, requests.into());
    let code = speedwell_load::http2::Http2ErrorCode(2);
    assert_eq!(answers[0].failed, Some(Http2StreamError::Reset(code)));
    assert_eq!(answers[1].failed, Some(Http2StreamError::Refused));
    assert_eq!(answers[2].ended.unwrap().body_bytes, 5);
}

#[test]
fn a_server_shutting_down_gracefully_answers_its_open_requests() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(5000);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(theirs).await.unwrap();
            let (_, mut respond) = connection.accept().await.unwrap().unwrap();
            connection.graceful_shutdown();
            respond.send_response(http::Response::new(()), true).unwrap();
            while connection.accept().await.is_some() {}
        });
        let mut exchange = Exchange::new(&Http2Settings::default(), ours, 1);
        exchange.ask(&[request("GET", "/", None)]).await;
        assert_eq!(exchange.answers[0].ended.unwrap().status, 200);
        assert!(exchange.connection.is_draining());
    });
}
