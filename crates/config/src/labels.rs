//! Selects machines of a fleet by an expression of names and labels, such as `a & !(b | c)`.
//!
//! This module decides which names are valid and how such an expression (a selector) is evaluated.
//! It does not know which machines exist. The grammar, from lowest to highest precedence: `a | b`,
//! `a & b`, `!a`, `( ... )`. Start at [`MachineSelector`].

use super::file_part::nearest_hint;
use anyhow::{Result, bail, ensure};
use std::fmt;
use std::str::FromStr;

/// Maximum length of the name of a machine or label.
const MAX_NAME_LENGTH: usize = 64;
/// Maximum nesting of brackets and `!`.
const MAX_NESTING: usize = 32;

/// Whether `text` can name a machine or a label. A name consists of letters, digits, `.`, `_` and
/// `-`, and begins with a letter or digit. Such a name cannot be mistaken for a command-line
/// option, and a shell does not change it.
pub fn is_name(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= MAX_NAME_LENGTH
        && text.bytes().all(is_inner)
        && text.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

/// A selection of machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MachineSelector {
    /// Machines with this name or label.
    Name(String),
    /// Machines outside this selection.
    Not(Box<MachineSelector>),
    /// Machines in both selections.
    And(Box<MachineSelector>, Box<MachineSelector>),
    /// Machines in either selection.
    Or(Box<MachineSelector>, Box<MachineSelector>),
}

impl MachineSelector {
    /// Whether the selection contains a machine; `has` tells whether the machine has the given name
    /// or label.
    pub fn matches_machine(&self, has: &dyn Fn(&str) -> bool) -> bool {
        match self {
            MachineSelector::Name(name) => has(name),
            MachineSelector::Not(inner) => !inner.matches_machine(has),
            MachineSelector::And(left, right) => {
                left.matches_machine(has) && right.matches_machine(has)
            }
            MachineSelector::Or(left, right) => {
                left.matches_machine(has) || right.matches_machine(has)
            }
        }
    }

    /// Returns every name in the selector, in order of appearance.
    pub fn label_names(&self) -> Vec<&str> {
        match self {
            MachineSelector::Name(name) => vec![name],
            MachineSelector::Not(inner) => inner.label_names(),
            MachineSelector::And(left, right) | MachineSelector::Or(left, right) => {
                [left.label_names(), right.label_names()].concat()
            }
        }
    }

    /// Checks that all names in the selector are known.
    ///
    /// # Errors
    /// Fails if a name is not in `known`; the message suggests known ones.
    pub fn ensure_known(&self, known: &[String]) -> Result<()> {
        let is_unknown = |name: &&str| !known.iter().any(|known| known == name);
        if let Some(name) = self.label_names().into_iter().find(is_unknown) {
            let hint = nearest_hint(name, known);
            bail!("unknown machine or label '{name}'\nhint: {hint}");
        }
        Ok(())
    }
}

impl FromStr for MachineSelector {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<MachineSelector> {
        let mut parser = LabelParser { words: split_words(text)?, index: 0, depth: 0 };
        let labels = parser.parse_or()?;
        match parser.next_word() {
            None => Ok(labels),
            Some(word) => bail!("unexpected '{word}': expected & or | between names"),
        }
    }
}

impl fmt::Display for MachineSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = |labels: &MachineSelector| match labels {
            MachineSelector::Name(_) | MachineSelector::Not(_) => labels.to_string(),
            _ => format!("({labels})"),
        };
        match self {
            MachineSelector::Name(name) => f.write_str(name),
            MachineSelector::Not(negated) => write!(f, "!{}", inner(negated)),
            MachineSelector::And(left, right) => write!(f, "{} & {}", inner(left), inner(right)),
            MachineSelector::Or(left, right) => write!(f, "{} | {}", inner(left), inner(right)),
        }
    }
}

fn split_words(text: &str) -> Result<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut is_inside = false;
    for c in text.chars() {
        let is_operator = "&|!()".contains(c);
        if c.is_whitespace() || is_operator {
            is_inside = false;
            words.extend(is_operator.then(|| c.to_string()));
        } else if let Some(word) = words.last_mut().filter(|_| is_inside) {
            word.push(c);
        } else {
            is_inside = true;
            words.push(c.to_string());
        }
    }
    let is_operator = |word: &String| ["&", "|", "!", "(", ")"].contains(&word.as_str());
    for word in words.iter().filter(|word| !is_operator(word)) {
        ensure!(
            is_name(word),
            "cannot parse machine name '{word}'\n\
             hint: names consist of letters, digits and . _ - and are joined by & | ! ( )"
        );
    }
    Ok(words)
}

