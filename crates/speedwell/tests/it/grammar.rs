//! Consistency of the options: a letter, a name and a meaning are the same in every command.

use super::project::TempProject;
use std::collections::BTreeMap;

/// Every option of every command: (command, option).
fn options() -> Vec<(String, clap::Arg)> {
    let mut all = Vec::new();
    for command in speedwell::build_grammar().get_subcommands() {
        for option in command.get_arguments() {
            all.push((command.get_name().to_owned(), option.clone()));
        }
    }
    all
}

/// Options with the same meaning for a load as elsewhere, but other help texts: a load has one
/// sample, as long as the load; its cases are URLs, what runs beside the server is the generator,
/// and addresses are those it connects from.
const OF_A_LOAD: [&str; 8] =
    ["concurrency", "runs", "time", "timeout", "warmup", "fail-on", "pin", "bind"];

/// Options with the same meaning for a search for iterations as elsewhere, but other defaults: it
/// needs long samples, and computes a variation from the runs.
const OF_ITERATIONS: [&str; 2] = ["runs", "time"];

/// Options that `warmup` words differently: it has a fixed number of processes and records all
/// their iterations, and '--steady' is the part of one that must be steady.
const OF_WARMUP: [&str; 4] = ["runs", "iterations", "time", "steady"];

#[test]
fn a_letter_means_the_same_everywhere() {
    let mut meanings: BTreeMap<char, String> = BTreeMap::new();
    for (command, option) in options() {
        let (Some(letter), Some(long)) = (option.get_short(), option.get_long()) else {
            continue;
        };
        // Curl follows redirects with '-L' and hyperfine lists values with it; both keep their
        // customary letter.
        if (command.as_str(), letter) == ("load", 'L') {
            assert_eq!(long, "location");
            continue;
        }
        // In every load generator '-n' is the number of requests, and a load has no samples to
        // count.
        if (command.as_str(), letter) == ("load", 'n') {
            assert_eq!(long, "count");
            continue;
        }
        let known = meanings.entry(letter).or_insert_with(|| long.to_owned());
        assert_eq!(known, long, "-{letter} of '{command}' means something else elsewhere");
    }
    assert!(meanings.len() >= 6, "the check saw hardly any letters: {meanings:?}");
}

#[test]
fn an_option_says_the_same_everywhere() {
    let mut helps: BTreeMap<String, String> = BTreeMap::new();
    for (command, option) in options() {
        // The text of '--help' depends on whether it shows more.
        let Some(long) = option.get_long().filter(|long| *long != "help") else {
            continue;
        };
        let help = option.get_help().map(ToString::to_string).unwrap_or_default();
        assert!(!help.is_empty(), "--{long} of '{command}' has no help");
        let own = match command.as_str() {
            // The budget covers many sessions, of revisions that are not checked out.
            "backfill" => &["budget", "branch"][..],
            "load" => &OF_A_LOAD[..],
            "iterations" => &OF_ITERATIONS,
            "warmup" => &OF_WARMUP,
            // Imported data have their values already, so there is one for each name, and no file
            // of them.
            "import" => &["set"],
            // A check of layouts has its own number of builds.
            "doctor" => &["builds"],
            // Sessions are selected by options that other commands assign.
            "history" => &["branch", "filter"],
            // Its cases belong to one benchmark, and differ by their values. A warm-up may be a
            // number of executions.
            "eval" => &["filter", "exclude", "warmup"],
            "time" => &["warmup"],
            // It lists sessions.
            "push" => &["list"],
            // It has no verdicts.
            "bisect" => &["threshold"],
            // A comment is posted on a pull request.
            "comment" => &["on"],
            // Its store is a file. Certificate and key are its own, not a client's; its log option
            // is a format.
            "serve" => &["db", "cert", "key", "log"],
            _ => &[],
        };
        if own.contains(&long) {
            continue;
        }
        let known = helps.entry(long.to_owned()).or_insert_with(|| help.clone());
        assert_eq!(*known, help, "--{long} of '{command}' says something else elsewhere");
    }
}

