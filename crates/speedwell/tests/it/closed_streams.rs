//! Closed streams, as after `| head`: no measurement is lost, and nothing crashes.

use super::project::TempProject;
use std::io::{Read, pipe};
use std::process::{Command, Stdio};

/// A stream whose reader is gone.
fn closed_stream() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

fn status(command: &mut Command) -> i32 {
    command.status().unwrap().code().unwrap()
}

#[test]
fn runs_are_stored_even_if_the_output_streams_are_closed() {
    let project = TempProject::new();
    // A single run causes a warning.
    let words = ["eval", "sh", "true", "--runs", "1", "-n", "1", "--iterations=1"];
    let mut command = project.command(&words);
    command.stdout(closed_stream()).stderr(closed_stream());
    assert_eq!(status(&mut command), 0);
    assert_eq!(project.stored_runs(), 1);
}

#[test]
fn a_closed_output_stream_is_not_reported_as_an_error() {
    let project = TempProject::new();
    for words in [&["new", "--schema"][..], &["new", "topology", "--no-look"], &["run", "--help"]] {
        let (mut told, stderr) = pipe().unwrap();
        let mut command = project.command(words);
        command.stdout(closed_stream()).stderr(stderr);
        assert_eq!(status(&mut command), 0, "{words:?}");
        drop(command);
        let mut text = String::new();
        told.read_to_string(&mut text).unwrap();
        assert!(!text.contains("cannot") && !text.contains("panicked"), "{text}");
    }
}

#[test]
fn watching_ends_when_its_output_is_closed() {
    let project = TempProject::new();
    let words = ["eval", "sh", "true", "--watch", "--time", "50ms"];
    let mut command = project.command(&words);
    command.stdout(closed_stream());
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(!told.contains("Broken pipe"), "{told}");
}

#[test]
fn an_error_keeps_its_exit_status_when_the_streams_are_closed() {
    let project = TempProject::new();
    let mut command = project.command(&["report", "there-is-none.json"]);
    command.stdout(closed_stream()).stderr(closed_stream());
    assert_eq!(status(&mut command), 2);
}

#[test]
fn a_full_output_device_is_an_error() {
    let project = TempProject::new();
    let full = || std::fs::File::options().write(true).open("/dev/full");
    for words in [&["new", "--schema"][..], &["eval", "sh", "true", "-n", "1"]] {
        let output = project.command(words).stdout(full().unwrap()).output();
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("cannot write to standard output"), "{told}");
    }
    assert!(project.stored_runs() > 0, "what was measured is kept");
}
