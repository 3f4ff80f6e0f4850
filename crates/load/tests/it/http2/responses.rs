//! Valid and invalid responses.

use super::frames::{
    CONTINUATION, DATA, END, END_HEADERS, HEADERS, PADDED, block, data, frame, headers, reset,
};
use super::peer::{Client, Seen, request};
use speedwell_load::http1::ResponsePhase;
use speedwell_load::http2::hpack::FieldList;
use speedwell_load::http2::{Http2ErrorCode, Http2Event, Http2StreamError};

const OK: &[(&str, &str)] = &[(":status", "200")];

#[test]
fn a_response_is_reported_from_its_first_byte_to_its_end() {
    let mut client = Client::asking(2);
    assert_eq!(client.connection.phase(0), ResponsePhase::FirstByte);
    let head = headers(1, 0, &[(":status", "201"), ("content-length", "5"), ("a", "b")]);
    assert_eq!(client.feed(&head), [Seen::FirstByte(0), Seen::Head(0, 201)]);
    assert_eq!(client.connection.phase(0), ResponsePhase::Body);
    assert_eq!(client.feed(&data(1, 0, b"hel")), [Seen::Data(0, b"hel".to_vec())]);
    let summary = client.ended(&data(1, END, b"lo"));
    assert_eq!((summary.status, summary.body_bytes), (201, 5));
    assert_eq!(summary.head_bytes, head.len() as u64);
    assert_eq!(summary.framing_bytes, 18);
    assert!(summary.reusable);
    assert_eq!(client.connection.phase(0), ResponsePhase::Idle);
    assert_eq!(client.connection.open_tokens().collect::<Vec<_>>(), [1]);
}

#[test]
fn the_fields_can_be_read_when_they_are_wanted() {
    let mut client = Client::asking(1);
    // The names of 0x88 and 0x40 0x85... are indexed and Huffman-coded (RFC 7541, appendix C).
    let mut coded = vec![0x20, 0x88];
    coded.extend(block(&[("server", "nginx")]));
    coded.extend(
        b"\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
    );
    let mut lines = Vec::new();
    client
        .connection
        .feed(&frame(HEADERS, END_HEADERS | END, 1, &coded), &mut |event| {
            if let Http2Event::Head { block, .. } = event {
                let mut memory = FieldList::default();
                let fields = block.decode_fields(&mut memory).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                lines.extend(fields.iter().map(|(name, value)| text(name) + "=" + &text(value)));
                let server = fields.iter().find(|(name, _)| *name == b"server");
                assert_eq!(server.map(|(_, value)| value), Some(&b"nginx"[..]));
            }
        })
        .unwrap();
    assert_eq!(lines, [":status=200", "server=nginx", "custom-key=custom-value"]);
}

#[test]
fn a_value_that_breaks_lines_is_found_when_it_is_read() {
    let mut client = Client::asking(1);
    let mut errors = Vec::new();
    let head = headers(1, END, &[(":status", "200"), ("a", "b\r\nc: d")]);
    client
        .connection
        .feed(&head, &mut |event| {
            if let Http2Event::Head { block, .. } = event {
                errors.push(block.decode_fields(&mut FieldList::default()).is_none());
            }
        })
        .unwrap();
    assert_eq!(errors, [true]);
}

#[test]
fn every_form_of_a_status_is_read() {
    for (coded, status) in [
        (&[0x88][..], 200),
        (&[0x89], 204),
        (&[0x8a], 206),
        (&[0x8b], 304),
        (&[0x8c], 400),
        (&[0x8d], 404),
        (&[0x8e], 500),
        (b"\x08\x03302", 302),
        (b"\x48\x03503", 503),
        // 302 Huffman-coded, as in RFC 7541, appendix C.6.1.
        (&[0x48, 0x82, 0x64, 0x02], 302),
        (b"\x00\x07:status\x03999", 999),
    ] {
        let mut client = Client::asking(1);
        let summary = client.ended(&frame(HEADERS, END_HEADERS | END, 1, coded));
        assert_eq!(summary.status, status, "{coded:x?}");
    }
}

#[test]
fn interim_responses_come_before_the_final_one() {
    let mut client = Client::asking(1);
    let hints = headers(1, 0, &[(":status", "103"), ("link", "</a>")]);
    assert_eq!(client.feed(&hints), [Seen::FirstByte(0), Seen::Interim(0, 103)]);
    assert_eq!(client.connection.phase(0), ResponsePhase::Head);
    assert_eq!(client.feed(&hints), [Seen::Interim(0, 103)]);
    let summary = client.ended(&headers(1, END, OK));
    assert_eq!((summary.status, summary.interim), (200, 2));
}

