//! Which of ab's four kinds a failure belongs to, each to exactly one.
//!
//! The original counts one event in several kinds, so its sum may exceed the number of requests.
//! Start at [`Failures::of`].

use speedwell_load::books::{Books, Class};

/// Failed requests by the kinds of the original's report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Failures {
    /// There was no connection, TLS included.
    pub connect: u64,
    /// The connection broke, or the answer did not come in time.
    pub receive: u64,
    /// The body was shorter than its head said.
    pub length: u64,
    /// What came was no answer, or not the one that `--verify` wants.
    pub exceptions: u64,
    /// The request could not be written. The original tells these on a line of their own.
    pub write: u64,
}

impl Failures {
    /// Sorts the failures of a load.
    pub fn of(books: &Books) -> Failures {
        let mut failures = Failures::default();
        for class in Class::all() {
            *failures.place(class) += books.errors(class);
        }
        failures
    }

    fn place(&mut self, class: Class) -> &mut u64 {
        match class.phase() {
            // Their connections had been made.
            _ if is_tls_of_an_answer(class) => &mut self.receive,
            "dns" | "connect" | "tls" => &mut self.connect,
            "send" => &mut self.write,
            _ if class == Class::TimeoutConnect => &mut self.connect,
            _ if class == Class::EofInBody => &mut self.length,
            "reset" | "eof" | "timeout" | "h2" | "h3" => &mut self.receive,
            _ => &mut self.exceptions,
        }
    }

    /// The number behind `Failed requests`.
    pub fn failed(&self) -> u64 {
        self.connect + self.receive + self.length + self.exceptions
    }
}

/// Whether a failure ends the test unless `-r` is given: errors of sockets do, answers that are
/// wrong do not.
pub fn ends_test(class: Class) -> bool {
    let phases = ["dns", "connect", "tls", "send", "reset", "timeout"];
    phases.contains(&class.phase()) && class != Class::TlsTruncated
}

fn is_tls_of_an_answer(class: Class) -> bool {
    matches!(class, Class::TlsRecord | Class::TlsTruncated)
}

/// Whether a failure ends the test also with `-r`, because every further request would fail alike.
pub fn ends_any_test(class: Class) -> bool {
    matches!(class, Class::Dns | Class::TlsVerify | Class::TlsAlpn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_of_exactly_one_kind() {
        let mut books = Books::new();
        for class in Class::all() {
            books.attempt();
            books.failed(class);
        }
        let failures = Failures::of(&books);
        assert_eq!(failures.failed() + failures.write, Class::COUNT as u64);
        assert_eq!((failures.length, failures.write), (1, 1));
        // dns, four of connect, three of tls, and the limit of time for connecting.
        assert_eq!(failures.connect, 9);
    }

    #[test]
    fn the_server_that_closes_politely_does_not_end_the_test() {
        assert!(ends_test(Class::ResetInHead) && ends_test(Class::ConnectRefused));
        assert!(!ends_test(Class::EofInBody) && !ends_test(Class::Assertion));
        assert!(ends_test(Class::TlsRecord) && !ends_test(Class::TlsTruncated));
        assert!(ends_any_test(Class::TlsVerify) && !ends_any_test(Class::ConnectRefused));
    }
}
