//! Everything that a report says, before it is laid out.
//!
//! Decides which of the original's lines are there and in which order. Two layouts print them: `text`
//! and `html`. What Speedwell adds is in `added`. Start at [`Report::facts`].

pub mod added;
pub mod html;
pub mod text;

use super::address::Url;
use super::arguments::Request;
use super::figures::Figures;
use super::tls_line;
use speedwell_load::generator::TlsFacts;
use speedwell_load::outcomes::ErrorClass;

/// Why a test ended before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutShort {
    /// A request failed in this way, and `-r` was not given or would not have helped.
    Failed(ErrorClass),
    /// The user wished so.
    Interrupted,
}

impl CutShort {
    /// What happened, as a fragment of a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            CutShort::Failed(class) => class.sentence(),
            CutShort::Interrupted => "it was interrupted",
        }
    }
}

/// A report before it is laid out.
#[derive(Debug)]
pub struct Report<'a> {
    /// What was asked for.
    pub request: &'a Request,
    /// What was tested.
    pub url: &'a Url,
    /// What the server calls itself.
    pub server: Option<String>,
    /// What was agreed with TLS.
    pub tls: Option<TlsFacts>,
    /// The figures.
    pub figures: Figures,
    /// Why it is not whole.
    pub cut_short: Option<CutShort>,
}

/// A line of the first part of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// A name and what stands behind it.
    Field(&'static str, String),
    /// The failures by kind.
    Kinds(String),
    /// An empty line in text.
    Gap,
}

impl Report<'_> {
    /// The lines from the name of the server to the bytes of bodies.
    pub fn facts(&self) -> Vec<Line> {
        let mut lines = self.server_lines();
        lines.push(Line::Gap);
        lines.extend(self.document_lines());
        lines.push(Line::Gap);
        lines.extend(self.count_lines());
        lines
    }

    fn server_lines(&self) -> Vec<Line> {
        let host = &self.url.host;
        let mut lines = vec![
            field("Server Software", self.server.as_deref().unwrap_or("")),
            field("Server Hostname", &host.name),
            field("Server Port", host.port),
        ];
        if let Some(tls) = &self.tls {
            lines.push(field("SSL/TLS Protocol", tls_line::protocol(tls)));
            let key = tls.group.as_deref().map(tls_line::temporary_key);
            lines.extend(key.map(|key| field("Server Temp Key", key)));
            // An address is no name (RFC 6066, section 3), so it is not sent.
            let is_name = host.name.parse::<std::net::IpAddr>().is_err();
            lines.extend(is_name.then(|| field("TLS Server Name", &host.name)));
        }
        lines
    }

    fn document_lines(&self) -> Vec<Line> {
        let length = self.figures.lengths.map_or(0, |lengths| lengths.first);
        let length = if self.request.shown.varying {
            "Variable".to_owned()
        } else {
            format!("{length} bytes")
        };
        vec![
            field("Document Path", &self.url.path),
            field("Document Length", length),
        ]
    }

    fn count_lines(&self) -> Vec<Line> {
        let figures = &self.figures;
        let failures = &figures.failures;
        let seconds = figures.elapsed_ns as f64 / 1e9;
        let mut lines = vec![
            field("Concurrency Level", figures.concurrency),
            field("Time taken for tests", format!("{seconds:.3} seconds")),
            field("Complete requests", figures.complete),
            field("Failed requests", failures.failed()),
        ];
        if failures.failed() > 0 {
            lines.push(Line::Kinds(format!(
                "   (Connect: {}, Receive: {}, Length: {}, Exceptions: {})",
                failures.connect, failures.receive, failures.length, failures.exceptions
            )));
        }
        if failures.write > 0 {
            lines.push(field("Write errors", failures.write));
        }
        if figures.non2xx > 0 {
            lines.push(field("Non-2xx responses", figures.non2xx));
        }
        if self.request.keeps_alive {
            lines.push(field("Keep-Alive requests", figures.kept_alive));
        }
        let bytes = |count| format!("{count} bytes");
        lines.push(field("Total transferred", bytes(figures.received_bytes)));
        let sent = figures.sent_bytes;
        lines.extend(sent.map(|sent| field("Total body sent", sent)));
        lines.push(field("HTML transferred", bytes(figures.body_bytes)));
        lines
    }

    /// The bytes per second that were received and, with a body to send, sent and both together, in
    /// kilobytes.
    fn transfer_rates(&self) -> Vec<f64> {
        let figures = &self.figures;
        let received = figures.received_bytes;
        let mut bytes = vec![received];
        if let Some(sent) = figures.sent_bytes {
            bytes.extend([sent, sent + received]);
        }
        let rates = bytes.into_iter();
        rates
            .filter_map(|bytes| figures.kilobytes_per_second(bytes))
            .collect()
    }
}

fn field(name: &'static str, value: impl ToString) -> Line {
    Line::Field(name, value.to_string())
}
