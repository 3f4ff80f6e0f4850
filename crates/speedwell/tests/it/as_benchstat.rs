//! `speedwell as benchstat`, against recorded output of the original (golang.org/x/perf of
//! 2026-09-08).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/benchstat")
}

fn benchstat(words: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_speedwell"));
    command.args(["as", "benchstat"]).args(words).current_dir(golden());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Returns whether lines are equal, up to the last digits of a geometric mean in CSV: logarithms
/// are rounded differently.
fn are_alike(one: &str, other: &str) -> bool {
    let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    let (one_cells, other_cells) = (cells(one), cells(other));
    let is_near =
        |(one, other): (&String, &String)| match (one.parse::<f64>(), other.parse::<f64>()) {
            (Ok(one), Ok(other)) => (one / other - 1.0).abs() < 1e-14,
            _ => one == other,
        };
    let are_means = one_cells[0] == "geomean" && one_cells.len() == other_cells.len();
    one == other || are_means && one_cells.iter().zip(&other_cells).all(is_near)
}

#[test]
fn tables_match_the_original_benchstat() {
    let calls = std::fs::read_to_string(golden().join("calls.txt")).unwrap();
    let mut seen = 0;
    for (name, line) in calls.lines().filter_map(|line| line.split_once(": ")) {
        if name.starts_with('#') {
            continue;
        }
        let output = benchstat(&shell_words::split(line).unwrap());
        let recorded = |ending: &str| {
            std::fs::read_to_string(golden().join(format!("{name}.{ending}"))).unwrap_or_default()
        };
        let (here, there) = (text(&output.stdout), recorded("stdout"));
        assert_eq!(here.lines().count(), there.lines().count(), "{name}:\n{here}{there}");
        for (here, there) in here.lines().zip(there.lines()) {
            assert!(are_alike(here, there), "{name}:\n{here}\n{there}");
        }
        assert_eq!(text(&output.stderr), recorded("stderr"), "{name}");
        assert_eq!(output.status.code(), Some(0), "{name}");
        seen += 1;
    }
    assert!(seen >= 15, "{seen}");
}

#[test]
fn a_file_without_results_is_reported_with_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let old = std::fs::read_to_string(golden().join("old.txt")).unwrap();
    let marked = format!("\u{feff}{old}");
    let files: [(&str, Vec<u8>); 5] = [
        ("empty.txt", Vec::new()),
        ("utf16.txt", utf16(&marked)),
        ("unmarked.txt", utf16(&old)),
        ("none.txt", b"goos: linux\nPASS\nok  \tx\t1s\n".to_vec()),
        ("marked.txt", marked.into_bytes()),
    ];
    for (name, bytes) in &files {
        std::fs::write(path(name), bytes).unwrap();
    }
    for (name, part) in [
        ("empty.txt", "empty.txt' is empty\nhint: "),
        ("utf16.txt", "it is UTF-16 text\nhint: save it as UTF-8"),
        ("unmarked.txt", "it is UTF-16 text\nhint: save it as UTF-8"),
        ("none.txt", "none.txt' has no results\nhint: "),
    ] {
        let output = benchstat(&["old.txt".to_owned(), path(name)]);
        assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{name}: {output:?}");
    }
    // A byte order mark is not part of the first line.
    let output = benchstat(&[format!("a={}", path("marked.txt"))]);
    let expected = benchstat(&["a=old.txt".to_owned()]);
    assert_eq!(text(&output.stdout), text(&expected.stdout));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn unreadable_files_and_invalid_options_have_an_error_status() {
    for (line, status, part) in [
        ("nothing.txt", 1, "cannot read 'nothing.txt'"),
        ("-filter a old.txt", 1, "cannot read -filter"),
        ("-col .unit old.txt", 1, "only allowed in filters"),
        ("-row /n@up old.txt", 1, "unknown order"),
        ("-alpha 2 old.txt", 2, "not a number from 0 to 1"),
        ("-format html old.txt", 2, "must be text or csv"),
        ("", 2, "no file"),
    ] {
        let output = benchstat(&shell_words::split(line).unwrap());
        assert_eq!(output.status.code(), Some(status), "{line}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{line}: {output:?}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}
