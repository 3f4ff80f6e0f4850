//! What `-v` shows: from 2 on the request and the first answer, from 3 on the status of every answer.
//!
//! The original prints every answer as it comes. That would be part of what is measured, so here
//! answers are told after the test, and the body of the first one only. Start at [`before`].

use speedwell_load::generator::Probe;
use speedwell_load::http1::Request;
use speedwell_load::measured::RequestRecord;
use std::io::{self, Write};

/// The level that shows the request and the first answer.
const EXCHANGE: u32 = 2;

/// The level that shows statuses.
const STATUSES: u32 = 3;

/// Shows the request before the test.
///
/// # Errors
/// `out` is closed.
pub fn before(verbosity: u32, request: &Request, out: &mut dyn Write) -> io::Result<()> {
    if verbosity < EXCHANGE {
        return Ok(());
    }
    let head = &request.bytes()[..request.bytes().len() - request.body().len()];
    let text = String::from_utf8_lossy(head).replace("\r\n", "\n");
    let method = text.split(' ').next().unwrap_or_default();
    writeln!(out, "INFO: {method} header == \n---\n{text}\n---")
}

/// Shows what came, after the test.
///
/// # Errors
/// `out` is closed.
pub fn after(
    verbosity: u32,
    first: Option<&Probe>,
    rows: &[RequestRecord],
    out: &mut dyn Write,
) -> io::Result<()> {
    if let Some(first) = first.filter(|_| verbosity >= EXCHANGE) {
        writeln!(out, "LOG: first answer: status {}", first.status)?;
        for (name, value) in [
            ("Server", &first.server),
            ("Content-Type", &first.content_type),
            ("Location", &first.location),
        ] {
            if let Some(value) = value {
                writeln!(out, "{name}: {value}")?;
            }
        }
        writeln!(out, "\n{}\n", String::from_utf8_lossy(&first.body))?;
    }
    if verbosity >= STATUSES {
        for row in rows.iter().filter(|row| row.status != 0) {
            writeln!(out, "LOG: Response code = {}", row.status)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::made::row;
    use super::*;
    use speedwell_load::http1::RequestParts;

    #[test]
    fn the_request_and_the_statuses_are_shown_if_wished() {
        let request = Request::new(&RequestParts {
            method: "POST",
            target: "/a",
            host: "h",
            body: Some(b"secret"),
            ..RequestParts::default()
        })
        .unwrap();
        let shown = |verbosity| {
            let mut out = Vec::new();
            before(verbosity, &request, &mut out).unwrap();
            after(verbosity, None, &[row(1)], &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(1), "");
        let head =
            "INFO: POST header == \n---\nPOST /a HTTP/1.1\nHost: h\nContent-Length: 6\n\n\n---\n";
        assert_eq!(shown(2), head);
        assert_eq!(shown(3), format!("{head}LOG: Response code = 200\n"));
    }
}
