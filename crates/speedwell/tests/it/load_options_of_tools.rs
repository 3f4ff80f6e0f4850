//! The table of docs/guide/load.md for users of other tools: each command on its right side does
//! what it says, for a shorter time and with fewer requests.

use crate::busy::{ensure_holds, retry_busy};
use crate::project::TempProject;
use crate::web_server::WebServer;

/// The commands of the table, without `speedwell`.
fn commands() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/load.md");
    let page = std::fs::read_to_string(page).unwrap();
    page.lines()
        .filter_map(|line| line.strip_suffix("` |")?.split_once("| `speedwell "))
        .map(|(_, command)| command.to_owned())
        .collect()
}

/// The same load, but short: reduces numbers of requests and durations.
fn shorten(words: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for word in words {
        let option = out.last().map(String::as_str).unwrap_or_default();
        let word = match option {
            "-n" => word.parse::<u64>().unwrap().min(100).to_string(),
            "-c" => word.parse::<u64>().unwrap().min(20).to_string(),
            "-t" => format!("{}0ms", word.strip_suffix('s').unwrap()),
            "--ramp" => word.replace(":10s", ":100ms"),
            "--threads" => "2".to_owned(),
            _ => word,
        };
        out.push(word);
    }
    out
}

#[test]
fn commands_of_other_tools_have_equivalents_that_work() {
    let commands = commands();
    assert!(commands.len() > 20, "{commands:?}");
    let (project, server) = (TempProject::new(), WebServer::start());
    for command in &commands {
        let before = server.count();
        let words = shell_words::split(&command.replace("URL", &server.url("/"))).unwrap();
        let mut words = shorten(words);
        words.extend(["--no-save".to_owned(), "--no-verify".to_owned()]);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        // Shortened this much, a load may end before a busy machine has sent anything.
        retry_busy(1, || {
            let answer = project.run(&words);
            // Lines are wrapped at the width of the window.
            let told: Vec<&str> = answer.stdout.split_whitespace().collect();
            let is_good = answer.status == 0 && told.join(" ").contains(" 0 failed");
            ensure_holds(is_good && server.count() > before, || format!("{command}: {answer:#?}"))
        });
    }
}
