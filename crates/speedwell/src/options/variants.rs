//! Defines the options for the variants to compare.

use anyhow::{Context, bail, ensure};
use clap::Args;
use speedwell_engine::{BuildArgs, RevisionRequest, VariantRequest};
use speedwell_machine::process::resolve_program;
use speedwell_model::Variant;
use std::path::{Path, PathBuf};

/// Name of the merge base of the current branch and the branch into which it will be merged.
/// `@base:BRANCH` is the merge base with another branch.
const BASE_REVISION: &str = "@base";

/// Variant options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Variants")]
pub struct VariantArgs {
    /// Variant to compare, e.g. 'jit=node --maglev' (repeatable)
    ///
    /// The full form is 'NAME=[VAR=V...] [PROGRAM] [ARG...]', for example 'big=NODE_OPTIONS=--stack-size=2000 node'. A
    /// program alone, such as 'bun', also names the variant. PROGRAM may be a revision, as in --old. The first variant
    /// is the baseline.
    #[arg(long, value_name = "NAME=COMMAND", conflicts_with_all = ["old", "new"])]
    pub variant: Vec<String>,
    /// Baseline: a program, or a git revision as rev:REV
    ///
    /// 'rev:REV' measures the targets as of a git revision; 'rev:REV:PROGRAM' uses a program built from it. 'rev:@base'
    /// is the merge base with the branch that the current branch will be merged into.
    #[arg(long, value_name = "PROGRAM", requires = "new")]
    pub old: Option<PathBuf>,
    /// Program or revision to compare with the baseline
    #[arg(long, value_name = "PROGRAM", requires = "old")]
    pub new: Option<PathBuf>,
    #[command(flatten)]
    pub build: BuildArgs,
    /// Variant to compare the others with [default: the first]
    #[arg(long, value_name = "NAME")]
    pub baseline: Option<String>,
}

/// What to build from each revision of a range.
#[derive(Debug, Args)]
pub struct RevisionProgramArgs {
    /// Program built from each revision, to run the targets
    ///
    /// The path is relative to the current folder.
    #[arg(long, value_name = "PROGRAM", help_heading = "Search")]
    pub program: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Search")]
    pub build: BuildArgs,
}

impl VariantArgs {
    /// Whether any variant was given.
    pub fn is_any(&self) -> bool {
        self.old.is_some() || !self.variant.is_empty()
    }

    /// Converts the options to a request. `arguments` are passed to every program.
    ///
    /// # Errors
    /// Fails if a variant cannot be parsed, or a program is missing.
    pub fn variant_request(&self, arguments: &[String]) -> anyhow::Result<VariantRequest> {
        let parsed: Vec<TypedVariant> = match (&self.old, &self.new) {
            (Some(old), Some(new)) => vec![with_program("old", old)?, with_program("new", new)?],
            _ => self
                .variant
                .iter()
                .map(|text| parse_variant(text))
                .collect::<anyhow::Result<_>>()?,
        };
        let (variants, parsed_revisions): (Vec<_>, Vec<_>) = parsed.into_iter().unzip();
        let names_variant = self.old.is_some();
        let indexed = parsed_revisions.into_iter().enumerate();
        let revisions: Vec<_> = indexed
            .filter_map(|(variant, typed)| {
                let TypedRevision { revision, program } = typed?;
                Some(RevisionRequest { variant, revision, program, names_variant })
            })
            .collect();
        ensure!(
            self.build.build.is_none() || !revisions.is_empty(),
            "--build needs a revision to build\nhint: name revisions, for example \
             --old rev:main --new rev:HEAD"
        );
        Ok(VariantRequest {
            given: variants,
            revisions,
            build: self.build.clone(),
            baseline: self.baseline.clone(),
            arguments: arguments.to_vec(),
        })
    }
}

/// A variant and, if any, the revision to build it from.
type TypedVariant = (Variant, Option<TypedRevision>);

/// A revision as typed: `rev:REV[:PROGRAM]`.
#[derive(Debug, PartialEq, Eq)]
struct TypedRevision {
    revision: String,
    program: Option<PathBuf>,
}

impl TypedRevision {
    /// Parses a revision. Returns `None` if the argument is a program.
    fn parse_revision(argument: &str) -> anyhow::Result<Option<TypedRevision>> {
        let Some(spec) = argument.strip_prefix("rev:") else {
            return Ok(None);
        };
        // Inside braces, a colon belongs to the revision: main@{12:30}, HEAD^{/fix: x}.
        let mut depth = 0;
        let end = spec.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ':' && depth == 0
        });
        let (revision, program) = match end {
            Some(end) => (&spec[..end], Some(&spec[end + 1..])),
            None => (spec, None),
        };
        let (revision, program) = match program.filter(|_| revision == BASE_REVISION) {
            // After `@base:`, the name of a branch comes first. An empty name, as in
            // `@base::PROGRAM`, means `@base`.
            Some(after_base) if !after_base.is_empty() => {
                let (branch, program) = after_base
                    .split_once(':')
                    .map_or((after_base, None), |(branch, program)| (branch, Some(program)));
                let end = if branch.is_empty() { 0 } else { 1 + branch.len() };
                (&spec[..BASE_REVISION.len() + end], program)
            }
            _ => (revision, program),
        };
        let is_invalid = revision.is_empty() || program.is_some_and(str::is_empty);
        ensure!(
            !is_invalid && !spec.contains(char::is_control),
            "cannot parse revision '{}': expected rev:REVISION[:PROGRAM]\nhint: rev:main, rev:v1.4:build/bench",
            argument.escape_debug()
        );
        Ok(Some(TypedRevision {
            revision: revision.to_owned(),
            program: program.map(PathBuf::from),
        }))
    }
}

