//! Selects machines of a fleet: names and labels joined by `&`, `|`, `!` and brackets.
//!
//! Decides what a name is and how such a text is evaluated; the machines are known elsewhere. The
//! grammar, from lowest to highest precedence: `a | b`, `a & b`, `!a`, `( ... )`. Start at
//! [`Labels`].

use super::part::nearest_of;
use anyhow::{Result, bail, ensure};
use std::fmt;
use std::str::FromStr;

/// Maximum length of the name of a machine or label.
const LONGEST_NAME: usize = 64;
/// Maximum nesting of brackets.
const DEEPEST: usize = 32;

/// Whether `text` can be the name of a machine or a label: letters, digits, `.`, `_` and `-`, the
/// first a letter or digit. So no name is an option or has a meaning in a shell.
pub fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= LONGEST_NAME
        && text.bytes().all(is_inner)
        && text
            .bytes()
            .next()
            .is_some_and(|first| first.is_ascii_alphanumeric())
}

/// A selection of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Labels {
    /// Machines with this name or label.
    Name(String),
    /// All other machines.
    Not(Box<Labels>),
    /// Machines in both selections.
    And(Box<Labels>, Box<Labels>),
    /// Machines in either selection.
    Or(Box<Labels>, Box<Labels>),
}

impl Labels {
    /// Whether it selects a machine with these names.
    pub fn fits(&self, has: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Labels::Name(name) => has(name),
            Labels::Not(other) => !other.fits(has),
            Labels::And(one, other) => one.fits(has) && other.fits(has),
            Labels::Or(one, other) => one.fits(has) || other.fits(has),
        }
    }

    /// Returns every name in it, in order of appearance.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Labels::Name(name) => vec![name],
            Labels::Not(other) => other.names(),
            Labels::And(one, other) | Labels::Or(one, other) => {
                [one.names(), other.names()].concat()
            }
        }
    }

    /// Checks that all names in it are known.
    ///
    /// # Errors
    /// A name is not in `known`; the message suggests known ones.
    pub fn ensure_known(&self, known: &[String]) -> Result<()> {
        let is_unknown = |name: &&str| !known.iter().any(|known| known == name);
        if let Some(name) = self.names().into_iter().find(is_unknown) {
            let hint = nearest_of(name, known);
            bail!("there is no machine or label '{name}'\nhint: {hint}");
        }
        Ok(())
    }
}

impl FromStr for Labels {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Labels> {
        let mut parser = Parser {
            words: words(text)?,
            at: 0,
            depth: 0,
        };
        let labels = parser.or()?;
        match parser.next() {
            None => Ok(labels),
            Some(word) => bail!("'{word}' has no meaning here: between names stands & or |"),
        }
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |labels: &Labels| match labels {
            Labels::Name(_) | Labels::Not(_) => labels.to_string(),
            _ => format!("({labels})"),
        };
        match self {
            Labels::Name(name) => f.write_str(name),
            Labels::Not(other) => write!(f, "!{}", inner(other)),
            Labels::And(one, other) => write!(f, "{} & {}", inner(one), inner(other)),
            Labels::Or(one, other) => write!(f, "{} | {}", inner(one), inner(other)),
        }
    }
}

/// Splits a text into names and symbols.
fn words(text: &str) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut is_inside = false;
    for letter in text.chars() {
        let is_sign = "&|!()".contains(letter);
        if letter.is_whitespace() || is_sign {
            is_inside = false;
            words.extend(is_sign.then(|| letter.to_string()));
        } else if let Some(word) = words.last_mut().filter(|_| is_inside) {
            word.push(letter);
        } else {
            is_inside = true;
            words.push(letter.to_string());
        }
    }
    let is_sign = |word: &String| ["&", "|", "!", "(", ")"].contains(&word.as_str());
    for word in words.iter().filter(|word| !is_sign(word)) {
        ensure!(
            is_name(word),
            "'{word}' is no name of machines\nhint: names are letters, digits and . _ - and are joined by & | ! ( )"
        );
    }
    Ok(words)
}

struct Parser {
    words: Vec<String>,
    at: usize,
    depth: usize,
}

impl Parser {
    fn next(&mut self) -> Option<String> {
        let word = self.words.get(self.at).cloned();
        self.at += 1;
        word
    }

