//! Divides a plan into shards, one per machine. A slot keeps its number, whichever machine executes
//! it. Another machine may have the same files elsewhere, so the paths in a plan can be mapped to
//! other folders ([`RelocationMap`]).

use super::{PlanShard, SessionPlan, ShardOfPlan};
use crate::BenchmarkJob;
use anyhow::ensure;
use std::path::{Path, PathBuf};

impl SessionPlan {
    /// Extracts the part `shard` of the plan. Its slots keep the numbers, blocks, order and
    /// random choices of the whole plan.
    ///
    /// If the stratum of `shard` is not one of the plan's strata, the part is an additional
    /// execution. Cases that are reassigned to another machine are measured in this way: again from
    /// the start, with new slot numbers.
    ///
    /// # Errors
    /// Fails if the shard is empty, if its cases are not in ascending order or not in the plan, or
    /// if the plan cannot be divided.
    pub fn extract_shard(&self, shard: &PlanShard) -> anyhow::Result<SessionPlan> {
        ensure!(self.part.is_none(), "a part of a plan cannot be divided");
        ensure!(!self.is_search, "a search cannot be divided");
        ensure!(
            !self.shared || shard.jobs.len() == self.jobs.len(),
            "snippets that share a process cannot be divided"
        );
        ensure!(!shard.jobs.is_empty(), "a shard needs at least one case");
        ensure!(
            shard.jobs.is_sorted_by(|one, next| one < next),
            "the cases of a shard are not in order"
        );
        let jobs = shard.jobs.iter().map(|&job| {
            let source = self.jobs.get(job as usize).cloned();
            source.ok_or_else(|| anyhow::anyhow!("the plan has no case {job}"))
        });
        Ok(SessionPlan {
            jobs: jobs.collect::<anyhow::Result<_>>()?,
            part: Some(ShardOfPlan {
                shard: shard.clone(),
                cases: self.jobs.len() as u32,
                strata: self.strata,
            }),
            strata: 1,
            ..self.clone()
        })
    }

    /// Returns the index that a case has in the whole plan. `job` is its index in this plan.
    pub fn index_in_whole(&self, job: usize) -> u32 {
        let shard = self.part.as_ref();
        shard.map_or(job as u32, |part| part.shard.jobs[job])
    }
}

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
        let index = argument.find("=/").filter(|_| !argument.starts_with('/'));
        let (option, path) = index.map_or(("", argument), |index| argument.split_at(index + 1));
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
        plan.jobs.iter_mut().for_each(|job| relocate_job(job, prefixes));
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
            words.chain(values).for_each(|word| *word = prefixes.map_argument(word));
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
    job.flags.iter_mut().for_each(|flag| *flag = prefixes.map_argument(flag));
    if let Some(snippet) = &mut job.snippet {
        map_paths(&mut snippet.paths, prefixes);
    }
    job.sides.iter_mut().for_each(|(_, side)| relocate_job(side, prefixes));
}

