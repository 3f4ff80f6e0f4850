//! JavaScript under Bun and Deno: the benchmark files and snippets of Node.js, in one session with it.

use super::harness_driver::find_tool;
use super::project::TempProject;
use std::path::PathBuf;

/// Whether all three are installed.
fn all_there() -> bool {
    ["node", "bun", "deno"].iter().all(|name| find_tool(&[name]).is_some())
}

const THREE: [&str; 6] = ["--variant", "node", "--variant", "bun", "--variant", "deno=deno run -A"];

/// Actually sorts, and reports a fixed figure, as on an undisturbed machine.
const SORT: &str = "const { createBenchmark } = require('speedwell');\n\
    const bench = createBenchmark(main, { size: [100] });\n\
    function main({ size }) {\n\
      const sorted = Array.from({ length: size }, (_, i) => (i * 7919) % 101).sort((a, b) => a - b);\n\
      bench.check(sorted[size - 1]);\n\
      const { bun, deno } = process.versions;\n\
      bench.report((bun ? 200 : deno ? 50 : 100) + Number(process.hrtime.bigint() % 7n) / 10, 1000000n);\n\
    }\n";

#[test]
fn one_file_has_a_verdict_for_each_of_three_runtimes() {
    if !all_there() {
        return;
    }
    let project = TempProject::new().with("g/sort.js", SORT);
    let words = ["run", "g/sort.js", "--runs", "8", "--format", "json"];
    let answer = project.run(&[&words[..], &THREE].concat()).expect_status(0);
    let json = answer.json();
    let changes = json["changes"].as_array().unwrap();
    let verdicts: Vec<_> = changes
        .iter()
        .map(|one| (one["candidate"].as_str().unwrap(), one["verdict"].as_str().unwrap()))
        .collect();
    assert_eq!(verdicts, [("bun", "better"), ("deno", "worse")]);
    // Each is labeled by its own version, not by the Node.js version that it emulates.
    let kept = project.run(&["report", "--export", "jsonl"]).expect_status(0).stdout;
    for version in ["\"Bun ", "\"Deno ", "\"v"] {
        assert!(kept.contains(&format!("\"version\":{version}")), "{version}: {kept}");
    }
}

#[test]
fn type_script_and_modules_are_measured_by_bun_and_deno() {
    if find_tool(&["bun"]).is_none() || find_tool(&["deno"]).is_none() {
        return;
    }
    let text = "import { createBenchmark } from 'speedwell';\n\
                interface Values { n: number }\n\
                const bench = createBenchmark(main, { n: [10] });\n\
                async function main({ n }: Values): Promise<void> {\n\
                  bench.start(); await null; bench.end(n);\n}\n";
    let plain = text.replace("interface Values { n: number }\n", "");
    let plain = plain.replace(": Values", "").replace(": Promise<void>", "");
    let project = TempProject::new()
        .with("g/a.ts", text)
        .with("g/b.mts", text)
        .with("g/c.mjs", &plain)
        .with("h/package.json", "{ \"type\": \"commonjs\" }")
        .with(
            "h/d.cts",
            &text
                .replace("import {", "const {")
                .replace("} from 'speedwell'", "} = require('speedwell')"),
        );
    let words = ["run", "g", "h", "--runs", "1", "--variant", "deno", "--variant", "bun"];
    let answer = project.run(&[&words[..], &["--format", "csv"]].concat()).expect_status(0);
    for file in ["g/a.ts", "g/b.mts", "g/c.mjs", "h/d.cts"] {
        assert!(answer.stdout.contains(file), "{file}: {answer:#?}");
    }
}

#[test]
fn flags_unsupported_by_a_runtime_fail_only_there() {
    if !all_there() {
        return;
    }
    let flags = SORT.replace("{ size: [100] }", "{ size: [100] }, { flags: ['--expose-gc'] }");
    let project = TempProject::new().with("g/sort.js", &flags);
    let words = ["run", "g/sort.js", "--runs", "1"];
    let answer = project.run(&[&words[..], &THREE].concat()).expect_status(2);
    let words: Vec<&str> = answer.stdout.split_whitespace().collect();
    let said = words.join(" ");
    for text in [
        "Node.js flags that Bun does not support: '--expose-gc'",
        "Node.js flags that Deno does not support: '--expose-gc'",
        "to repeat it: ",
    ] {
        assert!(said.contains(text), "no {text:?} in {said}");
    }
    assert!(!answer.stdout.contains("(node):"), "{answer:#?}");
}

#[test]
fn a_wrapper_that_closes_the_channel_of_deno_is_reported() {
    let Some(deno) = deno() else { return };
    let wrapper = format!("#!/bin/sh\nexec '{}' \"$@\" 3<&- 4>&-\n", deno.display());
    let project = TempProject::new().with("g/sort.js", SORT).with_program("deno", &wrapper);
    let words = ["run", "g/sort.js", "--variant", "./deno", "--runs", "1"];
    let answer = project.run(&words).expect_status(2);
    answer.expect_stderr(&["descriptor 3 did not reach Deno"]);
}

/// The program itself: the npm package puts only a wrapper script into `PATH`.
fn deno() -> Option<PathBuf> {
    find_tool(&["deno"])?;
    let path = std::env::var_os("PATH")?;
    let mut found = std::env::split_paths(&path).map(|folder| folder.join("deno"));
    let found = found.find(|file| file.is_file())?.canonicalize().ok()?;
    let beside = found.with_file_name("deno");
    Some(if beside.is_file() { beside } else { found })
}

#[test]
fn one_liners_are_compared_under_three_runtimes() {
    if !all_there() {
        return;
    }
    let words = ["eval", "node", "JSON.parse('[1]')", "--runs", "1", "-n", "1", "-t", "1ms", "-v"];
    let answer = TempProject::new().run(&[&words[..], &THREE].concat()).expect_status(0);
    answer.expect_stdout(&["(node)", "(bun)", "(deno)"]);
}
