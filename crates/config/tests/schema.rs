//! The schema accepts every definition file of this repository and rejects invalid ones. An
//! independent implementation decides: Python's `jsonschema`. Without it the test is skipped.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use speedwell_config::experiment::{Experiment, definition_schema};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Reads `{"schema": ..., "files": [...]}`; prints a list with `null` for each valid file, else
/// with its error.
const VALIDATE: &str = r#"
import json, sys
import jsonschema
asked = json.load(sys.stdin)
jsonschema.Draft202012Validator.check_schema(asked["schema"])
validator = jsonschema.Draft202012Validator(asked["schema"])
found = [jsonschema.exceptions.best_match(validator.iter_errors(file)) for file in asked["files"]]
print(json.dumps([error and f"{error.json_path}: {error.message}" for error in found]))
"#;

/// Returns the error of each file, if any; `None` without a validator.
fn validation_faults(files: &[toml::Value]) -> Option<Vec<Option<String>>> {
    let schema: serde_json::Value = serde_json::from_str(&definition_schema()).unwrap();
    let asked = serde_json::json!({ "schema": schema, "files": files });
    let python = Command::new("python3")
        .args(["-c", VALIDATE])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut python) = python else {
        eprintln!("skipped: there is no python3");
        return None;
    };
    let mut input = python.stdin.take().unwrap();
    // A Python without the module exits before it has read everything.
    let _ = input.write_all(asked.to_string().as_bytes());
    drop(input);
    let output = python.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("ModuleNotFoundError") {
        eprintln!("skipped: python3 has no module jsonschema");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the TOML files of folders below the repository.
fn toml_files(folders: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for folder in folders {
        for entry in std::fs::read_dir(repository_root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path.display().to_string(), text));
            }
        }
    }
    found
}

/// Values of the names in templates of `speedwell new`.
const FILLED: [(&str, &str); 12] = [
    ("FILE", "file.toml"),
    ("QUESTION", "\"Which?\""),
    ("REQUIRES", "[requires]\nnode = { command = [\"node\", \"--version\"] }\n"),
    ("LABEL", "\"with it\""),
    ("HOW", "It is loaded."),
    ("ENV", "env = { NODE_OPTIONS = { append = \"--require=x\" } }"),
    ("COMMAND", "[\"node\", \"app.js\"]"),
    ("CWD", "cwd = \".\"\n"),
    ("VARIANTS", "[[variant]]\nname = \"a\"\ncommand = [\"a\", \"{port}\"]\n"),
    ("PATH", "\"/\""),
    ("FIRST", "\"a\""),
    ("NAME", "mine"),
];

/// Returns the definition files in the code blocks of the guide.
fn documented_files() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for page in ["definition-files", "experiments"] {
        let path = repository_root().join(format!("docs/guide/{page}.md"));
        let text = std::fs::read_to_string(path).unwrap();
        let blocks = text.split("```toml\n").skip(1);
        let blocks = blocks.filter_map(|block| block.split("```").next());
        let whole =
            blocks.filter(|block| block.contains("[[group]]") || block.contains("[benchmark."));
        found.extend(whole.map(|block| (page.to_owned(), block.to_owned())));
    }
    found
}

#[test]
fn the_schema_accepts_every_definition_file_of_the_repository() {
    let mut files = toml_files(&[
        "examples/overhead",
        "examples/topologies",
        "crates/speedwell/tests/golden/experiments",
        "crates/adapters/suites",
    ]);
    for (name, template) in toml_files(&["crates/speedwell/src/new/templates"]) {
        let fill =
            |text: String, (name, value): &(&str, &str)| text.replace(&format!("@{name}@"), value);
        files.push((name, FILLED.iter().fold(template, fill)));
    }
    let blocks = documented_files();
    assert!(files.len() >= 8 && blocks.len() >= 2, "{} {}", files.len(), blocks.len());
    files.extend(blocks);
    let values: Vec<toml::Value> = files
        .iter()
        .map(|(name, text)| toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}")))
        .collect();
    for ((name, _), fault) in files.iter().zip(validation_faults(&values).into_iter().flatten()) {
        assert_eq!(fault, None, "{name}");
    }
}

/// Text of a valid file, and its replacement.
const MISTAKES: &[(&str, &str)] = &[
    ("schema = 2", "schema = \"two\"\ntitel = \"x\""),
    ("kind = \"server\"", "kind = \"sever\""),
    ("kind = \"server\"", "kind = \"function\""),
    ("[group.load]", "[group.lode]"),
    ("requests = 100", "requests = 0"),
    ("requests = 100", "requests = 100\nconcurency = 5"),
    ("requests = 100", "duration = \"5 parsecs\""),
    ("keepalive = true", "keepalive = \"yes\""),
    ("color = \"#c0392b\"", "color = \"red\""),
    ("{ append = \"x\" }", "{ add = \"x\" }"),
    ("{ append = \"x\" }", "{ append = \"x\", set = \"y\" }"),
    ("stderr = \"loaded\"", "stderr = \"loaded\", stdout = \"x\""),
    ("order = \"blocks\"", "order = \"random\""),
    ("runs = 5", "run = 5"),
    ("[[\"plain\", \"loaded\"]]", "[[\"plain\"]]"),
    ("expr = ", "expression = "),
    ("chart = \"served\"", "chart = \"serve\""),
    ("chart = \"served\"", "chart = \"served\"\ntable = \"factors\""),
];

const GOOD: &str = r##"
schema = 2
name = "small"
[[variant]]
name = "plain"
[[variant]]
name = "loaded"
color = "#c0392b"
speed = 3
env = { NODE_OPTIONS = { append = "x" } }
assert = { stderr = "loaded", on = "exit" }
[[group]]
name = "web"
kind = "server"
[group.target]
command = ["node", "server.js", "--port={port}", "--speed={speed}"]
[group.load]
requests = 100
keepalive = true
[plan]
runs = 5
order = "blocks"
[compare]
pairs = [["plain", "loaded"]]
[[claim]]
expr = "throughput(loaded) > throughput(plain)"
[[output]]
chart = "served"
"##;

fn is_accepted(text: &str) -> bool {
    let file = speedwell_model::DefinitionFile {
        file: "/x/small.toml".into(),
        text: text.to_owned(),
        set: Vec::new(),
        cpus: 4,
        placement: None,
    };
    Experiment::parse(&file).is_ok()
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let mut files: Vec<toml::Value> = vec![toml::from_str(GOOD).unwrap()];
    for (good, wrong) in MISTAKES {
        assert!(GOOD.contains(good), "{good}");
        files.push(toml::from_str(&GOOD.replace(good, wrong)).unwrap());
    }
    let Some(faults) = validation_faults(&files) else {
        return;
    };
    assert_eq!(faults[0], None);
    for (fault, (good, wrong)) in faults[1..].iter().zip(MISTAKES) {
        assert!(fault.is_some(), "the schema accepts {wrong}");
        assert!(!is_accepted(&GOOD.replace(good, wrong)), "the reader accepts {wrong}");
    }
}

#[test]
fn the_schema_describes_keys_for_editors() {
    let schema: serde_json::Value = serde_json::from_str(&definition_schema()).unwrap();
    let described = schema["$defs"]["LoadKeys"]["properties"]["pipelining"]["description"].as_str();
    assert_eq!(described, Some("Requests in flight on one connection. Default: 1."));
    assert_eq!(schema["$defs"]["LoadKeys"]["additionalProperties"], false);
}
