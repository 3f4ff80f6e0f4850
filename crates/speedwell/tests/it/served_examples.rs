//! The examples for setting up a server: Speedwell understands the options in them, and the
//! programs that read them accept them.

use super::project::repository;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn example(name: &str) -> String {
    let path = repository().join("examples/server").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The options that `speedwell serve` has.
fn options() -> BTreeSet<String> {
    let grammar = speedwell::build_grammar();
    let serve = grammar.find_subcommand("serve").unwrap().clone();
    let mut serve = serve;
    serve.build();
    let long = serve.get_arguments().filter_map(|option| option.get_long());
    long.map(|name| format!("--{name}")).collect()
}

/// Checks the options in a text, all of which are for `speedwell serve`.
#[track_caller]
fn check_options<'t>(words: impl Iterator<Item = &'t str>, at_least: usize) {
    let known = options();
    let mut seen = 0;
    for word in words.filter(|word| word.starts_with("--")) {
        let name = word.split('=').next().unwrap();
        assert!(known.contains(name), "'speedwell serve' has no {name}");
        seen += 1;
    }
    assert!(seen >= at_least, "{seen} options were seen");
}

#[test]
fn the_systemd_example_uses_known_options_and_is_valid() {
    let text = example("speedwell.service");
    let command = text.split_once("ExecStart=").unwrap().1;
    let command = command.split_once("\n#").unwrap().0;
    check_options(command.split_whitespace(), 6);
    // The program need not be installed here for the rest to be checked.
    let folder = tempfile::tempdir().unwrap();
    let unit = folder.path().join("speedwell.service");
    fs::write(&unit, text.replace("/usr/local/bin/speedwell", "/bin/true")).unwrap();
    let verified = Command::new("systemd-analyze").arg("verify").arg(&unit).output();
    let Ok(verified) = verified else {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    let own: Vec<&str> = said.lines().filter(|line| line.contains("speedwell.service")).collect();
    // Without a running systemd, the user of the service is not looked up.
    assert!(own.is_empty(), "{own:#?}");
}

#[test]
fn the_compose_example_uses_known_options_and_exposes_only_the_proxy() {
    let file: serde_yaml_ng::Value = serde_yaml_ng::from_str(&example("compose.yaml")).unwrap();
    let command = file["services"]["speedwell"]["command"].as_sequence().unwrap();
    let words: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[0], "serve");
    check_options(words.iter().copied(), 3);
    let environment = &file["services"]["speedwell"]["environment"];
    let db = environment["SPEEDWELL_DB"].as_str().unwrap();
    assert!(!db.contains(':') || db.matches(':').count() == 1, "no password stands in {db}");
    // Every required variable is in the file to copy.
    let given = example("perf.example.env");
    for needed in ["PUBLIC_URL", "PROXY_ADDRESS", "PGPASSWORD"] {
        assert!(given.lines().any(|line| line.starts_with(&format!("{needed}="))), "{needed}");
        assert!(example("compose.yaml").contains(&format!("${{{needed}")), "{needed}");
    }
    let proxy = &file["services"]["proxy"];
    assert!(proxy["ports"].as_sequence().is_some(), "only the proxy can be reached");
    assert!(
        file["services"]["speedwell"]["ports"].is_null()
            && file["services"]["database"]["ports"].is_null()
    );
}
