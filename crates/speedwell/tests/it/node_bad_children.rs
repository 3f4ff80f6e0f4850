//! Children of a benchmark that no fixture of the original covers: crashes, floods of output,
//! leftover processes.

use super::project::{CommandResult, TempProject, node};

fn script(body: &str) -> String {
    format!(
        "const {{ createBenchmark }} = require('speedwell');\n\
         const bench = createBenchmark(main, {{ n: [1] }});\n\
         function main({{ n }}) {{\n{body}\n}}\n"
    )
}

fn measure(body: &str) -> Option<(TempProject, CommandResult)> {
    node()?;
    let good = script("bench.start(); for (let i = 0; i < 1e5; i++); bench.end(n);");
    let project = TempProject::new().with("g/bad.js", &script(body)).with("g/good.js", &good);
    let answer = project.run(&["run", "g", "--runs", "1", "--timeout", "90s"]);
    Some((project, answer))
}

/// Whether a process has this text in its command line.
pub fn still_running(marker: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(marker))
}

#[test]
fn a_segmentation_fault_is_reported_by_its_signal() {
    let Some((_, answer)) = measure("process.kill(process.pid, 'SIGSEGV');") else {
        return;
    };
    answer.expect_status(2).expect_stdout(&["signal 11 (SIGSEGV)", "g/good.js", "to repeat it"]);
}

#[test]
fn a_flood_on_stderr_is_cut_to_its_end() {
    let body = "for (let i = 0; i < 2e4; i++) process.stderr.write('flood '.repeat(20) + '\\n');\n\
                throw new Error('after the flood');";
    let Some((_, answer)) = measure(body) else {
        return;
    };
    let answer = answer.expect_status(2).expect_stdout(&["after the flood", "g/good.js"]);
    assert!(answer.stdout.len() < 20_000, "{} bytes of report", answer.stdout.len());
}

#[test]
fn children_that_are_left_behind_are_ended() {
    let marker = "4321.987";
    let body = format!(
        "require('child_process').spawn('sleep', ['{marker}'], {{ detached: true, stdio: 'ignore' }}).unref();\n\
         bench.start(); for (let i = 0; i < 1e5; i++); bench.end(n);"
    );
    let Some((_, answer)) = measure(&body) else {
        return;
    };
    answer.expect_status(0);
    assert!(!still_running(marker));
}

#[test]
fn different_answers_of_two_variants_are_an_error() {
    if node().is_none() {
        return;
    }
    let body = "bench.start(); for (let i = 0; i < 1e5; i++); bench.end(n);\n\
                bench.check(process.env.ANSWER);";
    let project = TempProject::new().with("g/wrong.js", &script(body));
    let words = ["run", "g", "--runs", "2", "--variant", "a=ANSWER=42", "--variant", "b=ANSWER=43"];
    project.run(&words).expect_status(2).expect_stdout(&["computed '4"]);
}

#[test]
fn files_described_at_once_do_not_end_each_others_processes() {
    if node().is_none() {
        return;
    }
    let marker = "4321.654";
    let spawn = format!(
        "require('child_process').spawn('sleep', ['{marker}'], {{ detached: true, stdio: 'ignore' }}).unref();\n"
    );
    let body = "bench.start(); for (let i = 0; i < 1e5; i++); bench.end(n);";
    let mut project = TempProject::new();
    for name in 0..12 {
        project = project.with(&format!("g/b{name}.js"), &(spawn.clone() + &script(body)));
    }
    let answer = project.run(&["run", "--list", "g"]).expect_status(0);
    assert_eq!(answer.stdout.matches("g/b").count(), 12, "{answer:#?}");
    assert!(!still_running(marker));
}