#[test]
fn an_interim_response_must_not_end_the_stream_or_switch_protocols() {
    for (status, flags) in [("100", END), ("101", 0)] {
        let mut client = Client::asking(1);
        assert_eq!(
            client.failed(&headers(1, flags, &[(":status", status)])),
            Http2StreamError::Order
        );
    }
}

#[test]
fn trailers_end_a_response() {
    let mut client = Client::asking(1);
    client.feed(&headers(1, 0, OK));
    client.feed(&data(1, 0, b"x"));
    let trailers = headers(1, END, &[("grpc-status", "0")]);
    let summary = client.ended(&trailers);
    assert_eq!(summary.body_bytes, 1);
    assert_eq!(summary.framing_bytes, 9 + trailers.len() as u64);
}

#[test]
fn trailers_must_end_the_response_and_have_no_status() {
    for (flags, fields, expected) in [
        (0, &[("a", "b")][..], Http2StreamError::Order),
        (END, OK, Http2StreamError::Header),
        (END, &[("A", "b")], Http2StreamError::Header),
    ] {
        let mut client = Client::asking(1);
        client.feed(&headers(1, 0, OK));
        assert_eq!(client.failed(&headers(1, flags, fields)), expected);
        assert_eq!(client.written(), super::frames::parse(&reset(1, 1)));
    }
}

#[test]
fn the_content_length_must_match_the_body() {
    let with = |length| [(":status", "200"), ("content-length", length)];
    let mut client = Client::asking(4);
    assert_eq!(client.failed(&headers(1, END, &with("1"))), Http2StreamError::Length);
    client.feed(&headers(3, 0, &with("2")));
    assert_eq!(client.failed(&data(3, END, b"1")), Http2StreamError::Length);
    client.feed(&headers(5, 0, &with("2")));
    assert_eq!(client.failed(&data(5, 0, b"123")), Http2StreamError::Length);
    client.feed(&headers(7, 0, &with("2")));
    assert_eq!(client.ended(&data(7, END, b"12")).body_bytes, 2);
}

#[test]
fn two_lengths_must_agree_and_be_numbers() {
    for (lengths, expected) in [
        (["5", "6"], Some(Http2StreamError::LengthConflict)),
        (["5", "x"], Some(Http2StreamError::Header)),
        (["", "5"], Some(Http2StreamError::Header)),
        (["-5", "5"], Some(Http2StreamError::Header)),
        (["99999999999999999999", "5"], Some(Http2StreamError::Header)),
        (["000000000000000000005", "5"], Some(Http2StreamError::Header)),
        (["5", "5"], None),
    ] {
        let mut client = Client::asking(1);
        let fields =
            [(":status", "200"), ("content-length", lengths[0]), ("content-length", lengths[1])];
        let seen = client.feed(&headers(1, 0, &fields));
        match expected {
            Some(why) => assert_eq!(seen[1], Seen::Failed(0, why), "{lengths:?}"),
            None => assert_eq!(seen[1], Seen::Head(0, 200)),
        }
    }
}

#[test]
fn some_responses_have_no_body_whatever_length_they_state() {
    for (method, status) in [("HEAD", "200"), ("GET", "204"), ("GET", "304")] {
        let mut client = Client::new();
        client.connection.open_stream(&request(method, None), 0);
        client.connection.open_stream(&request(method, None), 1);
        let fields = [(":status", status), ("content-length", "1000")];
        assert_eq!(client.ended(&headers(1, END, &fields)).body_bytes, 0);
        client.feed(&headers(3, 0, &fields));
        assert_eq!(client.failed(&data(3, 0, b"x")), Http2StreamError::Length);
    }
}

#[test]
fn malformed_heads_fail_their_stream_and_no_other() {
    for (fields, expected) in [
        (&[("a", "b")][..], Http2StreamError::Status),
        (&[(":status", "200"), (":status", "200")], Http2StreamError::Status),
        (&[(":status", "20")], Http2StreamError::Status),
        (&[(":status", "2000")], Http2StreamError::Status),
        (&[(":status", "2x0")], Http2StreamError::Status),
        (&[(":status", "099")], Http2StreamError::Status),
        (&[("a", "b"), (":status", "200")], Http2StreamError::Header),
        (&[(":status", "200"), (":path", "/")], Http2StreamError::Header),
        (&[(":status", "200"), (":other", "/")], Http2StreamError::Header),
        (&[(":status", "200"), ("Server", "a")], Http2StreamError::Header),
        (&[(":status", "200"), ("a b", "a")], Http2StreamError::Header),
        (&[(":status", "200"), ("", "a")], Http2StreamError::Header),
        (&[(":status", "200"), ("connection", "close")], Http2StreamError::Header),
        (&[(":status", "200"), ("transfer-encoding", "chunked")], Http2StreamError::Header),
    ] {
        let mut client = Client::asking(2);
        assert_eq!(client.failed(&headers(1, 0, fields)), expected, "{fields:?}");
        assert_eq!(client.written(), super::frames::parse(&reset(1, 1)));
        // Later frames on it are ignored.
        assert_eq!(client.feed(&data(1, END, b"x")), []);
        assert_eq!(client.ended(&headers(3, END, OK)).status, 200);
    }
}

