//! What `-h` prints: the options that most people need, on one screen. `--help` has all, under their headings.
//!
//! Decides which options those are; what they say is declared with them, in the first line of their help. Start at
//! [`of`].

use clap::Command;

/// Lines of the examples, heading included.
const EXAMPLE_LINES: usize = 3;

/// The options in the short help of a command. One that is not listed here shows all it has.
const SHOWN: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "filter",
            "set",
            "runs",
            "time",
            "variant",
            "old",
            "new",
            "list",
            "test",
            "resume",
            "threshold",
            "fail-on",
            "x-axis",
            "output",
            "format",
            "quiet",
            "verbose",
            "tag",
            "no-save",
        ],
    ),
    (
        "eval",
        &[
            "init",
            "init-worker",
            "name",
            "concurrency",
            "watch",
            "runs",
            "time",
            "old",
            "new",
            "resume",
            "threshold",
            "fail-on",
            "output",
            "format",
            "quiet",
            "verbose",
            "no-save",
        ],
    ),
    (
        "load",
        &[
            "concurrency",
            "count",
            "time",
            "rate",
            "ramp",
            "warmup",
            "request",
            "header",
            "data",
            "http2",
            "no-keepalive",
            "timeout",
            "insecure",
            "serve",
            "client",
            "runs",
            "fail-on",
            "output",
            "quiet",
            "no-save",
        ],
    ),
    (
        "compare",
        &[
            "filter",
            "set",
            "metric",
            "runs",
            "variant",
            "old",
            "new",
            "baseline",
            "list",
            "resume",
            "threshold",
            "fail-on",
            "output",
            "format",
            "quiet",
            "verbose",
            "no-save",
        ],
    ),
    (
        "report",
        &[
            "export",
            "merge",
            "filter",
            "set",
            "metric",
            "baseline",
            "threshold",
            "x-axis",
            "by",
            "log",
            "output",
            "format",
            "chart",
            "sort",
            "quiet",
            "verbose",
            "db",
        ],
    ),
    (
        "doctor",
        &[
            "calibrate",
            "comparisons",
            "set",
            "runs",
            "pin",
            "output",
            "format",
            "verbose",
            "db",
        ],
    ),
];

/// The short help of the command that `words` call, the words without options.
pub fn of(grammar: &Command, words: &[&str]) -> String {
    let mut grammar = grammar.clone();
    grammar.build();
    let mut command = &grammar;
    for word in words {
        match command.find_subcommand(word) {
            Some(inner) => command = inner,
            None => break,
        }
    }
    shortened(command.clone()).render_help().to_string()
}

fn shortened(command: Command) -> Command {
    let of_command = SHOWN.iter().find(|(name, _)| *name == command.get_name());
    let shown = of_command.map(|(_, shown)| *shown);
    let name = command.get_bin_name().unwrap_or("speedwell").to_owned();
    let examples = command.get_after_help().map(ToString::to_string);
    let examples = examples.unwrap_or_default();
    let few: Vec<&str> = examples.lines().take(EXAMPLE_LINES).collect();
    let command = command.mut_args(|arg| {
        let long = arg.get_long().unwrap_or_default();
        let is_usual = ["", "help"].contains(&long);
        let is_shown = shown.is_none_or(|shown| is_usual || shown.contains(&long));
        let arg = arg.help_heading(None::<&'static str>);
        match is_shown {
            true => arg.hide_possible_values(shown.is_some()),
            false => arg.hide(true),
        }
    });
    let more = shown.map(|_| format!("All options: '{name} --help'"));
    let parts = [few.join("\n"), more.unwrap_or_default()];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    command.after_help(parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_option_that_is_shown_exists() {
        let grammar = super::super::Words::command();
        for (name, shown) in SHOWN {
            let command = grammar.find_subcommand(name).unwrap();
            for long in *shown {
                let mut options = command.get_arguments();
                assert!(
                    options.any(|option| option.get_long() == Some(long)),
                    "{name} --{long}"
                );
            }
        }
    }
}
