//! The command line of `calibrate-n.js`: `--name=value` and the path of a script.
//!
//! Decides what may stand there. Where the original goes on with a default for a value that is no number, this is an
//! error: two hours later nobody remembers the line that said so.

use speedwell_analysis::iterations::Steadiness;

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The script as it was typed.
    pub path: String,
    /// Runs for each number of iterations.
    pub runs: u32,
    /// What is steady enough.
    pub enough: Steadiness,
    /// How many numbers are tried.
    pub increases: u32,
    /// The first number.
    pub start: u64,
    /// From one number to the next.
    pub factor: u64,
}

impl Options {
    /// Reads the words of a command line; of several paths the last one counts.
    ///
    /// # Errors
    /// An unknown option, a value that is no number above 0, or no path.
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let mut options = Options {
            path: String::new(),
            runs: 30,
            enough: Steadiness {
                mean: 0.05,
                single: 0.10,
            },
            increases: 6,
            start: 10,
            factor: 10,
        };
        for word in arguments {
            let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with("--"))
            else {
                if word.starts_with('-') {
                    return Err(format!("'{word}' is not of the form --name=value"));
                }
                options.path = word.clone();
                continue;
            };
            match name {
                "--runs" => options.runs = positive(name, value)?,
                "--max-increases" => options.increases = positive(name, value)?,
                "--start-n" => options.start = positive(name, value)?,
                "--increase" => options.factor = positive(name, value)?,
                "--cv-threshold" => {
                    let share = value.parse().ok().filter(|share| *share > 0.0);
                    options.enough.mean = share.ok_or_else(|| refusal(name, value))?;
                }
                _ => return Err(format!("unknown option '{name}'")),
            }
        }
        if options.path.is_empty() {
            Err("no benchmark file is named".to_owned())
        } else {
            Ok(options)
        }
    }
}

fn positive<N: std::str::FromStr + PartialOrd + From<u8>>(
    name: &str,
    value: &str,
) -> Result<N, String> {
    let number = value.parse().ok().filter(|number| *number > N::from(0));
    number.ok_or_else(|| refusal(name, value))
}

fn refusal(name: &str, value: &str) -> String {
    format!("the value of '{name}' must be a number above 0, not '{value}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        Options::parse(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn options_stand_anywhere_and_have_the_defaults_of_the_original() {
        let plain = parse(&["a.js"]).unwrap();
        assert_eq!(
            (plain.runs, plain.increases, plain.start, plain.factor),
            (30, 6, 10, 10)
        );
        let given = parse(&["a.js", "--runs=3", "--cv-threshold=.02", "--start-n=7"]).unwrap();
        assert_eq!((given.runs, given.start, given.enough.mean), (3, 7, 0.02));
    }

    #[test]
    fn what_is_no_number_above_zero_is_refused() {
        for words in [
            ["--runs=x", "a"],
            ["--runs=0", "a"],
            ["--cv-threshold=-1", "a"],
            ["--odd=1", "a"],
            ["--runs", "3"],
        ] {
            assert!(parse(&words).is_err(), "{words:?}");
        }
        assert!(parse(&["--runs=3"]).is_err(), "no path");
    }
}
