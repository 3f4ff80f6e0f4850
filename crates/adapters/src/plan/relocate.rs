//! Maps the paths in a plan to other folders, because another machine has the same files elsewhere.

use super::SessionPlan;
use crate::BenchmarkJob;
use std::path::{Path, PathBuf};

/// Mapping of folders to their location on another machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RelocationMap(Vec<(PathBuf, PathBuf)>);

impl RelocationMap {
    /// Creates a mapping from pairs: a local folder or file, and its path on the other machine. An
    /// entry inside the folder of another entry takes precedence.
    pub fn new(pairs: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> RelocationMap {
        let mut pairs: Vec<(PathBuf, PathBuf)> = pairs.into_iter().collect();
        pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.components().count()));
        RelocationMap(pairs)
    }

    /// The inverse mapping.
    pub fn inverted(&self) -> RelocationMap {
        RelocationMap::new(self.0.iter().cloned().map(|(from, to)| (to, from)))
    }

    /// Maps a path; paths outside of all folders are unchanged.
    pub fn map_path(&self, path: &Path) -> PathBuf {
        let relative = self.0.iter().find_map(|(from, to)| {
            let relative = path.strip_prefix(from).ok()?;
            let is_itself = relative.as_os_str().is_empty();
            Some(if is_itself { to.clone() } else { to.join(relative) })
        });
        relative.unwrap_or_else(|| path.to_owned())
    }

    /// Maps the absolute path in an argument. The path is the whole argument, or the text after
    /// `=`. Returns other arguments unchanged.
    fn map_argument(&self, argument: &str) -> String {
        let (option, path) = match argument.find("=/") {
            Some(index) if !argument.starts_with('/') => argument.split_at(index + 1),
            _ => ("", argument),
        };
        if !path.starts_with('/') {
            return argument.to_owned();
        }
        let moved = self.map_path(Path::new(path));
        // An argument must be UTF-8, so the argument stays unchanged if its new path is not UTF-8.
        moved.to_str().map_or_else(|| argument.to_owned(), |moved| format!("{option}{moved}"))
    }
}

impl SessionPlan {
    /// Maps every path in the plan. Names, labels and values of cases stay the same, since they
    /// identify cases over time.
    pub fn relocated(&self, prefixes: &RelocationMap) -> SessionPlan {
        let mut plan = self.clone();
        for job in &mut plan.jobs {
            relocate_job(job, prefixes);
        }
        for variant in &mut plan.variants {
            // A name without a folder is looked up on the other machine.
            let program = variant.program.as_mut().filter(|path| path.is_absolute());
            if let Some(program) = program {
                *program = prefixes.map_path(program);
            }
            if let Some(artifact) = &mut variant.artifact {
                *artifact = prefixes.map_path(artifact);
            }
            let words = variant.arguments.iter_mut();
            let values = variant.environment.iter_mut().map(|(_, value)| value);
            for word in words.chain(values) {
                *word = prefixes.map_argument(word);
            }
            if let Some(snippet) = &mut variant.snippet {
                map_paths(&mut snippet.paths, prefixes);
            }
            if let Some(worktree) = &mut variant.worktree {
                for path in [&mut worktree.checkout, &mut worktree.folder] {
                    *path = prefixes.map_path(path);
                }
            }
        }
        let design = &mut plan.design;
        for definition in design.experiment.iter_mut().chain(&mut design.definitions) {
            definition.file = prefixes.map_path(&definition.file);
        }
        plan
    }
}

fn relocate_job(job: &mut BenchmarkJob, prefixes: &RelocationMap) {
    let source = &mut job.source;
    for path in [&mut source.file, &mut source.root, &mut source.directory] {
        *path = prefixes.map_path(path);
    }
    for flag in &mut job.flags {
        *flag = prefixes.map_argument(flag);
    }
    if let Some(snippet) = &mut job.snippet {
        map_paths(&mut snippet.paths, prefixes);
    }
}

fn map_paths(paths: &mut [PathBuf], prefixes: &RelocationMap) {
    for path in paths {
        *path = prefixes.map_path(path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::super::BlockShuffle;
    use super::super::tests::test_plan;
    use super::RelocationMap;
    use speedwell_model::RunOrder;
    use std::path::{Path, PathBuf};

    fn prefixes(pairs: &[(&str, &str)]) -> RelocationMap {
        RelocationMap::new(pairs.iter().map(|(from, to)| (from.into(), to.into())))
    }

    #[test]
    fn the_longest_prefix_of_whole_path_components_is_relocated() {
        let table = prefixes(&[("/home/a", "/b/home"), ("/home/a/bench", "/b/bench")]);
        let moved = |path: &str| table.map_path(Path::new(path)).display().to_string();
        assert_eq!(moved("/home/a/bench/x.js"), "/b/bench/x.js");
        assert_eq!(moved("/home/a/bench"), "/b/bench");
        assert_eq!(moved("/home/a/benchmark/x.js"), "/b/home/benchmark/x.js");
        assert_eq!(moved("/home/ab/x.js"), "/home/ab/x.js");
        assert_eq!(table.map_argument("--require=/home/a/x.js"), "--require=/b/home/x.js");
        assert_eq!(table.map_argument("home/a"), "home/a");
        assert_eq!(table.map_argument("n=5"), "n=5");
    }

    #[test]
    fn relocating_a_plan_moves_every_path_and_can_be_inverted() {
        let mut random = BlockShuffle::new(11);
        for _ in 0..200 {
            let word = |random: &mut BlockShuffle| {
                ["a", "ab", "b b", "ü", "x.js"][random.shuffle_block(5, 1)[0]]
            };
            let path = |random: &mut BlockShuffle| {
                let parts = 1 + random.shuffle_block(4, 1)[0];
                let words = (0..parts).map(|_| word(random));
                words.fold(PathBuf::from("/home"), |path, word| path.join(word))
            };
            let mut plan = test_plan(2, &["old", "new"], 2, RunOrder::Blocks);
            for job in &mut plan.jobs {
                job.source.file = path(&mut random);
                job.source.root = path(&mut random);
                job.source.directory = path(&mut random);
                job.flags = vec![format!("--load={}", path(&mut random).display())];
            }
            plan.variants[0].program = Some(path(&mut random));
            plan.variants[1].program = Some("node".into());
            plan.variants[1].environment =
                vec![("HOME".into(), path(&mut random).display().to_string())];
            // Remote paths are distinct, and no local path resembles them.
            let folders: Vec<PathBuf> = (0..3).map(|_| path(&mut random)).collect();
            let there = |place: usize| PathBuf::from(format!("/bundle/{place}"));
            let mut distinct = folders.clone();
            distinct.sort();
            distinct.dedup();
            let table = RelocationMap::new(distinct.into_iter().zip((0..).map(there)));
            let moved = plan.relocated(&table);
            assert_eq!(moved.relocated(&table.inverted()), plan);
            assert_eq!(moved.slots(), plan.slots());
            assert_eq!(moved.jobs[0].label, plan.jobs[0].label);
            assert_eq!(moved.variants[1].program, Some("node".into()));
            let is_left = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
            assert!(!moved.jobs.iter().any(|job| is_left(&job.source.file)));
        }
    }
}
