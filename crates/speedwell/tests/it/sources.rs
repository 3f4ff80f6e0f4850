//! Results from elsewhere: files and standard input, told apart by their content.

use super::project::{Project, repository};

fn golden(name: &str) -> Vec<u8> {
    let folder = repository().join("crates/speedwell/tests/golden/node-core");
    std::fs::read(folder.join(name)).unwrap()
}

#[test]
fn a_table_and_a_picture_without_r() {
    let project = Project::new();
    let csv = golden("compare-string_decoder.csv");
    let answer = project.run_with_input(&["as", "compare.R", "--plot", "box.png"], &csv);
    let expected = String::from_utf8(golden("compare-string_decoder.R.txt")).unwrap();
    assert_eq!(answer.expect_status(0).stdout, expected);
    assert_eq!(
        &std::fs::read(project.path("box.png")).unwrap()[..8],
        b"\x89PNG\r\n\x1a\n"
    );
}

#[test]
fn a_csv_of_two_binaries_is_compared_within_itself() {
    let csv = golden("compare-string_decoder.csv");
    let answer = Project::new()
        .run_with_input(&["compare", "-"], &csv)
        .expect_status(0);
    // Six runs a side, and nobody knows their order: no verdict can be more than a hint.
    answer.expect_stdout(&[
        "unclear",
        "string_decoder/string-decoder.js",
        "Mann-Whitney",
    ]);
}

#[test]
fn an_imported_session_comes_back_as_it_was() {
    let project = Project::new().with("g/b.fake", "case n=1\n* 10 11 12\n");
    project.run(&["run", "g", "--tag", "mine"]).expect_status(0);
    let lines = project
        .run(&["report", "@mine", "--export", "jsonl"])
        .expect_status(0)
        .stdout;
    let other = Project::new().with("mine.jsonl", &lines);
    other.run(&["import", "mine.jsonl"]).expect_status(0);
    let again = other
        .run(&["report", "@mine", "--export", "jsonl"])
        .expect_status(0)
        .stdout;
    let runs = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(runs(&lines), runs(&again));
}

#[test]
fn parts_of_two_sources_are_paired_by_their_common_rest() {
    let text = "case n=8\n* 100 101 102\ncase n=64\n* 50 51 52\n";
    let project = Project::new()
        .with("g/memcpy.fake", text)
        .with("g/copy.fake", text);
    project.run(&["run", "g", "--runs", "3"]).expect_status(0);
    project
        .run(&["compare", "@latest::memcpy", "@latest::copy"])
        .expect_status(0)
        .expect_stdout(&["n=8", "n=64"]);
}

#[test]
fn a_study_shows_how_a_metric_depends_on_a_parameter() {
    let csv = golden("scatter.csv");
    let words = [
        "report", "-", "--x-axis", "chunkLen", "--by", "encoding", "--log",
    ];
    let project = Project::new();
    let answer = project.run_with_input(&[&words[..], &["-o", "s.svg"]].concat(), &csv);
    answer
        .expect_status(0)
        .expect_stdout(&["chunkLen", "ascii", "utf8", "inLen"]);
    assert!(project.path("s.svg").exists());
    let unknown = ["report", "-", "--x-axis", "chunk"];
    let answer = Project::new().run_with_input(&unknown, &csv);
    answer.expect_status(2).expect_stderr(&["chunkLen"]);
}

#[test]
fn a_file_that_is_nothing_known_is_refused_with_what_is() {
    Project::new()
        .with("x.txt", "hello world\n")
        .run(&["report", "x.txt"])
        .expect_status(2)
        .expect_stderr(&["x.txt", "CSV"]);
}
