//! Byte streams of servers that load generators are known to miscount. Each is read as a whole,
//! byte by byte and in uneven pieces.

use super::pieces::{Outcome, check};
use speedwell_load::http1::{
    MethodKind, ResponseEnd, ResponseError, ResponsePhase, ResponseReader, ResponseSummary,
};

fn get(stream: &str) -> Outcome {
    check(&[MethodKind::Body], stream.as_bytes(), &[7, 3, 20])
}

#[track_caller]
fn only(outcome: &Outcome) -> ResponseSummary {
    assert_eq!(outcome.ending, Ok(ResponseEnd::Idle), "{outcome:?}");
    let [summary] = outcome.ended[..] else { panic!("not one response: {outcome:?}") };
    summary
}

#[track_caller]
fn expect_broken(stream: &str, error: ResponseError) {
    let outcome = get(stream);
    assert_eq!(outcome.ending, Err(error), "{stream:?}");
}

#[test]
fn bodies_of_varying_length_are_all_good() {
    let mut stream = String::new();
    for length in 1..=5 {
        let body = "x".repeat(length);
        stream += &format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
    }
    let outcome = check(&[MethodKind::Body; 5], stream.as_bytes(), &[11, 60]);
    let lengths: Vec<u64> = outcome.ended.iter().map(|ended| ended.body_bytes).collect();
    assert_eq!(lengths, [1, 2, 3, 4, 5]);
    assert_eq!(outcome.ending, Ok(ResponseEnd::Idle));
}

#[test]
fn a_body_that_ends_too_soon_is_short_and_not_complete() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
    let outcome = get(&format!("{head}{}", "x".repeat(50)));
    let Ok(ResponseEnd::InBody(short)) = outcome.ending else { panic!("{outcome:?}") };
    assert_eq!((short.status, short.body_bytes), (200, 50));
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    assert!(matches!(get(chunked).ending, Ok(ResponseEnd::InBody(s)) if s.body_bytes == 5));
    let no_last_line = format!("{chunked}0\r\n");
    assert!(matches!(get(&no_last_line).ending, Ok(ResponseEnd::InBody(_))));
}

#[test]
fn an_early_end_reports_the_phase_that_the_response_reached() {
    assert_eq!(get("").ending, Ok(ResponseEnd::BeforeFirstByte));
    assert!(matches!(get("H").ending, Ok(ResponseEnd::InHead(_))));
    let cut = get("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n").ending;
    assert!(
        matches!(cut, Ok(ResponseEnd::InHead(head)) if head.head_bytes == 36 && head.status == 0)
    );
    let interim_only = get("HTTP/1.1 103 Early Hints\r\n\r\n").ending;
    assert!(matches!(interim_only, Ok(ResponseEnd::InHead(head)) if head.interim == 1));
}

#[test]
fn the_phase_follows_the_bytes() {
    let mut reply = ResponseReader::default();
    assert_eq!(reply.phase(), ResponsePhase::Idle);
    reply.expect_response(MethodKind::Body);
    assert_eq!(reply.phase(), ResponsePhase::FirstByte);
    for (bytes, phase) in [
        ("HTTP/1.1 200 OK\r\n", ResponsePhase::Head),
        ("Content-Length: 2\r\n\r\n", ResponsePhase::Body),
        ("a", ResponsePhase::Body),
        ("b", ResponsePhase::Idle),
    ] {
        reply.feed(bytes.as_bytes()).unwrap();
        assert_eq!(reply.phase(), phase, "after {bytes:?}");
    }
}

#[test]
fn an_error_status_is_a_response_like_any_other() {
    let failed = only(&get("HTTP/1.1 500 Oh dear\r\nContent-Length: 2\r\n\r\nno"));
    assert!(failed.reusable && failed.status == 500 && failed.body_bytes == 2);
}

#[test]
fn early_hints_are_interim_responses() {
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let summary = only(&get(&format!("{hints}HTTP/1.1 100 Continue\r\n\r\n{hints}{ok}")));
    assert_eq!((summary.status, summary.interim), (200, 3));
    assert_eq!(summary.body_bytes, 2);
    expect_broken("HTTP/1.1 101 Switching Protocols\r\n\r\n", ResponseError::Switched);
}