    fn takes(&mut self, sign: &str) -> bool {
        let is_next = self.words.get(self.at).is_some_and(|word| word == sign);
        self.at += usize::from(is_next);
        is_next
    }

    fn or(&mut self) -> Result<Labels> {
        let mut labels = self.and()?;
        while self.takes("|") {
            labels = Labels::Or(Box::new(labels), Box::new(self.and()?));
        }
        Ok(labels)
    }

    fn and(&mut self) -> Result<Labels> {
        let mut labels = self.not()?;
        while self.takes("&") {
            labels = Labels::And(Box::new(labels), Box::new(self.not()?));
        }
        Ok(labels)
    }

    fn not(&mut self) -> Result<Labels> {
        self.depth += 1;
        ensure!(
            self.depth <= DEEPEST,
            "brackets and ! are nested too deeply"
        );
        let labels = match self.next().as_deref() {
            Some("!") => Labels::Not(Box::new(self.not()?)),
            Some("(") => {
                let inner = self.or()?;
                ensure!(self.takes(")"), "a bracket is not closed");
                inner
            }
            Some(sign @ ("&" | "|" | ")")) => bail!("a name is missing before '{sign}'"),
            Some(name) => Labels::Name(name.to_owned()),
            None => bail!("a name is missing at the end"),
        };
        self.depth -= 1;
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str, machines: &[&[&str]]) -> Vec<usize> {
        let labels: Labels = text.parse().unwrap();
        let fits = |names: &[&str]| labels.fits(&|name| names.contains(&name));
        (0..machines.len())
            .filter(|at| fits(machines[*at]))
            .collect()
    }

    #[test]
    fn machines_are_chosen_by_what_they_are_called() {
        let machines: [&[&str]; 3] = [&["a", "lab", "zen4"], &["b", "lab"], &["c", "load"]];
        assert_eq!(chosen("lab", &machines), [0, 1]);
        assert_eq!(chosen("lab & zen4", &machines), [0]);
        assert_eq!(chosen("lab&!zen4", &machines), [1]);
        assert_eq!(chosen("b | c", &machines), [1, 2]);
        assert_eq!(chosen("!(lab | load)", &machines), [] as [usize; 0]);
        // & has higher precedence than |.
        assert_eq!(chosen("load | lab & zen4", &machines), [0, 2]);
        assert_eq!(chosen("(load | lab) & zen4", &machines), [0]);
        assert_eq!(chosen("!!lab", &machines), [0, 1]);
    }

    #[test]
    fn what_is_printed_means_the_same() {
        for text in ["a", "!a & b | c", "a & (b | !c)", "!(a | b) & !c"] {
            let labels: Labels = text.parse().unwrap();
            assert_eq!(
                labels.to_string().parse::<Labels>().unwrap(),
                labels,
                "{text}"
            );
        }
    }

    #[test]
    fn what_has_no_meaning_is_refused_with_its_place() {
        let deep = "!".repeat(100) + "a";
        for (text, expected) in [
            ("", "a name is missing at the end"),
            ("a &", "a name is missing at the end"),
            ("& a", "a name is missing before '&'"),
            ("a b", "'b' has no meaning here"),
            ("(a", "a bracket is not closed"),
            ("a)", "')' has no meaning here"),
            ("-oProxyCommand=x", "'-oProxyCommand=x' is no name"),
            ("$(id)", "'$' is no name"),
            ("a;b", "'a;b' is no name"),
            (&deep, "nested too deeply"),
        ] {
            let error = text.parse::<Labels>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_name_that_nobody_has_is_refused_with_the_nearest() {
        let known = ["lab", "zen4"].map(str::to_owned);
        let labels: Labels = "lab & !zen5".parse().unwrap();
        let error = labels.ensure_known(&known).unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no machine or label 'zen5'\nhint: did you mean 'zen4'?"
        );
        assert!(
            "lab"
                .parse::<Labels>()
                .unwrap()
                .ensure_known(&known)
                .is_ok()
        );
    }

    #[test]
    fn names_are_no_options_and_no_shell_text() {
        for name in ["a", "lab-3", "node.example.org", "7", "zen4_fast"] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-o",
            ".a",
            "a b",
            "a;b",
            "a'b",
            "ä",
            "a/b",
            "a\n",
            &"a".repeat(65),
        ] {
            assert!(!is_name(name), "{name}");
        }
    }
}