#[test]
fn a_body_before_its_head_fails_the_stream() {
    let mut client = Client::asking(1);
    assert_eq!(client.failed(&data(1, 0, b"x")), Http2StreamError::Order);
}

#[test]
fn padding_is_not_part_of_the_body() {
    let mut client = Client::asking(1);
    let mut padded = vec![3];
    padded.extend(block(OK));
    padded.extend([0; 3]);
    client.feed(&frame(HEADERS, END_HEADERS | PADDED, 1, &padded));
    assert_eq!(
        client.feed(&frame(DATA, PADDED, 1, b"\x02ab\0\0")),
        [Seen::Data(0, b"ab".to_vec())]
    );
    assert_eq!(client.feed(&frame(DATA, PADDED, 1, b"\x02\0\0")), []);
    let summary = client.ended(&frame(DATA, PADDED | END, 1, b"\0c"));
    assert_eq!((summary.body_bytes, summary.framing_bytes), (3, 27 + 3 + 3 + 1));
}

#[test]
fn a_head_may_have_a_priority_and_come_in_several_frames() {
    let mut client = Client::asking(1);
    let coded = block(&[(":status", "200"), ("content-length", "0"), ("a", "b")]);
    let mut first = vec![0, 0, 0, 0, 16];
    first.extend(&coded[..4]);
    // END_STREAM and PRIORITY.
    assert_eq!(client.feed(&frame(HEADERS, 0x21, 1, &first)), [Seen::FirstByte(0)]);
    assert_eq!(client.connection.phase(0), ResponsePhase::Head);
    assert_eq!(client.feed(&frame(CONTINUATION, 0, 1, &coded[4..20])), []);
    let seen = client.feed(&frame(CONTINUATION, END_HEADERS, 1, &coded[20..]));
    assert_eq!(seen[0], Seen::Head(0, 200));
    assert!(
        matches!(seen[1], Seen::Ended(0, summary) if summary.head_bytes == 27 + 5 + coded.len() as u64)
    );
}

#[test]
fn a_reset_distinguishes_refused_from_failed_requests() {
    let mut client = Client::asking(3);
    assert_eq!(client.failed(&reset(1, 7)), Http2StreamError::Refused);
    assert_eq!(client.failed(&reset(3, 2)), Http2StreamError::Reset(Http2ErrorCode(2)));
    client.ended(&headers(5, END, OK));
    assert_eq!(client.feed(&reset(5, 0)), [], "a reset after the end means nothing");
    assert_eq!(client.written(), [], "a reset is not answered");
}

#[test]
fn an_answer_may_come_before_the_request_is_sent() {
    let mut client = Client::new();
    client.connection.open_stream(&request("POST", Some(&[0; 100_000])), 0);
    client.written();
    assert!(client.connection.waits_for_window(0));
    assert_eq!(client.ended(&headers(1, END, &[(":status", "413")])).status, 413);
    assert_eq!(client.written(), super::frames::parse(&reset(1, 8)));
    assert_eq!(client.feed(&super::frames::window_update(0, 100_000)), []);
    assert_eq!(client.written(), []);
}

#[test]
fn a_cancelled_stream_is_silent() {
    let mut client = Client::asking(2);
    client.feed(&headers(1, 0, OK));
    client.connection.cancel_stream(0);
    client.connection.cancel_stream(77);
    assert_eq!(client.written(), super::frames::parse(&reset(1, 8)));
    assert_eq!(client.feed(&data(1, 0, b"late")), []);
    assert_eq!(client.feed(&headers(1, END, &[("late", "trailers")])), []);
    assert_eq!(client.connection.open_streams(), 1);
}

#[test]
fn floods_of_empty_frames_change_nothing() {
    let mut client = Client::asking(1);
    client.feed(&headers(1, 0, OK));
    for _ in 0..10_000 {
        assert_eq!(client.feed(&data(1, 0, b"")), []);
    }
    let summary = client.ended(&data(1, END, b""));
    assert_eq!((summary.body_bytes, summary.framing_bytes), (0, 9 * 10_001));
    assert_eq!(client.written(), []);
}
