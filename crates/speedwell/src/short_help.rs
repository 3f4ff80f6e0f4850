//! Builds the text of `-h`: the most useful options of a command, on one screen. `--help` prints
//! all options under their headings.
//!
//! This module decides which options are shown. The text of an option is the first line of its
//! help. Start at [`short_help`].

use clap::Command;
use clap::builder::StyledStr;

/// Maximum number of lines of the examples, including their heading.
const EXAMPLE_LINES: usize = 3;

/// Options in a command's short help. A command that is not listed shows all of its options.
const SHORT_HELP_OPTIONS: &[(&str, &str)] = &[
    (
        "run",
        "filter set runs time variant old new list test resume threshold fail-on x-axis output format json quiet tag no-save",
    ),
    (
        "eval",
        "init init-worker name concurrency watch runs time old new resume threshold fail-on output format quiet no-save",
    ),
    (
        "iterations",
        "parameter start most cv time runs filter set variant old new output format quiet",
    ),
    (
        "warmup",
        "code init init-worker runs iterations time steady filter set variant old new fail-on output format quiet no-save",
    ),
    (
        "load",
        "concurrency count time rate ramp warmup request header data http2 no-keepalive timeout insecure serve client runs \
         fail-on output quiet no-save",
    ),
    (
        "compare",
        "filter set metric runs variant old new build baseline list resume threshold fail-on output format json quiet no-save",
    ),
    (
        "confirm",
        "filter set old new build order list resume threshold fail-on output format quiet no-save",
    ),
    ("bisect", "change program build threshold budget resume filter set output format quiet db"),
    (
        "report",
        "export merge filter set metric baseline threshold x-axis by output format json chart sort quiet verbose db",
    ),
    ("backfill", "points program build budget filter set runs output format quiet db branch"),
    ("comment", "text on check status commit token-file dry-run metric threshold fail-on db"),
    ("doctor", "calibrate builds comparisons tuned set runs pin output format json verbose db"),
    (
        "history trend",
        "set metric branch threshold relative x-axis export output format json quiet db",
    ),
    (
        "history changes",
        "set metric branch threshold since open fail-on confirm build output format json quiet db",
    ),
];

/// Returns the short help of `command`. Requires that clap has already built the command.
pub(super) fn short_help(command: &Command) -> StyledStr {
    let name = command.get_bin_name().unwrap_or("speedwell").to_owned();
    let subcommand = name.strip_prefix("speedwell ").unwrap_or_default();
    let listed_options: Option<Vec<&str>> = SHORT_HELP_OPTIONS
        .iter()
        .find(|(command, _)| *command == subcommand)
        .map(|(_, options)| options.split_whitespace().collect());
    let examples = command.get_after_help().map(ToString::to_string);
    let examples: Vec<&str> =
        examples.iter().flat_map(|text| text.lines()).take(EXAMPLE_LINES).collect();
    let long_help_hint = listed_options.is_some().then(|| format!("All options: '{name} --help'"));
    let footer: Vec<String> = [examples.join("\n")]
        .into_iter()
        .filter(|examples| !examples.is_empty())
        .chain(long_help_hint)
        .collect();
    let command = command.clone().mut_args(|option| {
        let long = option.get_long().unwrap_or_default();
        let is_always_hidden = option.is_hide_set();
        let is_hidden = listed_options.as_ref().is_some_and(|listed_options| {
            !["", "help"].contains(&long) && !listed_options.contains(&long)
        });
        option
            .help_heading(None::<&'static str>)
            .hide_possible_values(listed_options.is_some())
            .hide(is_hidden || is_always_hidden)
    });
    command.after_help(footer.join("\n\n")).render_help()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_short_help_exists() {
        for (name, options) in SHORT_HELP_OPTIONS {
            let mut command = crate::build_grammar();
            for word in name.split(' ') {
                command = command.find_subcommand(word).unwrap().clone();
            }
            for long in options.split_whitespace() {
                let option = command
                    .get_arguments()
                    .find(|option| option.get_long() == Some(long))
                    .unwrap_or_else(|| panic!("{name} has no --{long}"));
                assert!(!option.is_hide_set(), "{name} --{long} is hidden");
            }
        }
    }
}
