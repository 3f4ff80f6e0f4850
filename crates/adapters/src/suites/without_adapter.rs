//! Recognizes frameworks without a built-in adapter, for messages.
//!
//! The content of a file shows its framework. Files are read, never executed. Start at
//! [`framework_without_adapter`].

use super::registry::is_elf;
use regex::bytes::Regex;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// Maximum size of a file that is searched. Benchmark sources are much smaller, and programs rarely
/// exceed this size.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;

/// For each framework: the extensions of its files, its name, and a pattern of their content. An
/// empty list of extensions stands for programs.
const FRAMEWORKS: [(&[&str], &str, &str); 20] = [
    (JAVASCRIPT, "mitata", r#"['"]mitata['"]"#),
    (JAVASCRIPT, "tinybench", r#"['"]tinybench['"]"#),
    (JAVASCRIPT, "benchmark.js", r#"['"]benchmark['"]"#),
    (JAVASCRIPT, "benny", r#"['"]benny['"]"#),
    (JAVASCRIPT, "bench-node", r#"['"]bench-node['"]"#),
    (JAVASCRIPT, "cronometro", r#"['"]cronometro['"]"#),
    (JAVASCRIPT, "deno bench", r"\bDeno\.bench\("),
    (&["py"], "pytest-codspeed", r"\bpytest_codspeed\b|@pytest\.mark\.benchmark\b"),
    (&["py"], "asv", r"(?m)^\s*def (?:time|timeraw|peakmem|mem|track)_\w+\("),
    (&["rb"], "benchmark-ips", "benchmark/ips"),
    (&["exs"], "Benchee", r"\bBenchee\.run\("),
    (&["jl"], "BenchmarkTools", r"\bBenchmarkTools\b"),
    (&["cpp", "cc", "cxx"], "nanobench", r"#include\s*.*\bnanobench\.h"),
    (&["cpp", "cc", "cxx"], "Celero", r"#include\s*.celero/"),
    (PROGRAM, "nanobench", "nanobench"),
    (PROGRAM, "Celero", "celero"),
    (PROGRAM, "bencher", r"/bencher-[0-9][0-9.]*/"),
    (PROGRAM, "iai-callgrind", r"/iai-callgrind-[0-9][0-9.]*/"),
    (PROGRAM, "iai", r"/iai-[0-9][0-9.]*/"),
    (PROGRAM, "tango", r"/tango-bench-[0-9][0-9.]*/"),
];

const JAVASCRIPT: &[&str] = &["js", "mjs", "cjs", "ts", "mts", "cts"];

const PROGRAM: &[&str] = &[];

static PATTERNS: LazyLock<Vec<Option<Regex>>> = LazyLock::new(|| {
    let patterns = FRAMEWORKS.iter();
    patterns.map(|(.., pattern)| Regex::new(pattern).ok()).collect()
});

/// Returns the framework of a benchmark file or program if it is known and has no adapter.
pub fn framework_without_adapter(file: &Path) -> Option<&'static str> {
    let ending = file.extension().and_then(|ending| ending.to_str());
    let is_program = is_elf(file);
    let may_be = |endings: &[&str]| match endings {
        [] => is_program,
        endings => ending.is_some_and(|ending| endings.contains(&ending)),
    };
    let size = file.metadata().ok().filter(|data| data.is_file())?.len();
    if size > MAX_SEARCHED_BYTES || !FRAMEWORKS.iter().any(|(endings, ..)| may_be(endings)) {
        return None;
    }
    let content = fs::read(file).ok()?;
    let matches = |pattern: &Option<Regex>| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(&content))
    };
    let found = FRAMEWORKS.iter().zip(PATTERNS.iter());
    found
        .into_iter()
        .find(|((endings, ..), pattern)| may_be(endings) && matches(pattern))
        .map(|((_, name, _), _)| *name)
}

/// Explains that a file's framework has no adapter, and how to write one.
pub fn explain_framework(name: &str, target: &str) -> String {
    let adapter = name.to_lowercase().replace([' ', '.'], "-");
    let target = speedwell_model::quote(target);
    format!(
        "it contains benchmarks written with {name}, for which Speedwell has no adapter\n\
         hint: 'speedwell new adapter {adapter} {target}' writes a template; \
         docs/reference/suites.md describes its keys"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frameworks_are_known_by_what_their_files_contain() {
        assert!(PATTERNS.iter().all(Option::is_some));
        let folder = tempfile::tempdir().unwrap();
        for (file, content, expected) in [
            ("a.mjs", "import { run, bench } from 'mitata';", Some("mitata")),
            ("a.js", "const { Suite } = require('benchmark');", Some("benchmark.js")),
            ("a.ts", "Deno.bench('x', () => 1);", Some("deno bench")),
            ("a.js", "// like mitata\nexport const a = 1;", None),
            ("test_a.py", "@pytest.mark.benchmark\ndef test_a(): pass", Some("pytest-codspeed")),
            ("bench_a.py", "class Suite:\n    def time_a(self): pass", Some("asv")),
            ("a", "\x7fELF /src/iai-callgrind-0.14.0/src/lib.rs", Some("iai-callgrind")),
            ("a", "\x7fELF /src/bencher-0.1.5/lib.rs", Some("bencher")),
            ("a", "#!/bin/sh\n/src/bencher-0.1.5/lib.rs", None),
        ] {
            let path = folder.path().join(file);
            fs::write(&path, content).unwrap();
            assert_eq!(framework_without_adapter(&path), expected, "{content}");
        }
    }
}
