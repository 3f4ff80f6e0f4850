//! Compiles the tests and says which programs they are.

use crate::command::linting_cargo;
use crate::output;
use crate::sequence::Sequence;
use std::path::PathBuf;

/// Everything is built with HTTP/3 and PostgreSQL, so that it is compiled once.
pub(crate) const FEATURES: [&str; 3] = ["--workspace", "--features", "http3,postgres"];

/// A program with the tests of a library, or with integration tests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TestProgram {
    /// Its path.
    pub(crate) path: String,
    /// The folder of its package, in which cargo executes it.
    pub(crate) folder: PathBuf,
}

impl TestProgram {
    /// Whether it tests the command, most of whose tests wait for processes.
    pub(crate) fn is_of_command(&self) -> bool {
        self.folder.ends_with("crates/speedwell")
    }

    /// Whether it has integration tests: those that start other programs.
    pub(crate) fn is_integration(&self) -> bool {
        self.path.contains("/it-")
    }

    /// Reads one of cargo's messages; `None` if it is not about a test program.
    fn from_message(line: &str) -> Option<TestProgram> {
        let value = |key: &str| {
            let (_, rest) = line.split_once(&format!("\"{key}\":\""))?;
            rest.split('"').next()
        };
        let (_, profile) = line.split_once(r#""profile":{"#)?;
        let is_test = profile.split('}').next()?.contains(r#""test":true"#);
        let is_benchmark = line.contains(r#""kind":["bench"]"#);
        let folder = PathBuf::from(value("manifest_path")?.strip_suffix("/Cargo.toml")?);
        (is_test && !is_benchmark)
            .then_some(TestProgram { path: value("executable")?.to_owned(), folder })
    }
}

/// Compiles the tests and benchmarks, and returns the test programs and the warnings of the
/// compiler, which cargo repeats if nothing had to be compiled; `None` if that failed.
pub(crate) fn compile_tests(
    sequence: &mut Sequence<'_>,
) -> Option<(Vec<TestProgram>, Vec<String>)> {
    let arguments = ["test", "--all-targets", "--no-run"];
    let format = ["--message-format", "json-render-diagnostics"];
    let compiled =
        sequence.run_for_data(linting_cargo().args(arguments).args(format).args(FEATURES));
    let programs: Vec<TestProgram> =
        compiled.data.lines().filter_map(TestProgram::from_message).collect();
    (compiled.status == 0 && !programs.is_empty())
        .then(|| (programs, output::warnings(&compiled.output)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &str, test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/load#0.1.0","manifest_path":"/w/crates/load/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["bin"],"name":"it"}},"profile":{{"opt_level":"0","debug_assertions":false,"test":{test}}},"features":[],"filenames":["/t/it-01"],"executable":{executable},"fresh":true}}"#
        )
    }

    #[test]
    fn only_test_programs_are_executed() {
        let program = TestProgram { path: "/t/it-01".to_owned(), folder: "/w/crates/load".into() };
        let found = TestProgram::from_message(&message("test", true, r#""/t/it-01""#));
        assert_eq!(found, Some(program.clone()));
        assert!(program.is_integration() && !program.is_of_command());
        for (kind, test, executable) in
            [("bench", true, r#""/t/x""#), ("bin", false, r#""/t/x""#), ("lib", false, "null")]
        {
            assert_eq!(TestProgram::from_message(&message(kind, test, executable)), None);
        }
        assert_eq!(
            TestProgram::from_message(r#"{"reason":"build-finished","success":true}"#),
            None
        );
    }
}
