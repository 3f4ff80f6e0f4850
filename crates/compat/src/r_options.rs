//! The options of Node.js core's R scripts.
//!
//! Decides their grammar: `-x` and `--x` switch x on, a word behind it that does not begin with
//! `-` becomes its value, all other words are passed over. Unlike in the originals an option that
//! the script does not know is an error. It must not know what an option does.

/// The options given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ROptions {
    given: Vec<(String, Option<String>)>,
}

impl ROptions {
    /// Reads `arguments`; `known` lists the names that exist, without dashes.
    ///
    /// # Errors
    /// The first option that is not in the list, as it was typed.
    pub fn parse(arguments: &[String], known: &[&str]) -> Result<ROptions, String> {
        let mut given: Vec<(String, Option<String>)> = Vec::new();
        let mut awaits_value = false;
        for word in arguments {
            if let Some(name) = word.strip_prefix('-') {
                let name = name.strip_prefix('-').unwrap_or(name);
                if !known.contains(&name) {
                    return Err(word.clone());
                }
                given.push((name.to_owned(), None));
                awaits_value = true;
            } else if awaits_value && let Some((_, value)) = given.last_mut() {
                *value = Some(word.clone());
                awaits_value = false;
            }
        }
        Ok(ROptions { given })
    }

    /// Whether the option stands there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.given.iter().any(|(given, _)| given == name)
    }

    /// The option's value; an option given twice has the last one.
    pub fn value(&self, name: &str) -> Option<&str> {
        let last = self.given.iter().rev().find(|(given, _)| given == name)?;
        last.1.as_deref()
    }

    /// Whether the option stands there without the value that it needs.
    pub fn lacks_value(&self, name: &str) -> bool {
        self.has(name) && self.value(name).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<ROptions, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        ROptions::parse(&words, &["plot", "log", "help", "xaxis"])
    }

    #[test]
    fn one_dash_is_as_good_as_two() {
        let options = parse("-xaxis len --plot a.svg stray --log").unwrap();
        assert_eq!(options.value("xaxis"), Some("len"));
        assert_eq!(options.value("plot"), Some("a.svg"));
        assert!(options.has("log") && !options.has("help") && !options.has("stray"));
    }

    #[test]
    fn a_value_cannot_begin_with_a_dash() {
        let options = parse("--plot --log").unwrap();
        assert!(options.lacks_value("plot"));
        assert!(!options.lacks_value("help"));
    }

    #[test]
    fn unknown_options_are_errors_instead_of_being_passed_over() {
        assert_eq!(parse("--polt a.svg"), Err("--polt".into()));
        assert_eq!(parse("--plot=a.svg"), Err("--plot=a.svg".into()));
    }
}
