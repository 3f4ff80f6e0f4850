//! Reads `speedwell.toml`, the file of a project. It has settings for all measurements in its
//! folder. Start at [`ProjectFile::find_file`].

use super::adapter::{SuiteAdapter, read_tables};
use super::file_part::{self, FilePart, NodeContent, TreeNode};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use speedwell_model::OrderRequest;
use std::path::{Path, PathBuf};

/// Name of the file of a project.
pub const PROJECT_FILE_NAME: &str = "speedwell.toml";

/// A folder that contains any of these is the root of a project.
const ROOT_MARKERS: [&str; 3] = [".speedwell", PROJECT_FILE_NAME, ".git"];

/// Returns the root of the project that contains `cwd`.
pub fn project_root(cwd: &Path) -> Option<&Path> {
    let is_root = |folder: &&Path| ROOT_MARKERS.iter().any(|mark| folder.join(mark).exists());
    cwd.ancestors().find(is_root)
}

/// Contents of the file of a project.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProjectFile {
    /// Folder of the file.
    pub folder: PathBuf,
    /// What `speedwell run` measures, and how.
    pub run: RunDefaults,
    /// Order of runs in comparisons.
    pub order: Option<OrderRequest>,
    /// Settings for revisions.
    pub history: HistorySettings,
    /// Suites that the file defines.
    pub suites: Vec<SuiteAdapter>,
}

/// The table `[run]`. Its keys besides `targets` are long names of the command's options, which the
/// command line checks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunDefaults {
    /// Targets, relative to the folder of the file.
    pub targets: Vec<String>,
    /// Options with their values. An option without a value is a switch that is on.
    pub options: Vec<(String, Vec<String>)>,
}

impl RunDefaults {
    fn read(table: &FilePart<'_>) -> Result<RunDefaults> {
        let keys = table.node.as_table().ok_or_else(|| table.wrong_table("must be a table"))?;
        let mut defaults = RunDefaults::default();
        for (key, node) in keys {
            let parsed: Option<Vec<String>> = match &node.content {
                NodeContent::Truth(true) if key != "targets" => Some(Vec::new()),
                NodeContent::Truth(false) if key != "targets" => continue,
                NodeContent::List(items) => items.iter().map(option_value).collect(),
                _ => option_value(node).map(|value| vec![value]),
            };
            let values = parsed.ok_or_else(|| {
                table.value_error(key, "must be a string, a number, true, or a list of strings")
            })?;
            match key.as_str() {
                "targets" => defaults.targets = values,
                _ => defaults.options.push((key.clone(), values)),
            }
        }
        Ok(defaults)
    }
}