#[test]
fn options_that_mean_nothing_for_a_command_are_hidden() {
    let all = options();
    for (command, names) in [
        ("report", &["build", "tag"][..]),
        ("comment", &["tag", "no-save"]),
        ("warmup", &["metric", "reject"]),
        ("confirm", &["runs", "order", "fail-on", "by"]),
        ("history", &["tag", "unit"]),
        ("import", &["chart"]),
        ("time", &["with-own-benchmarks"]),
    ] {
        for name in names {
            let found =
                all.iter().find(|(of, option)| of == command && option.get_long() == Some(*name));
            assert!(found.unwrap().1.is_hide_set(), "--{name} of '{command}'");
        }
    }
}

#[test]
fn every_option_with_a_value_has_a_value_name() {
    for (command, option) in options() {
        if option.get_action().takes_values() && option.get_long().is_some() {
            let names = option.get_value_names().unwrap_or_default();
            assert!(
                !names.is_empty(),
                "--{:?} of '{command}' has no name for its value",
                option.get_long()
            );
        }
    }
}

#[test]
fn the_grammar_is_consistent_in_itself() {
    speedwell::build_grammar().debug_assert();
}

/// Maximum lines of a short help: what a terminal of ordinary height shows at once. The list of
/// commands has five more.
const SCREEN: usize = 40;

/// Maximum width of the first line of an option's help: beside the longest names it fits on 100
/// columns.
const FIRST_LINE: usize = 65;

/// Every command with the words that call it, including subcommands.
fn commands(command: &clap::Command, words: &[String]) -> Vec<(Vec<String>, clap::Command)> {
    let mut found = vec![(words.to_vec(), command.clone())];
    for inner in command.get_subcommands() {
        if inner.get_name() != "help" {
            let words = [words, &[inner.get_name().to_owned()]].concat();
            found.extend(commands(inner, &words));
        }
    }
    found
}

/// The options of a command that are not hidden.
fn visible_options(command: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    command.get_arguments().filter(|option| !option.is_hide_set())
}

#[test]
fn the_short_help_of_every_command_fits_on_a_screen() {
    let project = TempProject::new();
    let all = commands(&speedwell::build_grammar(), &[]);
    assert!(all.len() > 40, "{all:?}");
    for (mut words, _) in all {
        words.push("-h".to_owned());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = project.run(&words).expect_status(0).stdout;
        let lines = help.lines().count();
        let screen = if words.len() == 1 { SCREEN + 5 } else { SCREEN };
        assert!(lines <= screen, "{words:?} prints {lines} lines:\n{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{words:?}:\n{help}");
        assert!(help.contains("Usage: speedwell"), "{words:?}:\n{help}");
    }
}

#[test]
fn the_first_line_about_an_option_is_short() {
    for (words, command) in commands(&speedwell::build_grammar(), &[]) {
        for option in visible_options(&command) {
            let help = option.get_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let columns = help.chars().count();
            assert!(
                columns <= FIRST_LINE,
                "{words:?} {}: {columns} columns: {help}",
                option.get_id()
            );
        }
    }
}

#[test]
fn the_long_help_has_every_option_that_is_not_hidden() {
    for (words, mut command) in commands(&speedwell::build_grammar(), &[]) {
        let help = command.render_long_help().to_string();
        for long in visible_options(&command).filter_map(clap::Arg::get_long) {
            assert!(help.contains(&format!("--{long}")), "{words:?} --{long}");
        }
    }
}

#[test]
fn no_text_names_a_hidden_option() {
    let grammar = speedwell::build_grammar();
    let all = commands(&grammar, &[]);
    let visible: Vec<&str> = all
        .iter()
        .flat_map(|(_, command)| visible_options(command))
        .filter_map(clap::Arg::get_long)
        .collect();
    let hidden: Vec<&str> = all
        .iter()
        .flat_map(|(_, command)| command.get_arguments())
        .filter_map(clap::Arg::get_long)
        .filter(|long| !visible.contains(long))
        .collect();
    assert!(hidden.contains(&"benchmarker"), "{hidden:?}");
    for (words, command) in &all {
        let help = command.clone().render_long_help().to_string();
        for long in &hidden {
            assert!(!help.contains(&format!("--{long}")), "{words:?} --{long}");
        }
    }
}
