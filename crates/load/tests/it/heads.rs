//! Random heads, valid and damaged, compared with httparse. The requests are HEAD, so that
//! responses consist of the head only.

use super::pieces::{LIMITS, check};
use super::streams::Draw;
use speedwell_load::http1::{HeadLimits, MethodKind};

const NAMES: [&str; 6] =
    ["Server", "Content-Type", "x-a", "DATE", "Connection", "E!#$%&'*+-.^_`|~Tag"];
const VALUES: [&str; 6] =
    ["", "nginx/1.22.1", "text/plain; charset=utf-8", "\t a\tb ", "close", "\u{e9}:,;=\"\\"];

fn head(draw: &mut Draw) -> Vec<u8> {
    let line_ends = ["\r\n", "\r\n", "\r\n", "\n"];
    let mut head = format!("HTTP/1.{} {}", draw.below(2), 200 + draw.below(400));
    head += draw.of(&["", " ", " OK", " \u{e9}\t"]);
    head += draw.of(&line_ends);
    for _ in 0..draw.below(8) {
        let (name, value) = (draw.of(&NAMES), draw.of(&VALUES));
        let colon = draw.of(&[":", ": ", ": ", ":\t "]);
        let fold = draw.of(&["", "", "", "\r\n more"]);
        head += &format!("{name}{colon}{value}{fold}{}", draw.of(&line_ends));
    }
    (head + draw.of(&line_ends)).into_bytes()
}

/// httparse's result: length of the head, status and Content-Type; `None` for an incomplete head,
/// an error for a malformed one.
type Verdict = Result<Option<(usize, u16, Option<Vec<u8>>)>, httparse::Error>;

fn httparse_reads(bytes: &[u8]) -> Verdict {
    let mut fields = [httparse::EMPTY_HEADER; LIMITS.fields];
    let mut response = httparse::Response::new(&mut fields);
    let mut config = httparse::ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    let status = config.parse_response(&mut response, bytes)?;
    let httparse::Status::Complete(length) = status else {
        return Ok(None);
    };
    let content_type = response
        .headers
        .iter()
        .find(|field| field.name.eq_ignore_ascii_case("content-type"))
        .map(|field| field.value.trim_ascii().to_vec());
    Ok(Some((length, response.code.unwrap(), content_type)))
}

/// Excludes intentional differences: httparse skips empty lines before a response and accepts
/// status codes below 100; it does not accept versions 1.2 to 1.9.
fn is_judged_alike(bytes: &[u8]) -> bool {
    let minor = bytes.get(7).copied().unwrap_or(b'1');
    let code = bytes.get(9).copied().unwrap_or(b'2');
    !matches!(bytes.first(), Some(b'\r' | b'\n'))
        && !(b'2'..=b'9').contains(&minor)
        && !matches!(code, b'0' | b'1')
}

#[test]
fn heads_are_read_as_httparse_reads_them() {
    let mut draw = Draw::new(1);
    let (mut complete, mut malformed, mut damaged_complete) = (0, 0, 0);
    for _ in 0..6000 {
        let mut bytes = head(&mut draw);
        let damages = draw.below(3);
        for _ in 0..damages {
            draw.damage(&mut bytes);
        }
        if !is_judged_alike(&bytes) {
            continue;
        }
        let lengths = [1 + draw.below(30), 1 + draw.below(90)];
        let ours = check(&[MethodKind::Head], &bytes, &lengths);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match httparse_reads(&bytes) {
            Ok(Some((length, status, content_type))) => {
                let Some(summary) = ours.ended.first() else {
                    panic!("complete for httparse, not for us: {text:?} {ours:?}")
                };
                assert_eq!(
                    (summary.head_bytes as usize, summary.status),
                    (length, status),
                    "{text:?}"
                );
                assert_eq!(ours.content_types[0], content_type, "{text:?}");
                complete += 1;
                damaged_complete += usize::from(damages > 0);
            }
            // One of them may detect an error before the end and the other only later.
            Ok(None) => assert!(ours.ended.is_empty(), "{text:?}"),
            Err(error) => {
                assert!(ours.ended.is_empty(), "httparse says {error} to {text:?}");
                malformed += 1;
            }
        }
    }
    assert!(
        complete > 1500 && malformed > 600 && damaged_complete > 300,
        "{complete} complete, {malformed} malformed, {damaged_complete} damaged and complete"
    );
}

#[test]
fn the_description_of_too_large_a_head_names_the_limits() {
    let limits = HeadLimits::default();
    let named = format!("{} KiB or {} fields", limits.head_bytes >> 10, limits.fields);
    let class = speedwell_model::load::outcomes::ErrorClass::ProtocolHeader;
    assert!(class.description().ends_with(&named));
}