/// Parses `NAME=[VAR=V...] [PROGRAM] [ARG...]`, or a program alone.
fn parse_variant(text: &str) -> anyhow::Result<TypedVariant> {
    let message =
        || format!("cannot parse variant '{text}': expected NAME=[VAR=V...] [PROGRAM] [ARG...]");
    let Some((name, rest)) = text.split_once('=') else {
        return variant_from_program(text).with_context(message);
    };
    if name.is_empty() || name.contains(char::is_whitespace) {
        bail!(message());
    }
    let mut arguments = shell_words::split(rest).with_context(message)?.into_iter().peekable();
    let mut variant = Variant::plain(name);
    while let Some((variable, value)) =
        arguments.peek().and_then(|argument| parse_env_assignment(argument))
    {
        variant.environment.push((variable, value));
        arguments.next();
    }
    let mut revision = None;
    if let Some(program) = arguments.next_if(|argument| !argument.starts_with('-')) {
        revision = TypedRevision::parse_revision(&program)?;
        if revision.is_none() {
            variant.program = Some(resolve_program(Path::new(&program))?);
        }
    }
    variant.arguments.extend(arguments);
    Ok((variant, revision))
}

/// Creates a variant from a program alone. The variant gets the program's name.
fn variant_from_program(text: &str) -> anyhow::Result<TypedVariant> {
    let path = Path::new(text);
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy())
        .filter(|name| !name.contains(char::is_whitespace))
        .with_context(|| format!("'{text}' does not name a program"))?;
    with_program(&name, path)
}

/// Parses `VAR=value`, where VAR is a valid name of a shell variable.
fn parse_env_assignment(argument: &str) -> Option<(String, String)> {
    let (name, value) = argument.split_once('=')?;
    let first = name.chars().next()?;
    let is_name_character = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_valid =
        (first.is_ascii_alphabetic() || first == '_') && name.chars().all(is_name_character);
    is_valid.then(|| (name.to_owned(), value.to_owned()))
}

fn with_program(name: &str, program: &Path) -> anyhow::Result<TypedVariant> {
    let mut variant = Variant::plain(name);
    let revision = program.to_str().map(TypedRevision::parse_revision).transpose()?.flatten();
    if revision.is_none() {
        variant.program = Some(resolve_program(program)?);
    }
    Ok((variant, revision))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variants(args: &VariantArgs) -> anyhow::Result<Vec<Variant>> {
        args.variant_request(&[])?.build_variants(Vec::new())
    }

    #[test]
    fn a_variant_is_variables_then_program_then_arguments() {
        let (variant, _) = parse_variant("big=A=1 NODE_OPTIONS='--x --y' sh -c 'a b'").unwrap();
        assert_eq!(variant.name, "big");
        let environment = [("A", "1"), ("NODE_OPTIONS", "--x --y")];
        assert_eq!(variant.environment, environment.map(|(n, v)| (n.to_owned(), v.to_owned())));
        assert!(variant.program.unwrap().ends_with("sh"));
        assert_eq!(variant.arguments, ["-c", "a b"]);
    }

    #[test]
    fn a_variant_may_be_flags_alone() {
        let (variant, _) = parse_variant("jit=--maglev --opt=1").unwrap();
        assert_eq!((variant.program, variant.arguments.len()), (None, 2));
    }

    #[test]
    fn errors_in_variants_describe_the_mistake() {
        let message = |text: &str| parse_variant(text).unwrap_err().to_string();
        assert!(message("no-such-program-xyz").contains("expected NAME=[VAR=V...]"));
        assert!(message("a=no-such-program-xyz").contains("no program 'no-such-program-xyz'"));
        let duplicate =
            VariantArgs { variant: vec!["a=sh".into(), "a=sh".into()], ..VariantArgs::default() };
        assert!(
            variants(&duplicate).unwrap_err().to_string().contains("two variants are named 'a'")
        );
    }

    #[test]
    fn a_revision_ends_at_a_colon_outside_of_braces() {
        let read = |text: &str| {
            let revision = TypedRevision::parse_revision(text).unwrap()?;
            Some((revision.revision, revision.program))
        };
        let expected = |revision: &str, program: Option<&str>| {
            Some((revision.to_owned(), program.map(PathBuf::from)))
        };
        assert_eq!(read("rev:main"), expected("main", None));
        assert_eq!(read("rev:v1:out/a:b"), expected("v1", Some("out/a:b")));
        assert_eq!(read("rev:main@{12:30}:x"), expected("main@{12:30}", Some("x")));
        assert_eq!(read("rev:HEAD^{/fix: x}"), expected("HEAD^{/fix: x}", None));
        assert_eq!(read("./rev:main"), None);
        assert_eq!(read("rev:@base"), expected("@base", None));
        assert_eq!(read("rev:@base:main"), expected("@base:main", None));
        assert_eq!(read("rev:@base:main:out/a"), expected("@base:main", Some("out/a")));
        assert_eq!(read("rev:@base::out/a"), expected("@base", Some("out/a")));
        for invalid in [
            "rev:@base:",
            "rev:@base::",
            "rev:@base:main:",
            "rev:",
            "rev::x",
            "rev:main:",
            "rev:a\nb",
        ] {
            let message = TypedRevision::parse_revision(invalid).unwrap_err().to_string();
            assert!(message.contains("rev:REVISION[:PROGRAM]"), "{message}");
        }
    }

    #[test]
    fn a_variant_may_be_a_revision_with_variables_and_arguments() {
        let (variant, revision) = parse_variant("base=A=1 rev:main --x").unwrap();
        assert_eq!((variant.program, &*variant.arguments[0]), (None, "--x"));
        assert_eq!(revision.unwrap().revision, "main");
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
