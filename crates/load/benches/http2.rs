//! Time per request and response over one connection with 100 streams, compared with the client of
//! the `h2` crate on the same bytes: `cargo bench -p speedwell-load --bench http2`. Both send a
//! request on each stream and read its status and body. They alternate, so that ratios within one
//! run are reliable on a busy machine.
//!
//! With `--bench SIDE` (`ours`, `ours-varied`, `ours-table`, `h2` or `none`) only that side runs,
//! to count instructions: `valgrind --tool=callgrind` on the program, or `perf stat -e
//! instructions:u`; subtract the overhead measured by `none`. Without `--bench` everything runs
//! once.

use bytes::Bytes;
use speedwell_load::http1::RequestParts;
use speedwell_load::http2::hpack::encode_field;
use speedwell_load::http2::{Http2Connection, Http2Event, Http2Request, Http2Settings, UrlScheme};
use std::cell::RefCell;
use std::future::Future;
use std::hint::black_box;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

const STREAMS: u32 = 100;
const ROUNDS: u32 = 1000;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let is_measuring = arguments.iter().any(|argument| argument == "--bench");
    let rounds = if is_measuring { ROUNDS } else { 1 };
    match arguments.get(1).map(String::as_str) {
        Some("ours") => drop(ours(0, false, ROUNDS)),
        Some("ours-varied") => drop(ours(0, true, ROUNDS)),
        Some("ours-table") => drop(ours(4096, false, ROUNDS)),
        Some("h2") => drop(theirs(ROUNDS)),
        Some("none") => drop(none(ROUNDS)),
        _ => compare(rounds),
    }
}

