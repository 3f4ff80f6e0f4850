//! Executes the commands shown in the documentation.
//!
//! In a block marked `console`, every line that begins with `$ ` is executed, in order, in one
//! project that holds the example benchmarks and two Node.js programs. A comment that ends with
//! `status N` allows another status than 0.

use super::back_ends::StorePlace;
use super::busy::wait_until;
use super::fake_forge::FakeForge;
use super::harness_driver::find_tool;
use super::project::{TempProject, node, repository};
use super::web_server::free_port;
use speedwell_fixtures::FakeRepo;
use speedwell_fixtures::clusters::SshdServer;
use speedwell_server::clients::forge::ForgeKind;
use std::path::Path;
use std::process::{Command, Stdio};

fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        match line.trim_end() {
            "```console" => inside = true,
            "```" => inside = false,
            line if inside => found.extend(line.strip_prefix("$ ").map(str::to_owned)),
            _ => {}
        }
    }
    found
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        // Installed packages are no part of the examples.
        if entry.file_name() == "node_modules" {
            continue;
        }
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn status_allowed(command: &str) -> Option<i32> {
    let (_, comment) = command.rsplit_once("# ")?;
    comment.strip_prefix("status ")?.split_whitespace().next()?.parse().ok()
}

#[test]
fn the_tutorial_can_be_followed() {
    let Some(node) = node() else { return };
    let project = TempProject::new();
    for name in ["node-old", "node-new"] {
        std::os::unix::fs::symlink(&node, project.path(name)).unwrap();
    }
    follow_page("docs/guide/tutorial.md", 10, &project);
}

#[test]
fn the_page_on_cpp_can_be_followed() {
    if find_tool(&["c++", "g++", "clang++"]).is_some() {
        follow_page("docs/guide/cpp.md", 4, &TempProject::at_constant_path("page-on-cpp"));
    }
}

#[test]
fn the_page_on_the_command_line_can_be_followed() {
    let project = TempProject::new();
    follow_page("docs/reference/command-line.md", 4, &project);
    assert!(project.path("man1/speedwell-history-trend.1").is_file());
}

#[test]
fn the_page_on_python_can_be_followed() {
    if find_tool(&["python3"]).is_some() {
        follow_page("docs/guide/python.md", 2, &TempProject::new());
    }
}

#[test]
fn the_page_on_one_liners_can_be_followed() {
    let tools = [&["python3"][..], &["c++", "g++", "clang++"], &["node"]];
    if tools.iter().all(|names| find_tool(names).is_some()) {
        follow_page("docs/guide/eval.md", 10, &TempProject::new());
    }
}

#[test]
fn the_page_on_profiles_can_be_followed() {
    if node().is_some() {
        follow_page("docs/guide/profiles.md", 4, &TempProject::new());
    }
}

#[test]
fn the_page_about_noisy_machines_can_be_followed() {
    follow_page("docs/guide/noise.md", 4, &TempProject::new());
}

#[test]
fn the_page_on_imports_can_be_followed() {
    let golden = repository().join("crates/speedwell/tests/golden/history");
    let project = TempProject::new().with(
        "join.csv",
        "time,commit,branch,throughput,latency\n2026-01-31,c1,main,900,1.1\n2026-02-01,c2,main,910,1.2\n",
    );
    copy(&golden.join("asv"), &project.path("results"));
    for (from, to) in [("data.js", "data.js"), ("bencher-perf.json", "perf.json")] {
        std::fs::copy(golden.join(from), project.path(to)).unwrap();
    }
    follow_page("docs/guide/import.md", 5, &project);
}

/// Returns the first code block in this language.
fn first_block(page: &str, language: &str) -> String {
    let text = std::fs::read_to_string(repository().join(page)).unwrap();
    let (_, rest) = text.split_once(&format!("```{language}\n")).unwrap();
    rest.split("```").next().unwrap().to_owned()
}

