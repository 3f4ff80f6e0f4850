//! Violations that fail a connection, and orderly ends.

use super::frames::{
    CONTINUATION, DATA, END, END_HEADERS, GOAWAY, HEADERS, PADDED, PING, PRIORITY, PUSH_PROMISE,
    RST_STREAM, SETTINGS, WINDOW_UPDATE, data, frame, go_away, headers, reset, settings,
    window_update,
};
use super::peer::{Client, Seen, request};
use speedwell_load::http2::{
    Http2ConnectionError, Http2ErrorCode, Http2Settings, Http2StreamError,
};

const OK: &[(&str, &str)] = &[(":status", "200")];

#[test]
fn the_server_must_begin_with_its_settings() {
    let error_for = |bytes: &[u8]| Client::silent(&Http2Settings::default()).broken(bytes);
    assert_eq!(error_for(b"HTTP/1.1 400 Bad Request\r\n"), Http2ConnectionError::NotHttp2);
    assert_eq!(error_for(&frame(PING, 0, 0, &[0; 8])), Http2ConnectionError::NoSettings);
    assert_eq!(error_for(&frame(SETTINGS, END, 0, &[])), Http2ConnectionError::NoSettings);
    assert_eq!(error_for(b"SSH-2.0-OpenSSH_9.2"), Http2ConnectionError::NoSettings);
}

#[test]
fn settings_are_acknowledged_and_must_have_values_that_exist() {
    let mut client = Client::new();
    client.feed(&settings(&[(0x99, 5), (3, 7)]));
    assert_eq!(client.written(), super::frames::parse(&frame(SETTINGS, END, 0, &[])));
    assert_eq!(client.connection.capacity(), 7);
    let error_for = |bytes: &[u8]| Client::new().broken(bytes);
    assert_eq!(error_for(&settings(&[(2, 1)])), Http2ConnectionError::Setting);
    assert_eq!(error_for(&settings(&[(5, 16_383)])), Http2ConnectionError::Setting);
    assert_eq!(error_for(&settings(&[(5, 16_777_216)])), Http2ConnectionError::Setting);
    assert_eq!(error_for(&settings(&[(4, 0x8000_0000)])), Http2ConnectionError::FlowControl);
    assert_eq!(error_for(&frame(SETTINGS, 0, 0, &[0; 5])), Http2ConnectionError::FrameSize);
    assert_eq!(error_for(&frame(SETTINGS, END, 0, &[0; 6])), Http2ConnectionError::FrameSize);
    assert_eq!(error_for(&frame(SETTINGS, 0, 1, &[])), Http2ConnectionError::Stream);
}

#[test]
fn no_more_streams_are_opened_than_the_server_takes() {
    let mut client = Client::silent(&Http2Settings::default());
    assert_eq!(client.connection.capacity(), 100, "it has said nothing yet");
    assert!(!client.connection.is_ready());
    assert!(!client.connection.has_announced_end());
    client.connection.open_stream(&request("GET", None), 0);
    client.feed(&settings(&[(3, 2)]));
    assert!(client.connection.is_ready());
    assert_eq!(client.connection.capacity(), 1);
    assert!(client.connection.open_stream(&request("GET", None), 1));
    assert!(!client.connection.open_stream(&request("GET", None), 2));
    client.ended(&headers(1, END, OK));
    assert_eq!(client.connection.capacity(), 1);
    client.feed(&settings(&[(3, 0)]));
    assert_eq!(client.connection.capacity(), 0);
    assert!(!client.connection.is_draining());
}

#[test]
fn pings_are_acknowledged_but_acknowledgements_are_not() {
    let mut client = Client::new();
    client.feed(&frame(PING, 0, 0, b"12345678"));
    assert_eq!(client.written(), super::frames::parse(&frame(PING, END, 0, b"12345678")));
    client.feed(&frame(PING, END, 0, b"12345678"));
    assert_eq!(client.written(), []);
    assert_eq!(client.broken(&frame(PING, 0, 0, b"123")), Http2ConnectionError::FrameSize);
}

#[test]
fn a_server_that_asks_and_never_reads_is_given_up() {
    let mut client = Client::new();
    let ping = frame(PING, 0, 0, &[0; 8]);
    let error = (0..100_000).find_map(|_| client.try_feed(&ping).1.err());
    assert_eq!(error, Some(Http2ConnectionError::Flood));
    assert!(client.connection.output().len() < 2 << 20);
}

#[test]
fn pushing_is_refused() {
    let mut client = Client::asking(1);
    let promise = frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2, 0x82]);
    assert_eq!(client.broken(&promise), Http2ConnectionError::Push);
    let mut client = Client::asking(1);
    assert_eq!(client.broken(&headers(2, 0, OK)), Http2ConnectionError::Stream);
}

