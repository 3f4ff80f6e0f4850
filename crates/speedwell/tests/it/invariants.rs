//! Invariants of every file that is read, valid or broken. The fuzz targets use this file, too.

use speedwell_formats::{FileFormat, InputFile, JsonContent, MetricDirections, json_lines};
use speedwell_model::{MetricDirection, Session};

/// Reads bytes as `format` and checks the result: sessions with warnings, or else the message.
///
/// # Panics
/// Panics if an invariant is violated.
pub fn check(format: &FileFormat, bytes: &[u8]) -> Result<(Vec<Session>, Vec<String>), String> {
    // Detection must not panic, whatever the result.
    let _ = (format.recognizes)(&JsonContent::new(bytes));
    let mut warnings = Vec::new();
    // Some files do not declare directions, and are read only if the user does.
    let better =
        MetricDirections { all: Some(MetricDirection::Lower), ..MetricDirections::default() };
    let input = InputFile { label: "f", bytes, better: &better };
    match (format.read)(&input, &mut warnings) {
        Ok(sessions) => {
            assert!(!sessions.is_empty(), "neither sessions nor an error");
            // Our own format can hold anything, as it must round-trip.
            let is_own = format.name == "Speedwell JSON lines";
            for session in &sessions {
                if !is_own {
                    check_session(session);
                }
                check_round_trip(session);
            }
            for warning in &warnings {
                // Whoever prints it names the file.
                assert!(!warning.contains("'f'"), "named twice: {warning}");
            }
            Ok((sessions, warnings))
        }
        Err(error) => {
            let message = format!("{error:#}");
            assert!(!message.trim().is_empty(), "an empty message");
            Err(message)
        }
    }
}

fn check_session(session: &Session) {
    assert!(session.runs.len() + session.failures.len() > 0, "no results and no error");
    for run in &session.runs {
        for sample in &run.samples {
            assert!(sample.value.is_finite(), "{} is {}", sample.metric, sample.value);
            assert!(
                session.metric(&sample.metric).is_some(),
                "'{}' is not announced",
                sample.metric
            );
        }
    }
}

/// Asserts that a session survives a round trip through our own format.
fn check_round_trip(session: &Session) {
    let lines = write_lines(session);
    let again = json_lines::read(std::str::from_utf8(&lines).expect("we write UTF-8"))
        .unwrap_or_else(|error| panic!("cannot read what was written: {error:#}"));
    assert_eq!(again.len(), 1);
    // Compare the lines, because NaN is not equal to itself.
    assert!(write_lines(&again[0]) == lines, "writing and reading changed it");
}

fn write_lines(session: &Session) -> Vec<u8> {
    let mut lines = Vec::new();
    json_lines::write(session, &mut lines).expect("what was read can be written");
    lines
}
