//! Splits the command lines of the imitated tools, using tables of options.
//!
//! Classifies each word as an option, a value, or neither. Each of the three functions follows its
//! own grammar. [`parse_getopt`] follows the grammar of getopt, for ab and erlperf. [`parse_node`]
//! follows the scripts of Node.js core, and [`parse_r`] follows the R scripts of Node.js core.
//! `compare_py/arguments.rs` implements the grammar of argparse for `compare.py`.
//!
//! The functions do not know what options mean. They reject unknown options, although the original
//! scripts of Node.js silently swallow the argument after an unknown option.
//!
//! A crate such as lexopt would suit only ab. The messages of erlperf name whole clusters of
//! letters, and erlperf has the option `-pa`. In the R and Node.js scripts, one dash means the same
//! as two.

/// Command line split into options and other arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedArguments<'a> {
    /// Options with their values, each under its canonical name.
    pub options: Vec<(&'a str, Option<&'a str>)>,
    /// Arguments that are neither options nor values.
    pub others: Vec<&'a str>,
}

/// Error in a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgumentError<'a> {
    /// Unknown option name.
    UnknownName(&'a str),
    /// Unknown option letter; the second string is the whole argument.
    UnknownLetter(&'a str, &'a str),
    /// The option requires a value.
    NeedsValue(&'a str),
    /// The option takes no value.
    TakesNoValue(&'a str),
}

impl<'a> ParsedArguments<'a> {
    /// Whether an option is given, with or without a value.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == option)
    }

    /// Returns the value of an option. If the option occurs several times, the last occurrence
    /// counts, even if it has no value.
    pub fn value(&self, option: &str) -> Option<&'a str> {
        self.options.iter().rfind(|(name, _)| *name == option)?.1
    }

    /// Returns all values of an option in order.
    pub fn values(&self, option: &str) -> impl Iterator<Item = &'a str> {
        let occurrences = self.options.iter().filter(move |(name, _)| *name == option);
        occurrences.filter_map(|(_, value)| *value)
    }
}

/// Splits a command line as getopt does. Letters may be clustered (`-kq`) and values attached
/// (`-n100`, `--name=value`); options may follow other arguments. `find` looks up an option by any
/// of its names, including the dashes, and returns its canonical name and whether it takes a value.
///
/// # Errors
/// Fails if an option is unknown, lacks its value, or has a value although it takes none.
pub fn parse_getopt<'a>(
    arguments: &'a [String],
    find: impl Fn(&str) -> Option<(&'static str, bool)>,
) -> Result<ParsedArguments<'a>, ArgumentError<'a>> {
    let mut parsed = ParsedArguments::default();
    let mut arguments_left = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments_left.next() {
        let (name, attached) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (argument, None),
        };
        if argument == "--" {
            parsed.others.extend(arguments_left.by_ref());
        } else if argument.len() < 2 || !argument.starts_with('-') {
            parsed.others.push(argument);
        } else if let Some((option, takes_value)) = find(name).filter(|_| name.len() > 2) {
            let value = match attached {
                Some(_) if !takes_value => return Err(ArgumentError::TakesNoValue(name)),
                None if takes_value => {
                    Some(arguments_left.next().ok_or(ArgumentError::NeedsValue(name))?)
                }
                attached => attached,
            };
            parsed.options.push((option, value));
        } else if name.starts_with("--") {
            return Err(ArgumentError::UnknownName(name));
        } else {
            // A cluster of letters, which ends with the first letter that takes a value. The value
            // is the rest of the argument or, if nothing is left, the next argument.
            for (start, letter) in argument.char_indices().skip(1) {
                let (letter_text, remainder) = argument[start..].split_at(letter.len_utf8());
                let unknown = ArgumentError::UnknownLetter(letter_text, argument);
                let (option, takes_value) = find(&format!("-{letter}")).ok_or(unknown)?;
                if takes_value {
                    let attached = Some(remainder).filter(|value| !value.is_empty());
                    let value = attached
                        .or_else(|| arguments_left.next())
                        .ok_or(ArgumentError::NeedsValue(letter_text))?;
                    parsed.options.push((option, Some(value)));
                    break;
                }
                parsed.options.push((option, None));
            }
        }
    }
    Ok(parsed)
}

/// Splits a command line as Node.js core's scripts do. Options come first. After `--`, or after the
/// first word that is not an option, every word is an argument, even if it looks like an option.
/// `-x` means the same as `--x`. The word `test` is an exception: it counts as an option in any
/// place, unless it is the value of an option.
///
/// # Errors
/// Fails if an option is in neither list, or lacks its value.
pub fn parse_node<'a>(
    arguments: &'a [String],
    valued: &[&str],
    switches: &[&str],
) -> Result<ParsedArguments<'a>, ArgumentError<'a>> {
    let mut parsed = ParsedArguments::default();
    let mut are_options_over = false;
    let mut arguments_left = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments_left.next() {
        if argument == "--" {
            are_options_over = true;
        } else if !are_options_over && let Some(name) = strip_dashes(argument) {
            if switches.contains(&name) {
                parsed.options.push((name, None));
            } else if valued.contains(&name) {
                let value = arguments_left.next().filter(|value| *value != "--");
                parsed
                    .options
                    .push((name, Some(value.ok_or(ArgumentError::NeedsValue(argument))?)));
            } else {
                return Err(ArgumentError::UnknownName(argument));
            }
        } else if argument == "test" {
            parsed.options.push((argument, None));
        } else {
            parsed.others.push(argument);
            are_options_over = true;
        }
    }
    Ok(parsed)
}

/// Splits a command line as the R scripts do. `-x` and `--x` set x; a following argument that does
/// not begin with `-` becomes its value. All other arguments are ignored.
///
/// # Errors
/// Returns the first option that is not in the list, as typed.
pub fn parse_r<'a>(
    arguments: &'a [String],
    known_options: &[&str],
) -> Result<ParsedArguments<'a>, &'a str> {
    let mut parsed = ParsedArguments::default();
    let mut awaits_value = false;
    for argument in arguments {
        if let Some(name) = strip_dashes(argument) {
            if !known_options.contains(&name) {
                return Err(argument);
            }
            parsed.options.push((name, None));
            awaits_value = true;
        } else if std::mem::take(&mut awaits_value)
            && let Some((_, value)) = parsed.options.last_mut()
        {
            *value = Some(argument);
        }
    }
    Ok(parsed)
}

/// Returns the name of an option without its one or two dashes.
fn strip_dashes(argument: &str) -> Option<&str> {
    let name = argument.strip_prefix('-')?;
    Some(name.strip_prefix('-').unwrap_or(name))
}
