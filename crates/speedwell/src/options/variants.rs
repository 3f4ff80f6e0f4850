//! What is compared with what.

use anyhow::{Context, bail};
use clap::Args;
use speedwell_measure::VariantRequest;
use speedwell_model::Variant;
use speedwell_process::resolve;
use std::path::{Path, PathBuf};

/// Variant options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Variants")]
pub struct VariantArgs {
    /// A variant to compare, e.g. 'jit=node --maglev' or 'big=NODE_OPTIONS=--stack-size=2000 node'
    /// (repeatable; the first is the baseline)
    #[arg(long, value_name = "NAME=[VAR=V...] [PROGRAM] [ARG...]", conflicts_with_all = ["old", "new"])]
    pub variant: Vec<String>,
    /// The program of the baseline
    #[arg(long, value_name = "PROGRAM", requires = "new")]
    pub old: Option<PathBuf>,
    /// The program to compare with it
    #[arg(long, value_name = "PROGRAM", requires = "old")]
    pub new: Option<PathBuf>,
    /// The reference variant [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
}

impl VariantArgs {
    /// Whether any were typed.
    pub fn is_any(&self) -> bool {
        self.old.is_some() || !self.variant.is_empty()
    }

    /// The same as data, with `arguments` for every program.
    ///
    /// # Errors
    /// A text that is no variant, a missing program.
    pub fn request(&self, arguments: &[String]) -> anyhow::Result<VariantRequest> {
        let given = match (&self.old, &self.new) {
            (Some(old), Some(new)) => vec![with_program("old", old)?, with_program("new", new)?],
            _ => self
                .variant
                .iter()
                .map(|text| parse(text))
                .collect::<anyhow::Result<_>>()?,
        };
        Ok(VariantRequest {
            given,
            baseline: self.baseline.clone(),
            arguments: arguments.to_vec(),
        })
    }
}

/// Reads `NAME=[VAR=V...] [PROGRAM] [ARG...]`.
fn parse(text: &str) -> anyhow::Result<Variant> {
    let form = || format!("'{text}' is not of the form NAME=[VAR=V...] [PROGRAM] [ARG...]");
    let (name, rest) = text.split_once('=').with_context(form)?;
    if name.is_empty() || name.contains(char::is_whitespace) {
        bail!(form());
    }
    let words = shell_words::split(rest).with_context(form)?;
    let mut variant = Variant::plain(name);
    let mut words = words.into_iter().peekable();
    while let Some((variable, value)) = words.peek().and_then(|word| assignment(word)) {
        variant.environment.push((variable, value));
        words.next();
    }
    if let Some(program) = words.next_if(|word| !word.starts_with('-')) {
        variant.program = Some(resolve(Path::new(&program))?);
    }
    variant.arguments.extend(words);
    Ok(variant)
}

/// `VAR=value`, where VAR is a name that a shell would take.
fn assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let first = name.chars().next()?;
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let valid = (first.is_ascii_alphabetic() || first == '_') && name.chars().all(named);
    valid.then(|| (name.to_owned(), value.to_owned()))
}

fn with_program(name: &str, program: &Path) -> anyhow::Result<Variant> {
    Ok(Variant {
        program: Some(resolve(program)?),
        ..Variant::plain(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(args: &VariantArgs) -> anyhow::Result<Vec<Variant>> {
        args.request(&[])?.variants(Vec::new())
    }

    #[test]
    fn a_variant_is_variables_then_program_then_arguments() {
        let variant = parse("big=A=1 NODE_OPTIONS='--x --y' sh -c 'a b'").unwrap();
        assert_eq!(variant.name, "big");
        let environment = [("A", "1"), ("NODE_OPTIONS", "--x --y")];
        assert_eq!(
            variant.environment,
            environment.map(|(n, v)| (n.to_owned(), v.to_owned()))
        );
        assert!(variant.program.unwrap().ends_with("sh"));
        assert_eq!(variant.arguments, ["-c", "a b"]);
    }

    #[test]
    fn a_variant_may_be_flags_alone() {
        let variant = parse("jit=--maglev --opt=1").unwrap();
        assert_eq!((variant.program, variant.arguments.len()), (None, 2));
    }

    #[test]
    fn mistakes_are_named() {
        let told = |text: &str| parse(text).unwrap_err().to_string();
        assert!(told("node").contains("form NAME="));
        assert!(told("a=no-such-program-xyz").contains("no program 'no-such-program-xyz'"));
        let twice = VariantArgs {
            variant: vec!["a=sh".into(), "a=sh".into()],
            ..VariantArgs::default()
        };
        assert!(
            variants(&twice)
                .unwrap_err()
                .to_string()
                .contains("two variants are named 'a'")
        );
    }

    #[test]
    fn the_baseline_comes_first() {
        let args = VariantArgs {
            variant: vec!["a=sh".into(), "b=sh".into()],
            baseline: Some("b".into()),
            ..VariantArgs::default()
        };
        assert_eq!(variants(&args).unwrap()[0].name, "b");
    }
}
