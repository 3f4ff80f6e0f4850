//! Flow-control windows in both directions.

use super::frames::{
    DATA, END, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, data, frame, headers, settings,
    window_update,
};
use super::peer::{Client, Seen, request};
use speedwell_load::http2::{Http2ConnectionError, Http2Settings, Http2StreamError};

const INITIAL_WINDOW_SIZE: u16 = 4;
const OK: &[(&str, &str)] = &[(":status", "200")];

/// Stream ID and length of the DATA frames written, and whether each ended its stream.
fn bodies(client: &mut Client) -> Vec<(u32, usize, bool)> {
    let frames = client.written();
    let data = frames.iter().filter(|frame| frame.kind == DATA);
    data.map(|frame| (frame.stream, frame.payload.len(), frame.flags == END)).collect()
}

#[test]
fn a_body_that_fits_goes_with_its_head() {
    let mut client = Client::new();
    client.connection.open_stream(&request("POST", Some(b"hello")), 0);
    let frames = client.written();
    assert_eq!((frames[0].kind, frames[0].flags), (HEADERS, 4));
    assert_eq!(
        (frames[1].kind, frames[1].flags, &frames[1].payload[..]),
        (DATA, END, &b"hello"[..])
    );
    assert!(!client.connection.waits_for_window(0));
}

#[test]
fn a_large_body_goes_out_as_the_windows_allow() {
    let body: Vec<u8> = (0..100_000u32).map(|at| (at % 251) as u8).collect();
    let mut client = Client::with(&[(INITIAL_WINDOW_SIZE, 20_000)]);
    client.connection.open_stream(&request("POST", Some(&body)), 0);
    let mut sent: Vec<u8> = Vec::new();
    let mut take = |client: &mut Client| {
        for frame in client.written().into_iter().filter(|frame| frame.kind == DATA) {
            assert!(frame.payload.len() <= 16_384);
            sent.extend(&frame.payload);
        }
        sent.len()
    };
    assert_eq!(take(&mut client), 20_000);
    assert!(client.connection.waits_for_window(0));
    client.feed(&window_update(1, 60_000));
    assert_eq!(take(&mut client), 65_535, "the connection's window");
    assert!(client.connection.waits_for_window(0));
    client.feed(&window_update(0, 100_000));
    assert_eq!(take(&mut client), 80_000);
    client.feed(&window_update(1, 100_000));
    assert_eq!(take(&mut client), 100_000);
    assert!(!client.connection.waits_for_window(0));
    assert!(sent == body);
}

#[test]
fn streams_take_turns() {
    let mut client = Client::with(&[(INITIAL_WINDOW_SIZE, 1 << 20)]);
    client.feed(&window_update(0, 1 << 20));
    client.connection.open_stream(&request("POST", Some(&[0; 400_000])), 0);
    client.connection.open_stream(&request("POST", Some(&[1; 40_000])), 1);
    let mut order = Vec::new();
    for _ in 0..20 {
        order.extend(bodies(&mut client));
    }
    let second = order.iter().filter(|(stream, ..)| *stream == 3).count();
    let last_of_second = order.iter().rposition(|(stream, ..)| *stream == 3).unwrap();
    assert_eq!(second, 3);
    assert!(last_of_second + 2 < order.len(), "the short one ends before the long one");
    assert_eq!(order.iter().map(|(_, length, _)| length).sum::<usize>(), 440_000);
    assert_eq!(order.iter().filter(|(.., ends)| *ends).count(), 2);
}