fn map_paths(paths: &mut [PathBuf], prefixes: &RelocationMap) {
    paths.iter_mut().for_each(|path| *path = prefixes.map_path(path));
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may panic")]

    use super::super::tests::test_plan;
    use super::super::{BlockShuffle, PlanShard, PlanSlot, SessionPlan};
    use speedwell_model::RunOrder;

    /// Divides cases at random among this many shards. Drops empty shards.
    fn divide_cases(cases: u32, shards: u32, random: &mut BlockShuffle) -> Vec<Vec<u32>> {
        let mut all: Vec<Vec<u32>> = vec![Vec::new(); shards as usize];
        for case in 0..cases {
            let drawn = random.shuffle_block(shards as usize, 1)[0];
            all[drawn].push(case);
        }
        all.retain(|jobs| !jobs.is_empty());
        all
    }

    /// The slots of a shard with the case indexes of the whole plan.
    fn slots_in_whole(part: &SessionPlan) -> Vec<PlanSlot> {
        let slots = part.slots().into_iter();
        slots.map(|slot| PlanSlot { job: part.index_in_whole(slot.job) as usize, ..slot }).collect()
    }

    #[test]
    fn each_slot_is_in_exactly_one_shard_and_unchanged() {
        let mut random = BlockShuffle::new(3);
        for order in [RunOrder::Blocks, RunOrder::Alternate, RunOrder::Paired] {
            for cases in [1, 2, 7] {
                for strata in [1, 3] {
                    let mut whole = test_plan(cases, &["a", "b", "c"], 5, order);
                    whole.strata = strata;
                    whole.design.layout.builds = (cases as u32 % 2) * 4;
                    let mut found: Vec<PlanSlot> = Vec::new();
                    for stratum in 0..strata {
                        for jobs in divide_cases(cases as u32, 3, &mut random) {
                            let part = whole.extract_shard(&PlanShard { jobs, stratum }).unwrap();
                            let slots = slots_in_whole(&part);
                            assert!(slots.is_sorted_by_key(|slot| slot.index));
                            found.extend(slots);
                        }
                    }
                    found.sort_by_key(|slot| slot.index);
                    assert_eq!(found, whole.slots(), "{order:?} {cases} {strata}");
                }
            }
        }
    }

    #[test]
    fn strata_have_blocks_and_an_order_of_their_own() {
        let mut whole = test_plan(4, &["a", "b"], 6, RunOrder::Blocks);
        whole.strata = 2;
        let slots = whole.slots();
        let (first, second) = slots.split_at(slots.len() / 2);
        assert_eq!(first, test_plan(4, &["a", "b"], 6, RunOrder::Blocks).slots());
        assert!(first.iter().all(|slot| slot.block < 3));
        assert!(second.iter().all(|slot| (3..6).contains(&slot.block)));
        let order = |slots: &[PlanSlot]| slots.iter().map(|slot| slot.variant).collect::<Vec<_>>();
        assert_ne!(order(first), order(second));
        assert!(slots.iter().zip(0..).all(|(slot, index)| slot.index == index));
        // Ordinals of a case and variant continue across strata.
        let ordinals = second.iter().map(|slot| slot.ordinal);
        assert_eq!(ordinals.min(), Some(6));
    }

    #[test]
    fn a_moved_case_gets_unused_slot_and_block_numbers() {
        let whole = test_plan(3, &["a", "b"], 4, RunOrder::Blocks);
        let moved = PlanShard { jobs: vec![1], stratum: 2 };
        let part = whole.extract_shard(&moved).unwrap();
        let last = whole.slots().last().unwrap().index;
        assert_eq!(part.slots().len(), 8);
        assert!(part.slots().iter().all(|slot| slot.index > 2 * last && slot.block >= 4));
    }

    #[test]
    fn a_part_survives_serialization() {
        let whole = test_plan(3, &["a", "b"], 4, RunOrder::Blocks);
        let part = whole.extract_shard(&PlanShard { jobs: vec![0, 2], stratum: 0 }).unwrap();
        let text = serde_json::to_string(&part).unwrap();
        let back: SessionPlan = serde_json::from_str(&text).unwrap();
        assert_eq!(back.slots(), part.slots());
        let stored = serde_json::to_string(&whole).unwrap();
        assert!(!stored.contains("strata") && !stored.contains("part"), "has defaults: {stored}");
    }

    #[test]
    fn invalid_shards_are_refused_with_a_reason() {
        let whole = test_plan(3, &["a", "b"], 4, RunOrder::Blocks);
        let refusal = |plan: &SessionPlan, jobs: &[u32]| {
            let shard = PlanShard { jobs: jobs.to_vec(), stratum: 0 };
            plan.extract_shard(&shard).unwrap_err().to_string()
        };
        assert_eq!(refusal(&whole, &[7]), "the plan has no case 7");
        assert_eq!(refusal(&whole, &[]), "a shard needs at least one case");
        assert!(refusal(&whole, &[1, 0]).contains("not in order"));
        let search = SessionPlan { is_search: true, ..whole.clone() };
        assert!(refusal(&search, &[0]).contains("a search"));
        let shared = SessionPlan { shared: true, ..whole };
        assert!(refusal(&shared, &[0]).contains("share a process"));
    }
}

#[cfg(test)]
mod relocation_tests {
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
            let pairs = || distinct.iter().cloned().zip((0..).map(there));
            let table = RelocationMap::new(pairs());
            let inverse = RelocationMap::new(pairs().map(|(from, to)| (to, from)));
            let moved = plan.relocated(&table);
            assert_eq!(moved.relocated(&inverse), plan);
            assert_eq!(moved.slots(), plan.slots());
            assert_eq!(moved.jobs[0].label, plan.jobs[0].label);
            assert_eq!(moved.variants[1].program, Some("node".into()));
            let is_left = |path: &Path| folders.iter().any(|folder| path.starts_with(folder));
            assert!(!moved.jobs.iter().any(|job| is_left(&job.source.file)));
        }
    }
}
