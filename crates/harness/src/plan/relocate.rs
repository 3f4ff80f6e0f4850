//! Moves a plan to other folders: on another machine, the same files are elsewhere.

use super::Plan;
use crate::Job;
use std::path::{Path, PathBuf};

/// Mapping of folders to their location on another machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prefixes(Vec<(PathBuf, PathBuf)>);

impl Prefixes {
    /// Creates a mapping from pairs of a local folder or file and its remote path. Nested entries
    /// take precedence.
    pub fn new(pairs: impl IntoIterator<Item = (PathBuf, PathBuf)>) -> Prefixes {
        let mut pairs: Vec<(PathBuf, PathBuf)> = pairs.into_iter().collect();
        pairs.sort_by_key(|(from, _)| std::cmp::Reverse(from.components().count()));
        Prefixes(pairs)
    }

    /// The inverse mapping.
    pub fn reversed(&self) -> Prefixes {
        Prefixes::new(self.0.iter().cloned().map(|(from, to)| (to, from)))
    }

    /// Maps a path; paths outside of all folders are unchanged.
    pub fn moved(&self, path: &Path) -> PathBuf {
        let inside = self.0.iter().find_map(|(from, to)| {
            let inside = path.strip_prefix(from).ok()?;
            let is_itself = inside.as_os_str().is_empty();
            Some(if is_itself {
                to.clone()
            } else {
                to.join(inside)
            })
        });
        inside.unwrap_or_else(|| path.to_owned())
    }

    /// Maps an argument that may be a path: an absolute one, alone or after `=`.
    fn moved_word(&self, word: &str) -> String {
        let (before, path) = match word.find("=/") {
            Some(at) if !word.starts_with('/') => word.split_at(at + 1),
            _ => ("", word),
        };
        if !path.starts_with('/') {
            return word.to_owned();
        }
        let moved = self.moved(Path::new(path));
        // An argument must be UTF-8.
        moved
            .to_str()
            .map_or_else(|| word.to_owned(), |moved| format!("{before}{moved}"))
    }
}

impl Plan {
    /// Maps every path in the plan. Names, labels and values of cases stay, since they identify
    /// cases over time.
    pub fn relocated(&self, prefixes: &Prefixes) -> Plan {
        let mut plan = self.clone();
        for job in &mut plan.jobs {
            relocate(job, prefixes);
        }
        for variant in &mut plan.variants {
            // A bare name is a program of the machine.
            let program = variant.program.as_mut().filter(|path| path.is_absolute());
            if let Some(program) = program {
                *program = prefixes.moved(program);
            }
            if let Some(artifact) = &mut variant.artifact {
                *artifact = prefixes.moved(artifact);
            }
            let words = variant.arguments.iter_mut();
            let values = variant.environment.iter_mut().map(|(_, value)| value);
            for word in words.chain(values) {
                *word = prefixes.moved_word(word);
            }
            if let Some(snippet) = &mut variant.snippet {
                relocate_all(&mut snippet.paths, prefixes);
            }
            if let Some(worktree) = &mut variant.worktree {
                for path in [&mut worktree.checkout, &mut worktree.folder] {
                    *path = prefixes.moved(path);
                }
            }
        }
        let design = &mut plan.design;
        for definition in design.experiment.iter_mut().chain(&mut design.definitions) {
            definition.file = prefixes.moved(&definition.file);
        }
        plan
    }
}

fn relocate(job: &mut Job, prefixes: &Prefixes) {
    let source = &mut job.source;
    for path in [&mut source.file, &mut source.root, &mut source.directory] {
        *path = prefixes.moved(path);
    }
    for flag in &mut job.flags {
        *flag = prefixes.moved_word(flag);
    }
    if let Some(snippet) = &mut job.snippet {
        relocate_all(&mut snippet.paths, prefixes);
    }
}

fn relocate_all(paths: &mut [PathBuf], prefixes: &Prefixes) {
    for path in paths {
        *path = prefixes.moved(path);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::super::Shuffle;
    use super::super::tests::plan;
    use super::Prefixes;
    use speedwell_model::Order;
    use std::path::{Path, PathBuf};

    fn prefixes(pairs: &[(&str, &str)]) -> Prefixes {
        Prefixes::new(pairs.iter().map(|(from, to)| (from.into(), to.into())))
    }

    #[test]
    fn the_longest_folder_counts_and_names_that_only_begin_alike_do_not() {
        let table = prefixes(&[("/home/a", "/b/home"), ("/home/a/bench", "/b/bench")]);
        let moved = |path: &str| table.moved(Path::new(path)).display().to_string();
        assert_eq!(moved("/home/a/bench/x.js"), "/b/bench/x.js");
        assert_eq!(moved("/home/a/bench"), "/b/bench");
        assert_eq!(moved("/home/a/benchmark/x.js"), "/b/home/benchmark/x.js");
        assert_eq!(moved("/home/ab/x.js"), "/home/ab/x.js");
        assert_eq!(
            table.moved_word("--require=/home/a/x.js"),
            "--require=/b/home/x.js"
        );
        assert_eq!(table.moved_word("home/a"), "home/a");
        assert_eq!(table.moved_word("n=5"), "n=5");
    }

    #[test]
    fn every_path_of_a_plan_moves_and_comes_back() {
        let mut random = Shuffle::new(11);
        for _ in 0..200 {
            let word =
                |random: &mut Shuffle| ["a", "ab", "b b", "ü", "x.js"][random.block(5, 1)[0]];
            let path = |random: &mut Shuffle| {
                let parts = 1 + random.block(4, 1)[0];
                let words = (0..parts).map(|_| word(random));
                words.fold(PathBuf::from("/home"), |path, word| path.join(word))
            };
            let mut plan = plan(2, &["old", "new"], 2, Order::Blocks);
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
            let table = Prefixes::new(distinct.into_iter().zip((0..).map(there)));
            let moved = plan.relocated(&table);
            assert_eq!(moved.relocated(&table.reversed()), plan);
            assert_eq!(moved.slots(), plan.slots());
            assert_eq!(moved.jobs[0].label, plan.jobs[0].label);
            assert_eq!(moved.variants[1].program, Some("node".into()));
            let is_left = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
            assert!(!moved.jobs.iter().any(|job| is_left(&job.source.file)));
        }
    }
}