/// Prints median times over alternating turns.
fn compare(rounds: u32) {
    let mut turns: Vec<[f64; 4]> = (0..9)
        .map(|_| {
            [
                ours(0, false, rounds),
                ours(0, true, rounds),
                ours(4096, false, rounds),
                theirs(rounds),
            ]
        })
        .collect();
    let mut median = |place: usize| {
        turns.sort_by(|a, b| a[place].total_cmp(&b[place]));
        turns[4][place]
    };
    let [ours, varied, table, h2] = [median(0), median(1), median(2), median(3)];
    println!("1 connection, {STREAMS} streams, {} bytes a response:", response(1).len());
    println!("ours {ours:.1} ns, h2 {h2:.1} ns, ratio {:.3}", ours / h2);
    println!("ours, each head different {varied:.1} ns, ratio {:.3}", varied / h2);
    println!("ours with a table {table:.1} ns, ratio {:.3}", table / h2);
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Response to a GET of a small file as nginx encodes it: names by index, as entries for a
/// nonexistent table, and Huffman-coded values.
fn response(stream: u32) -> Vec<u8> {
    let mut block = vec![0x88];
    for (name, value) in [
        ("server", "nginx/1.22.1"),
        ("date", "Thu, 01 Jan 2026 00:00:00 GMT"),
        ("content-type", "text/plain"),
        ("content-length", "14"),
        ("last-modified", "Wed, 31 Dec 2025 12:34:56 GMT"),
        ("etag", "\"6957f2b0-e\""),
        ("accept-ranges", "bytes"),
    ] {
        // For fields without indexing, the encoder writes 15 and then the rest of the index.
        let mut field = Vec::new();
        encode_field(&mut field, name.as_bytes(), value.as_bytes());
        block.push(0x40 + 15 + field[1]);
        block.extend_from_slice(&field[2..]);
    }
    let mut bytes = frame(1, 4, stream, &block);
    bytes.extend(frame(0, 1, stream, b"Hello, world!\n"));
    bytes
}

/// Writes the responses of a round into place before it is timed. With `varies`, each head differs
/// from the previous one.
fn place_responses(bytes: &mut Vec<u8>, template: &[u8], first: u32, varies: bool) {
    bytes.clear();
    let second_frame = 9 + template[2] as usize;
    for stream in (first..).step_by(2).take(STREAMS as usize) {
        let start = bytes.len();
        bytes.extend_from_slice(template);
        for at in [start + 5, start + second_frame + 5] {
            bytes[at..at + 4].copy_from_slice(&stream.to_be_bytes());
        }
        // The last value ends in a byte that the scan does not read.
        bytes[start + second_frame - 1] ^= u8::from(varies && stream & 2 == 0);
    }
}

fn none(rounds: u32) -> f64 {
    let (template, mut bytes) = (response(1), Vec::new());
    for round in 0..rounds {
        place_responses(&mut bytes, &template, round * STREAMS * 2 + 1, false);
        black_box(&bytes);
    }
    0.0
}

/// Converts to nanoseconds per request.
fn per_request(elapsed_ns: u128, rounds: u32) -> f64 {
    elapsed_ns as f64 / f64::from(rounds * STREAMS)
}

fn ours(table_size: u32, varies: bool, rounds: u32) -> f64 {
    let parts = RequestParts {
        method: "GET",
        target: "/index.txt",
        host: "127.0.0.1:8080",
        headers: &[("User-Agent", b"speedwell"), ("Accept", b"*/*")],
        ..RequestParts::default()
    };
    let Ok(request) = Http2Request::new(&parts, UrlScheme::Http) else {
        return f64::NAN;
    };
    let settings = Http2Settings { table_size, ..Http2Settings::default() };
    let mut connection = Http2Connection::new(&settings);
    let greeted = connection.feed(&frame(4, 0, 0, &[]), &mut |_| {});
    assert_eq!(greeted, Ok(()));
    let (template, mut bytes) = (response(1), Vec::new());
    let (mut elapsed_ns, mut ended, mut body_bytes) = (0, 0, 0);
    for round in 0..rounds {
        place_responses(&mut bytes, &template, round * STREAMS * 2 + 1, varies);
        let start = Instant::now();
        for token in 0..STREAMS {
            connection.open_stream(&request, token);
        }
        let sent = black_box(connection.output()).len();
        connection.mark_sent(sent);
        let fed = connection.feed(black_box(&bytes), &mut |event| match event {
            Http2Event::Data { bytes, .. } => body_bytes += bytes.len(),
            Http2Event::Ended { summary, .. } => ended += u32::from(summary.status == 200),
            _ => {}
        });
        assert_eq!(fed, Ok(()));
        elapsed_ns += start.elapsed().as_nanos();
    }
    assert_eq!((ended, body_bytes), (rounds * STREAMS, 14 * ended as usize));
    per_request(elapsed_ns, rounds)
}

/// Accepts all writes; reads return the bytes put into it.
#[derive(Default)]
struct Pipe {
    incoming: Vec<u8>,
    read: usize,
    reader: Option<Waker>,
}

struct End(Rc<RefCell<Pipe>>);

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context,
        buffer: &mut ReadBuf,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.0.borrow_mut();
        let rest = &pipe.incoming[pipe.read..];
        let length = rest.len().min(buffer.remaining());
        if length == 0 {
            pipe.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        buffer.put_slice(&rest[..length]);
        pipe.read += length;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(black_box(bytes).len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Output of a future that is ready immediately.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("everything has arrived"),
    }
}

fn theirs(rounds: u32) -> f64 {
    let pipe = Rc::new(RefCell::new(Pipe::default()));
    pipe.borrow_mut().incoming = frame(4, 0, 0, &[]);
    let mut builder = h2::client::Builder::new();
    builder
        .header_table_size(0)
        .initial_window_size((1 << 30) - 1)
        .initial_connection_window_size((1 << 30) - 1);
    let handshake = builder.handshake::<_, Bytes>(End(Rc::clone(&pipe)));
    let (mut sender, connection) = now(handshake).unwrap_or_else(|error| panic!("{error}"));
    let mut connection = pin!(connection);
    let mut drive = || {
        let polled = connection.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "the connection ended");
    };
    drive();
    let (template, mut bytes) = (response(1), Vec::new());
    let (mut elapsed_ns, mut ended, mut body_bytes) = (0, 0, 0);
    let mut awaited = Vec::new();
    for round in 0..rounds {
        place_responses(&mut bytes, &template, round * STREAMS * 2 + 1, false);
        let start = Instant::now();
        for _ in 0..STREAMS {
            let request = http::Request::get("http://127.0.0.1:8080/index.txt")
                .header(http::header::USER_AGENT, "speedwell")
                .header(http::header::ACCEPT, "*/*");
            let request = request.body(()).unwrap_or_else(|error| panic!("{error}"));
            let sent = sender.send_request(request, true);
            awaited.push(sent.unwrap_or_else(|error| panic!("{error}")).0);
        }
        drive();
        let mut end = pipe.borrow_mut();
        std::mem::swap(&mut end.incoming, &mut bytes);
        end.read = 0;
        drop(end);
        drive();
        for response in awaited.drain(..) {
            let (head, mut body) = now(response).unwrap_or_else(|e| panic!("{e}")).into_parts();
            while let Some(Ok(piece)) = now(body.data()) {
                body_bytes += piece.len();
                let released = body.flow_control().release_capacity(piece.len());
                assert!(released.is_ok());
            }
            ended += u32::from(head.status == 200);
        }
        elapsed_ns += start.elapsed().as_nanos();
    }
    assert_eq!((ended, body_bytes), (rounds * STREAMS, 14 * ended as usize));
    per_request(elapsed_ns, rounds)
}