#[test]
fn the_page_on_several_machines_can_be_followed() {
    let sshd = match SshdServer::start() {
        Ok(sshd) => sshd,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    // The file of the page, except that the hosts and their folder are on this machine.
    let file = format!(
        "folder = \"{}\"\nssh_config = \"{}\"\n{}",
        sshd.folder().display(),
        sshd.ssh_config().display(),
        first_block("docs/guide/fleet.md", "toml"),
    );
    let project = TempProject::new().with("fleet.toml", &file);
    follow_page("docs/guide/fleet.md", 3, &project);
}

/// Code shown on a page is part of an example, so that it is executed as well.
#[test]
fn the_page_on_the_server_can_be_followed() {
    follow_page("docs/guide/server.md", 6, &TempProject::new());
}

/// The page leads from nothing to a comment on a pull request. Only the addresses are replaced, by
/// those of a database, a fake forge and a port of this test.
#[test]
fn a_newcomer_gets_a_comment_on_a_pull_request() {
    let Some(place) = StorePlace::server() else {
        return;
    };
    let project = TempProject::new()
        .with("bench/a.fake", "case len=16\n* 100 101 102 103 104 105 106 107\n")
        .with("forge.token", "secret\n");
    let Some(history) = FakeRepo::init(&project.path(".")) else {
        return;
    };
    history.commit_all("the first one");
    let forge = FakeForge::start(ForgeKind::Gitea);
    let text = std::fs::read_to_string(repository().join("docs/guide/server.md")).unwrap();
    let (_, section) = text.split_once("## From an empty machine to a comment\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```sh\n").skip(1);
    let mut script: String = blocks.map(|block| block.split("```").next().unwrap()).collect();
    let port = free_port().to_string();
    let db = format!("'{}'", place.path().display());
    for (printed, ours) in [
        ("postgres:///perf", db.as_str()),
        ("https://forge.example", &forge.address),
        ("7600", &port),
        ("speedwell run bench/", "speedwell run bench/ -q -r 2"),
    ] {
        assert!(script.contains(printed), "no '{printed}' in {script}");
        script = script.replace(printed, ours);
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_speedwell")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let script = format!("set -e\ntrap 'kill $!' EXIT\n{script}cat >/dev/null\n");
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(project.path("."));
    command.env("PATH", format!("{}:{path}", folder.display()));
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "newcomer");
        command.env(format!("GIT_{role}_EMAIL"), "newcomer");
    }
    for name in ["SPEEDWELL_DB", "GITHUB_SHA", "GITHUB_ACTIONS", "GITLAB_CI"] {
        command.env_remove(name);
    }
    let mut shell = command.stdin(Stdio::piped()).spawn().unwrap();
    wait_until(|| !forge.comments().is_empty() && !forge.statuses().is_empty());
    drop(shell.stdin.take());
    shell.wait().unwrap();
    let comment = &forge.comments()[0].body;
    assert!(comment.starts_with("<!-- speedwell:core:compare -->"), "{comment}");
    assert!(!comment.contains("not compared"), "{comment}");
}

#[test]
fn code_in_the_guide_matches_the_examples() {
    for (page, language, example) in [
        ("docs/guide/cpp.md", "cpp", "examples/cpp/memory/copy.cpp"),
        ("docs/guide/python.md", "python", "examples/python/data/lists.py"),
    ] {
        let read = |path: &str| std::fs::read_to_string(repository().join(path)).unwrap();
        let (text, known) = (read(page), read(example));
        let known: Vec<&str> = known.lines().collect();
        let begin = format!("```{language}\n");
        let (_, block) = text.split_once(&begin).unwrap();
        let (block, _) = block.split_once("```").unwrap();
        for line in block.lines() {
            assert!(known.contains(&line), "{page} shows '{line}', which {example} has not");
        }
    }
}

/// Limits a measuring command to two runs per side: as printed it would measure until there is a
/// verdict, and here only its execution matters. A gate then has no verdict, and passes. One-liners
/// get few short samples.
fn shorten_command(command: &str) -> String {
    let snippets = ["speedwell eval ", "speedwell time "];
    let measures_snippets = snippets.iter().any(|words| command.starts_with(words));
    let measures = ["speedwell run ", "speedwell compare "]
        .iter()
        .any(|words| measures_snippets || command.starts_with(words));
    let evaluates = command.starts_with("speedwell eval ");
    if evaluates && command.contains("-c max") && !command.contains('#') {
        return format!("{} -n 2", command.replace("-t 100ms", "-t 5ms"));
    }
    // Searches and watching have no runs.
    let others = ["--list", "--test", " @", " '@", "-c max", "--watch"];
    let looks_only = others.iter().any(|words| command.contains(words));
    if !measures || looks_only {
        return command.to_owned();
    }
    let (words, comment) = command.split_once(" #").unwrap_or((command, ""));
    let mut kept = Vec::new();
    let mut words = words.split(' ');
    while let Some(word) = words.next() {
        match word {
            "--runs" => drop(words.next()),
            word => kept.push(word),
        }
    }
    if measures_snippets && !kept.contains(&"-t") {
        kept.extend(["-t", "5ms"]);
    }
    if evaluates && !kept.contains(&"-n") {
        kept.extend(["-n", "2"]);
    }
    // The warm-up of a command is a number of executions, 0 by default.
    if evaluates && !command.starts_with("speedwell eval sh ") && !kept.contains(&"-w") {
        kept.extend(["-w", "1ms"]);
    }
    // A gate is rejected if its runs could not decide.
    let runs = if kept.contains(&"--fail-on") { 6 } else { 2 };
    format!("{} --runs {runs} #{comment}", kept.join(" "))
}

