//! What a run of a load of the short form has to do.
//!
//! Its variants are known as harnesses know them, because the command line may put others in the place of those of the
//! file. What the file says of a variant's server and address counts for every variant of that name. Start at
//! [`Experiment::load_assignment`].

use super::group::Group;
use super::vocabulary::Vocabulary;
use super::{Experiment, benchmark, control};
use crate::blanks;
use crate::keys::Keys;
use crate::tree::{Content, Node};
use anyhow::{Result, ensure};
use speedwell_model::assignment::{Assignment, Change, Target, Work};
use speedwell_model::{Case, Variant, milliseconds};
use std::path::Path;

impl Experiment {
    /// What a run of a case of a load has to do. `program` is what starts it under the variant; `{port}` stays a
    /// blank, and so does `{program}` without one.
    ///
    /// # Errors
    /// Something has no meaning for the case, or the variant changes what is not there.
    pub fn load_assignment(
        &self,
        group: &Group,
        case: &Case,
        variant: &Variant,
        program: Option<&Path>,
    ) -> Result<Assignment> {
        let declared = self.declared(&variant.name);
        let mut sections = group.sections.clone();
        for key in benchmark::OF_A_CASE {
            sections.shift_remove(key);
        }
        let of_variant = declared.iter().flat_map(|declared| &declared.load);
        sections.extend(of_variant.map(|(key, node)| (key.clone(), node.clone())));
        let node = Node {
            line: group.line,
            content: Content::Table(sections),
        };
        self.check_server(&Keys::below(&group.path, &node)?, variant, program)?;
        let words = self.load_words(group, case, variant, program)?;
        let node = words.fill_node(&node, &group.path)?;
        let keys = Keys::below(&group.path, &node)?;
        let spec = benchmark::load(&keys, case, &self.root)?;
        if spec.url.is_empty() {
            let hint = "url = \"http://127.0.0.1:{port}/\", there or in every variant";
            return Err(keys.missing("url", hint));
        }
        let set = |(name, value): &(String, String)| Change::Set(name.clone(), value.clone());
        Ok(Assignment {
            target: Target {
                command: Vec::new(),
                directory: self.root.clone(),
                environment: variant.environment.iter().map(set).collect(),
                expected_exit: 0,
                limit_ms: milliseconds(self.plan.timeout),
            },
            work: Work::Load(Box::new(spec)),
            proofs: Vec::new(),
            figures: Vec::new(),
            also: Vec::new(),
            processors: self.shares,
            profile: None,
        })
    }

    /// The variant that the file declares by that name, or of which it is the repetition.
    fn declared(&self, name: &str) -> Option<&super::Variant> {
        let of_name = |name: &str| self.variants.iter().find(|known| known.name == name);
        of_name(name).or_else(|| of_name(control::origin(name)))
    }

    fn load_words(
        &self,
        group: &Group,
        case: &Case,
        variant: &Variant,
        program: Option<&Path>,
    ) -> Result<Vocabulary> {
        let mut words = self.general.clone();
        words.leave("port");
        words.belongs(format!(" in [benchmark.{}]", group.name));
        for (name, value) in &case.values {
            words.say(name, value.plain());
        }
        if let Some(declared) = self.declared(&variant.name) {
            declared.tell(&mut words)?;
        }
        match program {
            Some(program) => words.say("program", line(program, &variant.arguments)),
            None => words.leave("program"),
        }
        Ok(words)
    }

    /// Refuses a variant whose changes reach nobody: it would be compared with itself.
    fn check_server(&self, keys: &Keys, variant: &Variant, program: Option<&Path>) -> Result<()> {
        let name = &variant.name;
        let usual = self.program.as_ref().map(Path::new);
        let has_own = variant.program.is_some() && variant.program.as_deref() != usual;
        let is_named = has_own || !variant.arguments.is_empty();
        let Some(serve) = keys.node("serve").and_then(Node::text) else {
            ensure!(
                !is_named && variant.environment.is_empty(),
                "the variant '{name}' changes the server, but {} starts none\nhint: 'serve' is the command that \
                 starts it",
                keys.place
            );
            return Ok(());
        };
        let starts_it = blanks::names(serve).iter().any(|name| name == "program");
        ensure!(
            !is_named || starts_it,
            "the variant '{name}' names a program or arguments, but 'serve' does not start '{{program}}'"
        );
        let is_known = program.is_none() || variant.program.is_some() || usual.is_some();
        ensure!(
            !starts_it || is_known,
            "nothing says what '{{program}}' is\nhint: program = \"node\" at the top of the file, or in \
             the variant"
        );
        Ok(())
    }
}

/// Program and arguments of a variant for a shell.
fn line(program: &Path, arguments: &[String]) -> String {
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend_from_slice(arguments);
    shell_words::join(words)
}