#[test]
fn the_connection_field_decides_whether_a_connection_is_reusable() {
    for (fields, reusable) in [
        ("", true),
        ("Connection: close\r\n", false),
        ("connection: Keep-Alive, CLOSE\r\n", false),
        ("Connection: upgrade ,close\r\nConnection: keep-alive\r\n", false),
        ("Connection: closed\r\n", true),
    ] {
        let stream = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        assert_eq!(only(&get(&stream)).reusable, reusable, "{fields}");
    }
    for (fields, reusable) in [
        ("", false),
        ("Connection: Keep-Alive\r\n", true),
        ("Connection: keep-alive, close\r\n", false),
    ] {
        let stream = format!("HTTP/1.0 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
        assert_eq!(only(&get(&stream)).reusable, reusable, "1.0 {fields}");
    }
}

#[test]
fn a_body_until_the_end_of_the_connection_is_complete() {
    for stream in [
        "HTTP/1.1 200 OK\r\n\r\nhello",
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 2\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\nhello",
    ] {
        let outcome = get(stream);
        let Ok(ResponseEnd::Complete(all)) = outcome.ending else {
            panic!("{stream:?}: {outcome:?}")
        };
        assert!(all.until_eof && !all.reusable && all.body_bytes == 5);
        assert_eq!(outcome.bodies, [b"hello"]);
    }
}

#[test]
fn some_responses_have_no_body_whatever_they_say() {
    let fields = "Content-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (method, status) in [
        (MethodKind::Body, 204),
        (MethodKind::Body, 304),
        (MethodKind::Head, 200),
        (MethodKind::Head, 404),
        (MethodKind::Connect, 200),
    ] {
        for fields in [fields, "\r\n", "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"] {
            let stream = format!("HTTP/1.1 {status} X\r\n{fields}");
            let summary = only(&check(&[method], stream.as_bytes(), &[5, 1]));
            assert_eq!((summary.status, summary.body_bytes), (status, 0));
            assert_eq!(summary.reusable, method != MethodKind::Connect);
        }
    }
    let mixed = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n".repeat(2) + "abc";
    let outcome = check(&[MethodKind::Head, MethodKind::Body], mixed.as_bytes(), &[45]);
    assert_eq!((outcome.ended[0].body_bytes, outcome.ended[1].body_bytes), (0, 3));
}

#[test]
fn data_other_than_http_is_rejected_at_its_first_byte() {
    let mut reply = ResponseReader::default();
    reply.expect_response(MethodKind::Body);
    assert_eq!(reply.feed(b"S"), Err(ResponseError::NotHttp));
    expect_broken("SSH-2.0-OpenSSH_9.2\r\n", ResponseError::NotHttp);
    expect_broken("\r\nHTTP/1.1 200 OK\r\n\r\n", ResponseError::NotHttp);
    for line in [
        "HTTP/2 200",
        "HTTP/1.1 20",
        "HTTP/1.1 2000",
        "HTTP/1.1  200 OK",
        "HTTP/1.1 099 X",
        "HTTP/1.x 200 OK",
        "HTTP/1.1 200 O\0K",
        "HTTP/1.1\t200 OK",
        "HTTP/",
    ] {
        expect_broken(&format!("{line}\r\n\r\n"), ResponseError::StatusLine);
    }
    assert_eq!(only(&get("HTTP/1.1 204\r\n\r\n")).status, 204);
}

#[test]
fn malformed_fields_are_errors_and_folded_ones_are_not() {
    for field in [
        "no colon",
        "Name : blank before colon",
        ": no name",
        "Bare: C\rR",
        "Nul: \0",
        "Na\u{e9}me: x",
        "Content-Length: -1",
        "Content-Length: 5 5",
        "Content-Length:",
        "Content-Length: 99999999999999999999",
        "Content-Length: 0x5",
        "Content-Length: 5,",
        "Transfer-Encoding: chunked, chunked",
    ] {
        expect_broken(
            &format!("HTTP/1.1 200 OK\r\nA: b\r\n{field}\r\n\r\n"),
            ResponseError::Header,
        );
    }
    expect_broken("HTTP/1.1 200 OK\r\n leading: blank\r\n\r\n", ResponseError::Header);
    let folded = get(
        "HTTP/1.1 200 OK\r\nConnection: keep-alive,\r\n\t close\r\nContent-Type: a/b;\r\n c=d \r\nContent-Length:\r\n 2\r\n\r\nok",
    );
    let summary = only(&folded);
    assert!(!summary.reusable && summary.body_bytes == 2);
    assert_eq!(folded.content_types, [Some(b"a/b;\r\n c=d".to_vec())]);
}

