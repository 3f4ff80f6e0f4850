//! The published schema of the JSON reports, `docs/reference/report.schema.json`, held against what
//! the commands write.

use super::project::{TempProject, repository};
use super::web_server::WebServer;
use serde_json::Value as Json;
use std::collections::BTreeSet;

/// Two cases of two variants, and one case that fails.
const BENCHMARK: &str = "\
case n=1
old 100 101 102 103 104 105 106 107
new 90 91 92 93 94 95 96 97
case n=2
old 200 201 202 203 204 205 206 207
new 190 191 192 193 194 195 196 197
case n=3
old 1 2 3 4 5 6 7 8
";

/// Whether `value` has a type and one of the values that the schema of a member allows.
fn is_allowed(value: &Json, schema: &Json) -> bool {
    if let Some(allowed) = schema["enum"].as_array() {
        return allowed.contains(value);
    }
    let types = match &schema["type"] {
        Json::String(only) => vec![only.as_str()],
        several => several.as_array().unwrap().iter().filter_map(Json::as_str).collect(),
    };
    let of_items = |items: &Vec<Json>| {
        schema.get("items").is_none_or(|item| items.iter().all(|value| is_allowed(value, item)))
    };
    types.iter().any(|&name| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "object" => value.is_object(),
        "array" => value.as_array().is_some_and(of_items),
        other => panic!("unknown type '{other}' in the schema"),
    })
}

/// Checks a report, and returns the described tables in which it has rows.
fn check_report(report: &Json, schema: &Json) -> BTreeSet<String> {
    for member in schema["required"].as_array().unwrap() {
        assert!(report.get(member.as_str().unwrap()).is_some(), "no {member} in {report}");
    }
    let described = |table: &&String| schema["$defs"].get(*table).is_some();
    let mut seen = BTreeSet::new();
    for table in report.as_object().unwrap().keys().filter(described) {
        let members = &schema["$defs"][table]["properties"];
        for row in report[table].as_array().unwrap() {
            for (name, value) in row.as_object().unwrap() {
                let member = members.get(name);
                let member = member.unwrap_or_else(|| panic!("'{table}.{name}' is not described"));
                assert!(is_allowed(value, member), "'{table}.{name}' is {value}, not {member}");
            }
            seen.insert(table.clone());
        }
    }
    seen
}

#[test]
fn the_schema_describes_what_the_commands_write() {
    let schema = repository().join("docs/reference/report.schema.json");
    let schema: Json = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    let project = TempProject::new()
        .with("g/a.fake", BENCHMARK)
        .with("h/b.fake", "case n=1\n* 100 101 102 103 104 105 106 107\n");
    let server = WebServer::start();
    let url = server.url("/");
    let variants = ["--variant", "old=", "--variant", "new=", "-r", "8"];
    let compare = [&["run", "g", "--json"], &variants[..]].concat();
    let commands = [
        (&compare[..], 2),
        (&["report", "--x-axis", "n", "--json"], 0),
        (&["run", "h", "-r", "8", "--json"], 0),
        (&["history", "--json"], 0),
        (&["history", "trend", "--json"], 0),
        (&["eval", "sh", "true", "-r", "2", "-t", "10ms", "--json"], 0),
        (&["load", &url, "-n", "50", "-c", "2", "--no-save", "--json"], 0),
        (&["load", &url, "-n", "20", "--rate", "200", "--no-save", "--json"], 0),
    ];
    let mut seen = BTreeSet::new();
    for (words, status) in commands {
        let result = project.run(words);
        assert_eq!(result.status, status, "{words:?}: {result:?}");
        seen.append(&mut check_report(&result.json(), &schema));
    }
    let described: BTreeSet<String> =
        schema["$defs"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(seen, described, "each described table is in a report");
}
