//! Which of ab's four kinds a failure belongs to, each to exactly one.
//!
//! The original counts one event in several kinds, so its sum may exceed the number of requests.
//! Start at [`Failures::of`].

use speedwell_load::outcomes::{ErrorClass, OutcomeCounts};

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
    pub fn of(counts: &OutcomeCounts) -> Failures {
        let mut failures = Failures::default();
        for class in ErrorClass::every() {
            *failures.place(class) += counts.errors(class);
        }
        failures
    }

    fn place(&mut self, class: ErrorClass) -> &mut u64 {
        match class.phase() {
            // Their connections had been made.
            _ if is_tls_of_an_answer(class) => &mut self.receive,
            "dns" | "connect" | "tls" => &mut self.connect,
            "send" => &mut self.write,
            _ if class == ErrorClass::TimeoutConnect => &mut self.connect,
            _ if class == ErrorClass::EofInBody => &mut self.length,
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
pub fn ends_test(class: ErrorClass) -> bool {
    let phases = ["dns", "connect", "tls", "send", "reset", "timeout"];
    phases.contains(&class.phase()) && class != ErrorClass::TlsTruncated
}

fn is_tls_of_an_answer(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::TlsRecord | ErrorClass::TlsTruncated)
}

/// Whether a failure ends the test also with `-r`, because every further request would fail alike.
pub fn ends_any_test(class: ErrorClass) -> bool {
    matches!(
        class,
        ErrorClass::Dns | ErrorClass::TlsVerify | ErrorClass::TlsAlpn
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_is_of_exactly_one_kind() {
        let mut counts = OutcomeCounts::new();
        for class in ErrorClass::every() {
            counts.attempt();
            counts.failed(class);
        }
        let failures = Failures::of(&counts);
        assert_eq!(failures.failed() + failures.write, ErrorClass::COUNT as u64);
        assert_eq!((failures.length, failures.write), (1, 1));
        // dns, four of connect, three of tls, and the limit of time for connecting.
        assert_eq!(failures.connect, 9);
    }

    #[test]
    fn the_server_that_closes_politely_does_not_end_the_test() {
        assert!(ends_test(ErrorClass::ResetInHead) && ends_test(ErrorClass::ConnectRefused));
        assert!(!ends_test(ErrorClass::EofInBody) && !ends_test(ErrorClass::Assertion));
        assert!(ends_test(ErrorClass::TlsRecord) && !ends_test(ErrorClass::TlsTruncated));
        assert!(ends_any_test(ErrorClass::TlsVerify) && !ends_any_test(ErrorClass::ConnectRefused));
    }
}