#[test]
fn lengths_may_be_repeated_and_may_not_differ() {
    for fields in ["Content-Length: 2\r\ncontent-length: 2", "Content-Length: 2, 2 ,02"] {
        let summary = only(&get(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok")));
        assert_eq!(summary.body_bytes, 2);
    }
    for fields in ["Content-Length: 2\r\nContent-Length: 3", "Content-Length: 2, 3"] {
        expect_broken(
            &format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nok"),
            ResponseError::LengthConflict,
        );
    }
}

#[test]
fn chunks_have_extensions_and_trailers_and_win_over_a_length() {
    let body = "5;a=b;c=\"d e\"\r\nhello\r\n1B \r\n, all of you in this place.\r\n0000\r\nSum: 1\r\nX:\r\n\r\n";
    let fields = "Content-Length: 3\r\nTransfer-Encoding: gzip, Chunked\r\n";
    let stream = format!("HTTP/1.1 200 OK\r\n{fields}\r\n{body}");
    let outcome = get(&stream);
    let summary = only(&outcome);
    assert_eq!(outcome.bodies, [b"hello, all of you in this place."]);
    assert!(summary.doubtful_framing && summary.reusable);
    assert_eq!(summary.framing_bytes as usize, body.len() - 32);
    assert_eq!(summary.wire_bytes() as usize, stream.len());
    let old = stream
        .replace("HTTP/1.1", "HTTP/1.0")
        .replace("Content-Length: 3", "Connection: keep-alive");
    assert!(!only(&get(&old)).reusable);
}

#[test]
fn malformed_chunks_are_errors() {
    for body in [
        "x",
        "\r\n",
        "-1\r\n",
        "5\r\nhello!\r\n",
        "5\rhello",
        "5 5\r\n",
        "0\r\nno colon\r\n",
        "0\r\n folded: x\r\n",
        "11111111111111111\r\n",
        "1;\0\r\n",
        ";a\r\n",
        "0x5\r\n",
    ] {
        expect_broken(
            &format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"),
            ResponseError::Chunk,
        );
    }
    let endless =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;{}", "a".repeat(1 << 15));
    expect_broken(&endless, ResponseError::Chunk);
}

#[test]
fn bare_line_feeds_end_lines_as_they_do_for_curl() {
    let length = only(&get("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"));
    assert_eq!((length.status, length.body_bytes), (200, 2));
    let chunked = get("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\n\r\n2\nok\n0\n\n");
    assert_eq!(only(&chunked).body_bytes, 2);
}

#[test]
fn a_head_without_end_is_refused_at_the_limit() {
    let line = "HTTP/1.1 200 OK\r\n";
    expect_broken(&format!("{line}A: {}", "x".repeat(10_000)), ResponseError::HeadTooLarge);
    let fields = |count| format!("{line}{}\r\n", "A: b\r\n".repeat(count));
    expect_broken(&fields(13), ResponseError::HeadTooLarge);
    assert!(matches!(get(&fields(12)).ending, Ok(ResponseEnd::Complete(_))));
    // The limit is 600 bytes in total.
    let head = |length: usize| format!("{line}A: {}\r\n\r\n", "x".repeat(length - line.len() - 7));
    assert!(
        matches!(get(&head(600)).ending, Ok(ResponseEnd::Complete(all)) if all.head_bytes == 600)
    );
    expect_broken(&head(601), ResponseError::HeadTooLarge);
}

#[test]
fn bytes_that_nobody_asked_for_are_errors() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    let outcome = get(&format!("{ok}!"));
    assert_eq!(outcome.ended.len(), 1);
    assert_eq!(outcome.ending, Err(ResponseError::Extra));
    let early = check(&[], ok.as_bytes(), &[4]);
    assert_eq!(early.ending, Err(ResponseError::Early));
}

#[test]
fn a_reader_can_be_reused_after_a_reset() {
    let mut reply = ResponseReader::default();
    reply.expect_response(MethodKind::Body);
    assert!(reply.feed(b"HTTP/1.1 200 OK\r\nbroken\r\nA").is_err());
    reply.reset();
    assert_eq!(reply.phase(), ResponsePhase::Idle);
    reply.expect_response(MethodKind::Body);
    let progress = reply.feed(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert_eq!(progress.ended.map(|ended| ended.status), Some(204));
}
