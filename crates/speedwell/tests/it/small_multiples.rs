//! Charts of many cases are panels of a few images, and every written file states what it shows.

use super::project::TempProject;
use std::fmt::Write;

/// This many cases with eight runs of two variants, whose levels differ by `step` from case to
/// case.
fn project(cases: usize, step: f64) -> TempProject {
    let mut text = String::new();
    for case in 0..cases {
        let _ = writeln!(text, "case k={case}");
        for variant in ["old", "new"] {
            let _ = write!(text, "{variant}");
            for run in 0..8 {
                let _ = write!(text, " {}", 1000.0 + step * case as f64 + f64::from(run));
            }
            text.push('\n');
        }
    }
    let project = TempProject::new().with("g/many.fake", &text);
    let variants = ["--variant", "old=true", "--variant", "new=true"];
    let words = [&["run", "g/many.fake", "--runs", "8", "--seed", "4"], &variants[..]].concat();
    project.run(&words).expect_status(0);
    project
}

#[test]
fn many_cases_are_panels_of_one_picture() {
    let project = project(14, 0.5);
    for (chart, shows) in [
        ("scatter", "throughput in order of execution"),
        ("histogram", "throughput, distribution of the runs"),
    ] {
        let file = format!("{chart}.svg");
        project
            .run(&["report", "--chart", chart, "-o", &file])
            .expect_status(0)
            .expect_stderr(&[&format!("wrote '{file}' ({shows})")]);
        assert!(!project.path(&format!("{chart}-2.svg")).exists());
        let svg = std::fs::read_to_string(project.path(&file)).unwrap();
        assert_eq!(svg.matches("class=\"panel\"").count(), 14, "{chart}");
        // Eight values per variant: each is drawn separately, without bins.
        assert_eq!(svg.matches("class=\"point\"").count(), 14 * 16, "{chart}");
        assert!(svg.contains(">k=13<"), "{chart}");
    }
}

#[test]
fn cases_that_do_not_fit_one_picture_continue_in_further_files() {
    project(30, 0.5)
        .run(&["report", "--chart", "scatter", "-o", "x.svg"])
        .expect_status(0)
        .expect_stderr(&[
            "wrote 'x.svg' (throughput in order of execution, cases 1 to 24 of 30)",
            "wrote 'x-2.svg' (throughput in order of execution, cases 25 to 30 of 30)",
        ]);
}

#[test]
fn a_single_case_fills_the_whole_picture() {
    let project = project(1, 0.0);
    project.run(&["report", "--chart", "histogram", "-o", "x.svg"]).expect_status(0);
    let svg = std::fs::read_to_string(project.path("x.svg")).unwrap();
    assert!(!svg.contains("class=\"panel\""));
    assert_eq!(svg.matches("class=\"point\"").count(), 16);
}

#[test]
fn two_chart_files_are_announced_with_their_contents() {
    project(2, 0.5)
        .run(&["report", "--chart", "all", "-o", "last.svg"])
        .expect_status(0)
        .expect_stderr(&[
            "wrote 'last.svg' (throughput: new against old)",
            "wrote 'last-2.svg' (throughput, every run)",
        ]);
}

#[test]
fn a_study_draws_its_runs_beside_the_estimates() {
    let project = project(3, 100.0);
    project.run(&["report", "--x-axis", "k", "-o", "study.svg"]).expect_status(0);
    let svg = std::fs::read_to_string(project.path("study.svg")).unwrap();
    assert_eq!(svg.matches("class=\"observation\"").count(), 3 * 16);
}
