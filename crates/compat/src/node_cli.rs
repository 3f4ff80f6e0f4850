//! The command-line grammar that `run.js`, `compare.js` and `scatter.js` share.
//!
//! Decides what is an option, a value or an item; it must not know what they mean. Options come
//! first; behind the first item, and behind `--`, everything is an item, even what looks like an
//! option. `-x` equals `--x`. The word `test` that is not a value switches test mode on and is no
//! item. Unlike in the originals, an option that a tool does not know, or that lacks its value, is
//! an error: there it would swallow the next word without a sound. Start at [`Grammar::parse`].

/// The options of a tool, without dashes.
#[derive(Debug, Clone, Copy)]
pub struct Grammar {
    /// Options with a value that may stand there several times.
    pub repeated: &'static [&'static str],
    /// Options with a value of which the last one counts.
    pub single: &'static [&'static str],
    /// Options without a value.
    pub switches: &'static [&'static str],
}

/// A command line taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Words {
    options: Vec<(String, String)>,
    switches: Vec<String>,
    /// What is neither an option nor a value.
    pub items: Vec<String>,
    /// Whether the word `test` stands there.
    pub test: bool,
}

/// A command line that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The usage explains it, after this reason, which may be empty.
    Usage(String),
    /// This line explains it.
    Line(String),
}

impl Refusal {
    /// A refusal with the usage and a reason.
    pub fn usage(reason: impl Into<String>) -> Refusal {
        Refusal::Usage(reason.into())
    }

    /// A refusal with one line.
    pub fn line(line: impl Into<String>) -> Refusal {
        Refusal::Line(line.into())
    }
}

impl Grammar {
    /// Takes `arguments` apart.
    ///
    /// # Errors
    /// There is no argument at all, an option is unknown, or it lacks its value.
    pub fn parse(&self, arguments: &[String]) -> Result<Words, Refusal> {
        if arguments.is_empty() {
            return Err(Refusal::usage(""));
        }
        let mut words = Words::default();
        let mut only_items = false;
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            if word == "--" {
                only_items = true;
            } else if !only_items && let Some(name) = word.strip_prefix('-') {
                let name = name.strip_prefix('-').unwrap_or(name);
                if self.switches.contains(&name) {
                    words.switches.push(name.to_owned());
                } else if self.repeated.contains(&name) || self.single.contains(&name) {
                    let value = rest.next().filter(|value| *value != "--").ok_or_else(|| {
                        Refusal::usage(format!("the option '{word}' needs a value"))
                    })?;
                    words.options.push((name.to_owned(), value.clone()));
                } else {
                    return Err(Refusal::usage(format!("unknown option '{word}'")));
                }
            } else if word == "test" {
                words.test = true;
            } else {
                words.items.push(word.clone());
                only_items = true;
            }
        }
        Ok(words)
    }
}

impl Words {
    /// The last value of an option.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values(name).last()
    }

    /// All values of an option in order.
    pub fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.options
            .iter()
            .filter(move |(given, _)| given == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether a switch is on.
    pub fn has(&self, name: &str) -> bool {
        self.switches.iter().any(|given| given == name)
    }

    /// The number of runs.
    ///
    /// # Errors
    /// It is no whole number above 0. The originals crash on 0.
    pub fn runs(&self, default: u32) -> Result<u32, Refusal> {
        match self.value("runs").map(str::parse) {
            None => Ok(default),
            Some(Ok(runs)) if runs > 0 => Ok(runs),
            Some(_) => Err(Refusal::usage(
                "the value of '--runs' must be a whole number above 0",
            )),
        }
    }

    /// The parameters set by `--set`.
    ///
    /// # Errors
    /// A value is not of the form `name=value`; the words are those of the benchmark scripts.
    pub fn sets(&self) -> Result<Vec<(String, String)>, Refusal> {
        self.values("set").map(pair).collect()
    }

    /// The processors to which `--set CPUSET=...` binds what is measured.
    ///
    /// # Errors
    /// The value is no list of numbers and ranges.
    pub fn processors(&self) -> Result<Option<String>, Refusal> {
        let sets = self.sets()?;
        let Some((_, list)) = sets.into_iter().rfind(|(name, _)| name == "CPUSET") else {
            return Ok(None);
        };
        if is_processor_list(&list) {
            return Ok(Some(list));
        }
        Err(Refusal::line(format!(
            "CPUSET '{list}' is not of the form 0, 0-2 or 0,2-4"
        )))
    }
}