struct LabelParser {
    words: Vec<String>,
    index: usize,
    depth: usize,
}

impl LabelParser {
    fn next_word(&mut self) -> Option<String> {
        let word = self.words.get(self.index).cloned();
        self.index += 1;
        word
    }

    fn take_operator(&mut self, operator: &str) -> bool {
        let is_next = self.words.get(self.index).is_some_and(|word| word == operator);
        self.index += usize::from(is_next);
        is_next
    }

    fn parse_or(&mut self) -> Result<MachineSelector> {
        let mut labels = self.parse_and()?;
        while self.take_operator("|") {
            labels = MachineSelector::Or(Box::new(labels), Box::new(self.parse_and()?));
        }
        Ok(labels)
    }

    fn parse_and(&mut self) -> Result<MachineSelector> {
        let mut labels = self.parse_not()?;
        while self.take_operator("&") {
            labels = MachineSelector::And(Box::new(labels), Box::new(self.parse_not()?));
        }
        Ok(labels)
    }

    fn parse_not(&mut self) -> Result<MachineSelector> {
        self.depth += 1;
        ensure!(self.depth <= MAX_NESTING, "parentheses and ! are nested too deeply");
        let labels = match self.next_word().as_deref() {
            Some("!") => MachineSelector::Not(Box::new(self.parse_not()?)),
            Some("(") => {
                let inner = self.parse_or()?;
                ensure!(self.take_operator(")"), "a parenthesis is not closed");
                inner
            }
            Some(operator @ ("&" | "|" | ")")) => bail!("expected a name before '{operator}'"),
            Some(name) => MachineSelector::Name(name.to_owned()),
            None => bail!("expected a name at the end"),
        };
        self.depth -= 1;
        Ok(labels)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected_indices(text: &str, machines: &[&[&str]]) -> Vec<usize> {
        let labels: MachineSelector = text.parse().unwrap();
        let fits = |names: &[&str]| labels.matches_machine(&|name| names.contains(&name));
        (0..machines.len()).filter(|index| fits(machines[*index])).collect()
    }

    #[test]
    fn machines_are_selected_by_name_or_label() {
        let machines: [&[&str]; 3] = [&["a", "lab", "zen4"], &["b", "lab"], &["c", "load"]];
        assert_eq!(selected_indices("lab", &machines), [0, 1]);
        assert_eq!(selected_indices("lab & zen4", &machines), [0]);
        assert_eq!(selected_indices("lab&!zen4", &machines), [1]);
        assert_eq!(selected_indices("b | c", &machines), [1, 2]);
        assert_eq!(selected_indices("!(lab | load)", &machines), [] as [usize; 0]);
        // & has higher precedence than |.
        assert_eq!(selected_indices("load | lab & zen4", &machines), [0, 2]);
        assert_eq!(selected_indices("(load | lab) & zen4", &machines), [0]);
        assert_eq!(selected_indices("!!lab", &machines), [0, 1]);
    }

    #[test]
    fn printed_selectors_parse_to_the_same_selector() {
        for text in ["a", "!a & b | c", "a & (b | !c)", "!(a | b) & !c"] {
            let labels: MachineSelector = text.parse().unwrap();
            assert_eq!(labels.to_string().parse::<MachineSelector>().unwrap(), labels, "{text}");
        }
    }

    #[test]
    fn invalid_selectors_are_refused_with_the_unexpected_part() {
        let deep = "!".repeat(100) + "a";
        for (text, expected) in [
            ("", "expected a name at the end"),
            ("a &", "expected a name at the end"),
            ("& a", "expected a name before '&'"),
            ("a b", "unexpected 'b'"),
            ("(a", "a parenthesis is not closed"),
            ("a)", "unexpected ')'"),
            ("-oProxyCommand=x", "machine name '-oProxyCommand=x'"),
            ("$(id)", "machine name '$'"),
            ("a;b", "machine name 'a;b'"),
            (&deep, "nested too deeply"),
        ] {
            let error = text.parse::<MachineSelector>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_known_name() {
        let known = ["lab", "zen4"].map(str::to_owned);
        let labels: MachineSelector = "lab & !zen5".parse().unwrap();
        let error = labels.ensure_known(&known).unwrap_err().to_string();
        assert_eq!(error, "unknown machine or label 'zen5'\nhint: did you mean 'zen4'?");
        assert!("lab".parse::<MachineSelector>().unwrap().ensure_known(&known).is_ok());
    }

    #[test]
    fn names_cannot_be_options_or_contain_shell_syntax() {
        for name in ["a", "lab-3", "node.example.org", "7", "zen4_fast"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-o", ".a", "a b", "a;b", "a'b", "ä", "a/b", "a\n", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