#[test]
fn commands_in_the_guide_are_shortened_without_changing_their_meaning() {
    let command = "speedwell compare a --variant 'x=node --y' --runs 8 --time 1ms # status 1 if so";
    assert_eq!(
        shorten_command(command),
        "speedwell compare a --variant 'x=node --y' --time 1ms --runs 2 # status 1 if so"
    );
    assert_eq!(
        shorten_command("speedwell eval sh 'sort a' -c 1,2 --runs 3"),
        "speedwell eval sh 'sort a' -c 1,2 -t 5ms -n 2 --runs 2 #"
    );
    assert_eq!(
        shorten_command("speedwell eval python '1 + 1' -t 1ms"),
        "speedwell eval python '1 + 1' -t 1ms -n 2 -w 1ms --runs 2 #"
    );
    assert_eq!(
        shorten_command("speedwell eval sh 'sleep 0.02' -c max -t 100ms"),
        "speedwell eval sh 'sleep 0.02' -c max -t 5ms -n 2"
    );
    for command in ["speedwell compare '@latest::a' '@latest::b'", "speedwell run --list a"] {
        assert_eq!(shorten_command(command), command);
    }
}

/// Executes every command of a page, in a project with the examples.
fn follow_page(page: &str, at_least: usize, project: &TempProject) {
    copy(&repository().join("examples"), &project.path("examples"));
    let commands = commands(page);
    assert!(commands.len() >= at_least, "{page} has hardly any commands: {commands:?}");
    let folder = Path::new(env!("CARGO_BIN_EXE_speedwell")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    for command in commands.iter().map(|command| shorten_command(command)) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &command]).current_dir(project.path(".")).env("PATH", &path);
        shell.env_remove("SPEEDWELL_DB").env_remove("CXX").env_remove("CXXFLAGS");
        let output = shell.output().unwrap();
        let status = output.status.code();
        let fine = status == Some(0) || (status.is_some() && status == status_allowed(&command));
        assert!(
            fine,
            "{command}\nended with {status:?}\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn every_command_and_option_named_in_the_readme_exists() {
    let text = std::fs::read_to_string(repository().join("README.md")).unwrap();
    let grammar = speedwell::build_grammar();
    let commands: Vec<&str> = grammar.get_subcommands().map(|c| c.get_name()).collect();
    let options: Vec<&str> = grammar
        .get_subcommands()
        .flat_map(|command| command.get_arguments().filter_map(|option| option.get_long()))
        .collect();
    let mut seen = 0;
    for line in text.lines().filter(|line| line.contains("speedwell ")) {
        let after = line.split("speedwell ").nth(1).unwrap_or_default();
        let word = after.split_whitespace().next().unwrap_or_default();
        if word.chars().all(|c| c.is_ascii_lowercase())
            && line.contains("speedwell ")
            && !line.contains("cargo")
        {
            if commands.contains(&word) {
                seen += 1;
            }
            // Arguments after `as TOOL` follow the other tool's grammar.
            if word == "as" {
                continue;
            }
            for option in after
                .split_whitespace()
                .take_while(|word| *word != "--")
                .filter_map(|word| word.strip_prefix("--"))
            {
                let name: String =
                    option.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                let known = options.contains(&name.as_str()) || name == "maglev";
                assert!(known, "README.md names --{name}, which does not exist");
            }
        }
    }
    assert!(seen >= 8, "only {seen} commands of README.md were recognised");
}