fn pair(word: &str) -> Result<(String, String), Refusal> {
    // The name is the shortest text that is not empty: in `==1` it is `=`.
    let first = word.chars().next().map_or(0, char::len_utf8);
    match word[first..].find('=') {
        Some(at) if first > 0 => Ok((
            word[..first + at].to_owned(),
            word[first + at + 1..].to_owned(),
        )),
        _ => Err(Refusal::line(format!("bad argument: {word}"))),
    }
}

fn is_processor_list(list: &str) -> bool {
    let number = |text: &str| text.parse::<u16>().ok();
    list.split(',').all(|part| match part.split_once('-') {
        None => number(part).is_some(),
        Some((first, last)) => number(first).zip(number(last)).is_some_and(|(a, b)| a <= b),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: Grammar = Grammar {
        repeated: &["set", "filter"],
        single: &["runs", "old"],
        switches: &["no-progress"],
    };

    fn parse(line: &str) -> Result<Words, Refusal> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        GRAMMAR.parse(&words)
    }

    #[test]
    fn options_come_first_and_one_dash_is_as_good_as_two() {
        let words = parse("--set a=1 -set b=2 -no-progress --runs 3 url util").unwrap();
        assert_eq!(words.values("set").collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(words.items, ["url", "util"]);
        assert!(words.has("no-progress"));
        assert_eq!(words.runs(30), Ok(3));
    }

    #[test]
    fn behind_the_first_item_everything_is_an_item() {
        let words = parse("zz --filter kill").unwrap();
        assert_eq!(words.items, ["zz", "--filter", "kill"]);
        assert_eq!(parse("--set a=1 -- --odd").unwrap().items, ["--odd"]);
    }

    #[test]
    fn the_word_test_is_a_mode_unless_it_is_a_value() {
        let words = parse("test url").unwrap();
        assert!(words.test && words.items == ["url"]);
        assert!(parse("url test").unwrap().test);
        let value = parse("--filter test url").unwrap();
        assert!(!value.test && value.value("filter") == Some("test"));
    }

    #[test]
    fn values_may_look_like_options() {
        assert_eq!(parse("--set -x url").unwrap().value("set"), Some("-x"));
    }

    #[test]
    fn unknown_options_are_errors_instead_of_swallowing_the_next_word() {
        assert_eq!(
            parse("--flter url"),
            Err(Refusal::usage("unknown option '--flter'"))
        );
        assert_eq!(parse("-h"), Err(Refusal::usage("unknown option '-h'")));
        assert_eq!(
            parse("--runs"),
            Err(Refusal::usage("the option '--runs' needs a value"))
        );
        assert_eq!(parse(""), Err(Refusal::usage("")));
    }

    #[test]
    fn zero_runs_are_refused_instead_of_crashing() {
        for wrong in ["0", "-1", "many", "1.5"] {
            assert!(matches!(
                parse(&format!("--runs {wrong} x")).unwrap().runs(30),
                Err(Refusal::Usage(_))
            ));
        }
        assert_eq!(parse("x").unwrap().runs(30), Ok(30));
    }

    #[test]
    fn parameters_are_pairs() {
        let sets = |line| parse(line).unwrap().sets();
        assert_eq!(
            sets("--set n=1e6 --set q=a=b --set e= x"),
            Ok([("n", "1e6"), ("q", "a=b"), ("e", "")]
                .map(|(k, v)| (k.into(), v.into()))
                .into())
        );
        assert_eq!(sets("--set n x"), Err(Refusal::line("bad argument: n")));
        assert_eq!(sets("--set =1 x"), Err(Refusal::line("bad argument: =1")));
    }

    #[test]
    fn processors_are_numbers_and_ranges() {
        let processors = |list: &str| {
            parse(&format!("--set CPUSET={list} x"))
                .unwrap()
                .processors()
        };
        for right in ["0", "0-2", "0,2-4"] {
            assert_eq!(processors(right), Ok(Some(right.into())));
        }
        for wrong in ["", "a", "2-0", "0,", "0;rm"] {
            assert!(processors(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse("x").unwrap().processors(), Ok(None));
    }
}