#[test]
fn misplaced_frames_break_the_connection() {
    let stream = Http2ConnectionError::Stream;
    let size = Http2ConnectionError::FrameSize;
    for (bytes, expected) in [
        (data(0, 0, b"x"), stream),
        (data(3, 0, b"x"), stream),
        (headers(3, 0, OK), stream),
        (headers(0, 0, OK), stream),
        (reset(3, 0), stream),
        (reset(0, 0), stream),
        (window_update(3, 1), stream),
        (window_update(2, 1), stream),
        (frame(PRIORITY, 0, 0, &[0; 5]), stream),
        (frame(PING, 0, 1, &[0; 8]), stream),
        (frame(GOAWAY, 0, 1, &[0; 8]), stream),
        (frame(GOAWAY, 0, 0, &[0; 7]), size),
        (frame(PRIORITY, 0, 1, &[0; 4]), size),
        (frame(RST_STREAM, 0, 1, &[0; 5]), size),
        (frame(WINDOW_UPDATE, 0, 0, &[0; 3]), size),
        (frame(DATA, PADDED, 1, &[]), size),
        (frame(HEADERS, END_HEADERS | PADDED, 1, &[]), size),
        (frame(HEADERS, END_HEADERS | 0x20, 1, &[0; 4]), size),
        (frame(DATA, 0, 1, &[0; 16_385]), size),
        (frame(0x77, 0, 1, &[0; 16_385]), size),
        (frame(DATA, PADDED, 1, &[1]), Http2ConnectionError::Padding),
        (frame(HEADERS, END_HEADERS | PADDED, 1, &[2, 0x88]), Http2ConnectionError::Padding),
        (window_update(0, 0), Http2ConnectionError::NoIncrement),
        (window_update(0, 0x7fff_ffff), Http2ConnectionError::FlowControl),
    ] {
        let mut client = Client::asking(1);
        assert_eq!(client.broken(&bytes), expected, "{:?}", &bytes[..9]);
        assert!(!client.connection.has_announced_end());
        assert_eq!(
            client.connection.open_tokens().collect::<Vec<_>>().len(),
            client.connection.open_streams()
        );
    }
}

#[test]
fn frames_that_mean_nothing_to_us_are_skipped() {
    let mut client = Client::asking(1);
    assert_eq!(client.feed(&frame(PRIORITY, 0, 1, &[0; 5])), []);
    assert_eq!(client.feed(&frame(PRIORITY, 0, 9, &[0; 5])), []);
    assert_eq!(client.feed(&frame(0x10, 0xff, 1, &[0; 16_384])), []);
    assert_eq!(client.feed(&frame(0xff, 0xff, 0, &[])), []);
    assert_eq!(client.ended(&headers(1, END, OK)).status, 200);
}

#[test]
fn a_header_block_must_not_be_interrupted() {
    for bytes in [
        data(1, 0, b""),
        frame(PING, 0, 0, &[0; 8]),
        headers(3, 0, OK),
        frame(0x77, 0, 0, &[]),
        frame(CONTINUATION, 0, 3, &[]),
    ] {
        let mut client = Client::asking(2);
        client.feed(&frame(HEADERS, 0, 1, &[0x88]));
        assert_eq!(client.broken(&bytes), Http2ConnectionError::Continuation);
    }
    let mut client = Client::asking(1);
    assert_eq!(
        client.broken(&frame(CONTINUATION, END_HEADERS, 1, &[0x88])),
        Http2ConnectionError::Continuation
    );
}

#[test]
fn header_blocks_without_end_are_a_flood() {
    for (piece, at_most) in [(&[][..], 70), (&[0; 16_384], 5)] {
        let mut client = Client::asking(1);
        client.feed(&frame(HEADERS, 0, 1, &[0x88]));
        let error =
            (0..at_most).find_map(|_| client.try_feed(&frame(CONTINUATION, 0, 1, piece)).1.err());
        assert_eq!(error, Some(Http2ConnectionError::Flood));
    }
}

#[test]
fn a_block_that_needs_a_table_we_do_not_have_breaks_the_connection() {
    for block in [
        &[0xbe][..],
        &[0x80],
        &[0x88, 0x7f, 0x00],
        &[0x88, 0x20],
        &[0x3f, 0xe1, 0x1f],
        &[0x08, 0x05, b'2'],
    ] {
        let mut client = Client::asking(1);
        assert_eq!(
            client.broken(&frame(HEADERS, END_HEADERS, 1, block)),
            Http2ConnectionError::Compression,
            "{block:x?}"
        );
    }
}

#[test]
fn streams_within_the_limit_of_a_goaway_may_finish() {
    let mut client = Client::asking(3);
    let code = Http2ErrorCode::NO_ERROR;
    assert_eq!(client.feed(&go_away(0x7fff_ffff, 0)), [Seen::GoAway(0x7fff_ffff, code)]);
    assert!(client.connection.is_draining());
    assert_eq!(client.connection.capacity(), 0);
    assert!(!client.connection.open_stream(&request("GET", None), 9));
    assert_eq!(
        client.feed(&go_away(3, 0)),
        [Seen::GoAway(3, code), Seen::Failed(2, Http2StreamError::GoAway(code))]
    );
    assert!(!client.ended(&headers(3, END, OK)).reusable);
    assert!(client.connection.has_announced_end());
    client.ended(&headers(1, END, OK));
}

#[test]
fn a_second_goaway_cannot_take_back_the_first() {
    let mut client = Client::asking(3);
    client.feed(&go_away(1, 2));
    assert_eq!(client.feed(&go_away(5, 0)), [Seen::GoAway(1, Http2ErrorCode::NO_ERROR)]);
    assert_eq!(client.connection.open_streams(), 1);
}