#[test]
fn a_large_body_is_not_copied_before_it_can_go() {
    let mut client = Client::with(&[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    client.feed(&window_update(0, 1 << 30));
    client.connection.open_stream(&request("POST", Some(&vec![0; 8 << 20])), 0);
    let mut total = 0;
    while !client.connection.output().is_empty() {
        assert!(client.connection.output().len() < 300_000);
        total += bodies(&mut client).iter().map(|(_, length, _)| length).sum::<usize>();
    }
    assert_eq!(total, 8 << 20);
}

#[test]
fn a_change_of_the_initial_window_concerns_open_streams() {
    let mut client = Client::with(&[(INITIAL_WINDOW_SIZE, 10)]);
    client.connection.open_stream(&request("POST", Some(&[0; 30])), 0);
    assert_eq!(bodies(&mut client), [(1, 10, false)]);
    // 5 less: the window is -5.
    client.feed(&settings(&[(INITIAL_WINDOW_SIZE, 5)]));
    client.feed(&window_update(1, 5));
    assert_eq!(bodies(&mut client), []);
    assert!(client.connection.waits_for_window(0));
    client.feed(&window_update(1, 3));
    assert_eq!(bodies(&mut client), [(1, 3, false)]);
    client.feed(&settings(&[(INITIAL_WINDOW_SIZE, 100)]));
    let frames = client.written();
    assert_eq!(frames[0].kind, SETTINGS, "the settings are acknowledged before they are used");
    assert_eq!((frames[1].kind, frames[1].payload.len()), (DATA, 17));
}

#[test]
fn windows_must_not_overflow() {
    let mut client = Client::asking(3);
    assert_eq!(client.failed(&window_update(1, 0x7fff_ffff)), Http2StreamError::Window);
    assert_eq!(client.failed(&window_update(3, 0)), Http2StreamError::NoIncrement);
    let resets: Vec<u32> = client
        .written()
        .iter()
        .filter(|frame| frame.kind == RST_STREAM)
        .map(|frame| u32::from(frame.payload[3]))
        .collect();
    assert_eq!(resets, [3, 1], "FLOW_CONTROL_ERROR, PROTOCOL_ERROR");
    client.feed(&window_update(5, 0x7fff_ffff - 65_535));
    let error = client.broken(&settings(&[(INITIAL_WINDOW_SIZE, 65_536)]));
    assert_eq!(error, Http2ConnectionError::FlowControl);
}

#[test]
fn window_updates_are_sent_when_half_of_a_window_is_used() {
    let mut client = Client::silent(&Http2Settings {
        stream_window: 1000,
        connection_window: 65_535,
        ..Http2Settings::default()
    });
    client.feed(&settings(&[]));
    client.feed(&frame(SETTINGS, END, 0, &[]));
    for token in 0..70 {
        client.connection.open_stream(&request("GET", None), token);
    }
    client.written();
    let mut credits = Vec::new();
    for token in 0..70 {
        let stream = token * 2 + 1;
        client.feed(&headers(stream, 0, OK));
        client.feed(&data(stream, 0, &[0; 500]));
        assert_eq!(client.feed(&data(stream, 0, b"")), []);
        client.feed(&data(stream, 0, &[0; 1]));
        credits.extend(client.written());
    }
    let updates = |of_connection: bool| -> Vec<u32> {
        let found = credits
            .iter()
            .filter(|frame| frame.kind == WINDOW_UPDATE && (frame.stream == 0) == of_connection);
        found.map(|frame| u32::from_be_bytes(frame.payload[..].try_into().unwrap())).collect()
    };
    assert_eq!(updates(false), vec![501; 70]);
    // 66 streams send more than half of 65 535 bytes; the 66th's first frame exceeds it.
    assert_eq!(updates(true), [501 * 65 + 500]);
}

#[test]
fn data_of_ended_or_cancelled_streams_updates_only_the_connection_window() {
    let mut client = Client::silent(&Http2Settings {
        stream_window: 16_000,
        connection_window: 65_535,
        ..Http2Settings::default()
    });
    client.feed(&settings(&[]));
    for token in 0..5 {
        client.connection.open_stream(&request("GET", None), token);
    }
    client.connection.cancel_stream(0);
    client.written();
    client.feed(&data(1, 0, &[0; 16_000]));
    for stream in [3, 5] {
        client.feed(&headers(stream, 0, OK));
        client.feed(&data(stream, END, &[0; 16_000]));
    }
    let frames = client.written();
    assert_eq!(frames.len(), 1);
    assert_eq!((frames[0].kind, frames[0].stream), (WINDOW_UPDATE, 0));
}

#[test]
fn exceeding_a_window_is_an_error_only_after_settings_are_acknowledged() {
    let begin = || {
        let mut client =
            Client::silent(&Http2Settings { stream_window: 100, ..Http2Settings::default() });
        client.feed(&settings(&[]));
        client.connection.open_stream(&request("GET", None), 0);
        client.feed(&headers(1, 0, OK));
        client
    };
    let mut client = begin();
    let early = client.feed(&data(1, 0, &[0; 16_384]));
    assert_eq!(early, [Seen::Data(0, vec![0; 16_384])], "it had not seen our settings");
    let mut client = begin();
    client.feed(&frame(SETTINGS, END, 0, &[]));
    assert_eq!(client.broken(&data(1, 0, &[0; 101])), Http2ConnectionError::FlowControl);
}