/// Returns the value as it would be typed.
fn option_value(node: &TreeNode) -> Option<String> {
    match &node.content {
        NodeContent::Text(text) => Some(text.clone()),
        NodeContent::Whole(number) => Some(number.to_string()),
        NodeContent::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The table `[history]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HistorySettings {
    /// Branch whose revisions form the history.
    pub branch: Option<String>,
    /// Shell command that builds a revision.
    pub build: Option<String>,
    /// Smallest relevant change, as a fraction; the file has a percentage such as `"2%"`.
    #[serde(deserialize_with = "deserialize_share")]
    pub threshold: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProjectKeys {
    order: Option<OrderRequest>,
    history: HistorySettings,
    /// Ignored here, because [`RunDefaults::read`] reads it.
    #[serde(rename = "run")]
    _run: Option<serde::de::IgnoredAny>,
    /// Ignored here, because [`read_tables`] reads the suites.
    #[serde(rename = "suite")]
    _suites: Option<serde::de::IgnoredAny>,
}

impl ProjectFile {
    /// Reads the file of the project that contains `cwd`. A file above the root of the project
    /// belongs to another project.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or is invalid.
    pub fn find_file(cwd: &Path) -> Result<Option<ProjectFile>> {
        let Some(folder) = project_root(cwd).filter(|root| root.join(PROJECT_FILE_NAME).is_file())
        else {
            return Ok(None);
        };
        let file = folder.join(PROJECT_FILE_NAME);
        let read = || {
            let text = std::fs::read_to_string(&file)?;
            let tree = file_part::parse_toml(&text)?;
            let top = FilePart::top(&tree);
            let keys: ProjectKeys = top.read_part()?;
            let run = top.part("run").map(|table| RunDefaults::read(&table)).transpose()?;
            let suites = read_tables(&top)?;
            let is_empty = keys.history.build.as_ref().is_some_and(|build| build.trim().is_empty());
            ensure!(!is_empty, "the key 'build' of [history] is empty\nhint: leave it out");
            anyhow::Ok(ProjectFile {
                folder: folder.to_owned(),
                run: run.unwrap_or_default(),
                order: keys.order,
                history: keys.history,
                suites,
            })
        };
        read().with_context(|| format!("in '{}'", file.display())).map(Some)
    }
}

/// Reads a percentage such as `"2%"` as a fraction.
fn deserialize_share<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse().ok());
    let share = number.filter(|percent: &f64| (0.0..=100.0).contains(percent));
    let error =
        || serde::de::Error::custom(format!("must be a percentage such as \"2%\", not '{text}'"));
    share.map(|percent| Some(percent / 100.0)).ok_or_else(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::RunOrder;

    fn read(text: &str) -> Result<Option<ProjectFile>, String> {
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("a/b");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(folder.path().join(PROJECT_FILE_NAME), text).unwrap();
        let found = ProjectFile::find_file(&inside);
        found.map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_file_may_be_in_a_folder_further_up() {
        let text = "[history]\nbranch = \"main\"\nbuild = \"make\"\nthreshold = \"2 %\"";
        let history = read(text).unwrap().unwrap().history;
        assert_eq!(history.build.as_deref(), Some("make"));
        assert_eq!(history.branch.as_deref(), Some("main"));
        assert_eq!(history.threshold, Some(0.02));
        let project = read("order = \"paired\"").unwrap().unwrap();
        assert_eq!(project.order, Some(OrderRequest::Fixed(RunOrder::Paired)));
        assert_eq!(project.history, HistorySettings::default());
    }

    #[test]
    fn a_file_above_the_root_belongs_to_another_project() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join(PROJECT_FILE_NAME), "[history]\nthreshold = \"5%\"")
            .unwrap();
        for mark in ROOT_MARKERS.iter().filter(|mark| **mark != PROJECT_FILE_NAME) {
            let inside = outer.path().join(format!("inner{mark}/src"));
            std::fs::create_dir_all(inside.join("..").join(mark)).unwrap();
            std::fs::create_dir_all(&inside).unwrap();
            assert_eq!(ProjectFile::find_file(&inside).unwrap(), None, "{mark}");
        }
        let sibling = outer.path().join("src");
        std::fs::create_dir(&sibling).unwrap();
        let project = ProjectFile::find_file(&sibling).unwrap().unwrap();
        assert_eq!(project.history.threshold, Some(0.05));
    }

    #[test]
    fn the_reference_page_has_every_key_and_an_example_that_is_read() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/project-file.md");
        let page = std::fs::read_to_string(page).unwrap();
        let (_, example) = page.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let project = read(example).unwrap().unwrap();
        assert!(!project.run.targets.is_empty() && page.contains("\n| `targets` |"));
        let HistorySettings { branch, build, threshold } = project.history;
        for (key, is_set) in [
            ("order", project.order.is_some()),
            ("branch", branch.is_some()),
            ("build", build.is_some()),
            ("threshold", threshold.is_some()),
        ] {
            assert!(is_set, "the example lacks '{key}'");
            assert!(page.contains(&format!("\n| `{key}` |")), "no row for '{key}'");
        }
        assert_eq!(project.suites.len(), 1);
    }

    #[test]
    fn defaults_of_run_are_read_as_they_would_be_typed() {
        let text = "[run]\ntargets = ['bench', './...']\norder = 'paired'\nruns = 16\n\
                    fail-fast = true\nmetric = ['time', 'bytes']\ntest = false";
        let run = read(text).unwrap().unwrap().run;
        assert_eq!(run.targets, ["bench", "./..."]);
        let options: Vec<(&str, String)> =
            run.options.iter().map(|(key, values)| (&**key, values.join(","))).collect();
        let expected =
            [("order", "paired"), ("runs", "16"), ("fail-fast", ""), ("metric", "time,bytes")];
        let expected = expected.map(|(key, values)| (key, values.to_owned()));
        assert!(
            options.len() == 4 && expected.iter().all(|one| options.contains(one)),
            "{options:?}"
        );
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (text, expected) in [
            ("run = 3", "must be a table"),
            ("[run]\nruns = [[1]]", "line 2: the key 'runs' of [run] must be"),
            ("[run]\ntargets = true", "the key 'targets' of [run] must be"),
            ("[history]\nbild = \"make\"", "did you mean 'build'?"),
            ("[histroy]\n", "did you mean 'history'?"),
            ("[history]\nbuild = 3", "line 2"),
            ("order = \"pairs\"", "must be auto, blocks, paired, alternate or parallel"),
            ("[history]\nbuild = \" \"", "'build' of [history] is empty"),
            ("[history]\nthreshold = \"much\"", "must be a percentage"),
            ("[history]\nthreshold = \"200%\"", "must be a percentage"),
            ("[history", "line 1"),
        ] {
            let message = read(text).unwrap_err();
            assert!(
                message.contains(expected) && message.contains(PROJECT_FILE_NAME),
                "{text}: {message}"
            );
        }
    }
}
