//! Which script of a request an event belongs to.
//!
//! Decides it by the beginning of the event's label. A result itself may carry another name than
//! its script: a hidden helper script reports in its own, a directory is reported as its
//! `index.js`.

use speedwell_model::{Failure, Run};
use std::collections::HashMap;

/// The scripts of a request, and the slots that have been begun.
#[derive(Debug, Clone, Default)]
pub struct ScriptNames {
    names: Vec<String>,
    of_slot: HashMap<u32, usize>,
}

impl ScriptNames {
    /// The scripts in the order of the request.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> ScriptNames {
        ScriptNames {
            names: names.into_iter().map(Into::into).collect(),
            of_slot: HashMap::new(),
        }
    }

    /// Remembers the script of a slot; returns its name.
    pub fn begin(&mut self, slot: u32, label: &str) -> Option<&str> {
        let script = self.find(label)?;
        self.of_slot.insert(slot, script);
        Some(&self.names[script])
    }

    /// The name of the script that a result belongs to; the name reported where that is unknown.
    pub fn of_run<'a>(&'a self, run: &'a Run) -> &'a str {
        let script = self
            .of_slot
            .get(&run.slot)
            .copied()
            .or_else(|| self.find(&run.case.benchmark));
        script.map_or(&run.case.benchmark, |script| &self.names[script])
    }

    /// The same for a step that gave nothing.
    pub fn of_failure<'a>(&'a self, failure: &'a Failure) -> &'a str {
        let begun = failure
            .slot
            .and_then(|slot| self.of_slot.get(&slot).copied());
        let script = begun.or_else(|| self.find(&failure.benchmark));
        script.map_or(&failure.benchmark, |script| &self.names[script])
    }

    fn find(&self, label: &str) -> Option<usize> {
        self.names.iter().position(|name| {
            label.strip_prefix(name.as_str()).is_some_and(|rest| {
                rest.is_empty() || rest.starts_with(' ') || rest.starts_with('/')
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::Case;

    fn run(slot: u32, benchmark: &str) -> Run {
        Run {
            case: Case::new(benchmark, Vec::new()).into(),
            variant: "old".into(),
            slot,
            block: 0,
            started_unix_ms: 0,
            wall_ns: 0,
            usage: None,
            samples: Vec::new(),
            notes: Vec::new(),
            load: None,
        }
    }

    #[test]
    fn a_result_belongs_to_the_script_whatever_name_it_carries() {
        let mut names = ScriptNames::new(["http/server.js", "napi/string"]);
        assert_eq!(names.begin(3, "http/server.js n=1"), Some("http/server.js"));
        assert_eq!(names.of_run(&run(3, "http/_client.js")), "http/server.js");
        assert_eq!(names.of_run(&run(4, "napi/string/index.js")), "napi/string");
        assert_eq!(names.of_run(&run(5, "napi/strings.js")), "napi/strings.js");
    }
}
