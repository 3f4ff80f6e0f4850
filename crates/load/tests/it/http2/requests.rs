//! Encoded requests, as decoded by another HPACK implementation.

use super::frames::{CONTINUATION, END, Frame, HEADERS, parse, settings};
use super::peer::Client;
use loona_hpack::Decoder;
use speedwell_load::http1::{InvalidRequest, RequestParts};
use speedwell_load::http2::{Http2Connection, Http2Request, Http2Settings, UrlScheme};

/// Decodes the fields of the header block in these frames.
fn fields(frames: &[Frame]) -> Vec<(String, String)> {
    let block: Vec<u8> = frames
        .iter()
        .filter(|frame| [HEADERS, CONTINUATION].contains(&frame.kind))
        .flat_map(|frame| frame.payload.clone())
        .collect();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let decoded = Decoder::new().decode(&block).unwrap();
    decoded.into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn sent_frames(parts: &RequestParts) -> Vec<Frame> {
    let mut client = Client::new();
    assert!(client.connection.open_stream(&Http2Request::new(parts, UrlScheme::Https).unwrap(), 0));
    client.written()
}

fn pairs(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn the_connection_begins_with_the_preface_and_the_settings() {
    let connection = Http2Connection::new(&Http2Settings::default());
    let rest = connection.output().strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let frames = parse(rest);
    let setting = |name: u8, value: u32| [&[0, name][..], &value.to_be_bytes()].concat();
    let expected = [
        setting(1, 0),
        setting(2, 0),
        setting(4, (1 << 30) - 1),
        setting(5, 16_384),
        setting(6, 65_536),
    ];
    assert_eq!(frames[0].payload, expected.concat());
    assert_eq!(frames[1].payload, ((1u32 << 30) - 1 - 65_535).to_be_bytes());
    assert_eq!(frames.len(), 2);
}

#[test]
fn a_request_is_encoded_without_connection_specific_fields() {
    let frames = sent_frames(&RequestParts {
        method: "POST",
        target: "/a?b=c",
        host: "example.com:8443",
        headers: &[
            ("Accept", b"*/*"),
            ("User-Agent", b"speedwell"),
            ("Connection", b"keep-alive"),
            ("Keep-Alive", b"timeout=5"),
            ("Upgrade", b"h2c"),
            ("TE", b"gzip"),
            ("te", b"trailers"),
            ("Cookie", b"a=b"),
            ("accept-encoding", b"gzip, deflate"),
            ("X-A-Very-Long-Name-That-Has-More-Than-Sixty-Four-Bytes-In-It-Which-Is-A-Lot", b" x "),
        ],
        body: Some(b"hi"),
        ..RequestParts::default()
    });
    assert_eq!((frames[0].flags, frames[0].stream), (4, 1));
    assert_eq!(
        pairs(&fields(&frames)),
        [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "example.com:8443"),
            (":path", "/a?b=c"),
            ("accept", "*/*"),
            ("user-agent", "speedwell"),
            ("te", "trailers"),
            ("cookie", "a=b"),
            ("accept-encoding", "gzip, deflate"),
            ("x-a-very-long-name-that-has-more-than-sixty-four-bytes-in-it-which-is-a-lot", "x"),
            ("content-length", "2"),
        ]
    );
}

#[test]
fn the_commonest_request_is_a_few_bytes() {
    let frames = sent_frames(&RequestParts {
        method: "GET",
        target: "/",
        host: "a",
        ..RequestParts::default()
    });
    // Three static table entries and the authority, which the Huffman code cannot shorten.
    assert_eq!(frames[0].payload, b"\x82\x87\x01\x01a\x84");
    assert_eq!(frames[0].flags, 4 | END);
}

#[test]
fn host_and_connect_name_the_authority() {
    let fields_for = |parts| fields(&sent_frames(&parts));
    let get = RequestParts {
        method: "GET",
        target: "/",
        host: "a",
        headers: &[("Host", b"b")],
        ..RequestParts::default()
    };
    assert_eq!(pairs(&fields_for(get))[2], (":authority", "b"));
    let connect =
        RequestParts { method: "CONNECT", target: "c:443", host: "a", ..RequestParts::default() };
    assert_eq!(pairs(&fields_for(connect)), [(":method", "CONNECT"), (":authority", "c:443")]);
}

#[test]
fn parts_without_a_meaning_in_http_2_are_rejected() {
    let error_for = |target, headers| {
        Http2Request::new(
            &RequestParts { method: "GET", target, host: "a", headers, ..RequestParts::default() },
            UrlScheme::Http,
        )
        .unwrap_err()
    };
    assert_eq!(error_for("http://a/", &[]), InvalidRequest::Target("http://a/".into()));
    assert_eq!(
        error_for("/", &[("Transfer-Encoding", b"chunked")]),
        InvalidRequest::TransferEncoding
    );
    assert_eq!(error_for("/", &[(":path", b"/b")]), InvalidRequest::Name(":path".into()));
    assert_eq!(error_for("/", &[("a", b"b\r\nc: d")]), InvalidRequest::Value("a".into()));
}

#[test]
fn a_long_head_comes_in_several_frames() {
    let value = vec![b'{'; 40_000];
    let frames = sent_frames(&RequestParts {
        method: "GET",
        target: "/",
        host: "a",
        headers: &[("x", &value)],
        ..RequestParts::default()
    });
    let shape: Vec<(u8, u8, u32)> =
        frames.iter().map(|frame| (frame.kind, frame.flags, frame.stream)).collect();
    assert_eq!(shape, [(HEADERS, END, 1), (CONTINUATION, 0, 1), (CONTINUATION, 4, 1)]);
    assert!(frames.iter().all(|frame| frame.payload.len() <= 16_384));
    assert_eq!(fields(&frames)[4].1.len(), 40_000);
}

#[test]
fn the_first_block_after_a_table_size_reduction_announces_size_zero() {
    for long in [false, true] {
        let value = vec![b'{'; if long { 20_000 } else { 1 }];
        let request = Http2Request::new(
            &RequestParts {
                method: "GET",
                target: "/",
                host: "a",
                headers: &[("x", &value)],
                ..RequestParts::default()
            },
            UrlScheme::Http,
        )
        .unwrap();
        let mut client = Client::new();
        client.feed(&settings(&[(1, 8192)]));
        client.feed(&settings(&[(1, 100)]));
        client.written();
        client.connection.open_stream(&request, 0);
        let first = client.written();
        client.connection.open_stream(&request, 1);
        let second = client.written();
        assert_eq!((first[0].payload[0], second[0].payload[0]), (0x20, 0x82));
        assert!(first[0].payload.len() <= 16_384);
        assert_eq!(fields(&first), fields(&second));
        client.feed(&settings(&[(1, 4096)]));
        client.written();
        client.connection.open_stream(&request, 2);
        assert_eq!(client.written()[0].payload[0], 0x82, "a larger table needs no update");
    }
}
