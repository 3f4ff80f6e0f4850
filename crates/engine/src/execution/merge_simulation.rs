//! Tests how the results of several machines are merged, by simulating random histories of a
//! session. In these histories, attempts at a shard die, their output is damaged or read
//! repeatedly, and blocks arrive in any order. In the end, the store must hold the same data as if
//! a single machine had executed the session.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::execution::{ExecuteOptions, StoppingRule, execute};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_adapters::discover::BenchmarkSelection;
use speedwell_adapters::plan::{PlanShard, SessionPlan};
use speedwell_adapters::{BenchmarkSource, DescribeRequest, SourceKind, harness_for};
use speedwell_fixtures::FakeSession;
use speedwell_formats::json_lines;
use speedwell_formats::spool::{
    ShardSlots, SpoolHeader, SpoolItem, SpoolReader, SpoolWriter, VERSION,
};
use speedwell_model::{
    Run, RunCount, RunOrder, SamplingOptions, Session, SessionDesign, SessionEvent, SessionMachine,
    SessionObserver, SessionState, StoppingDesign, Variant,
};
use speedwell_store::{BlockOrigin, MergeOutcome, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

/// Cases of a fake benchmark. Some of their runs report additional metrics, fail, report nothing,
/// or are disturbed; one variant of `n=3` always fails.
const CASES: &str = "\
case n=1
old 100 101 102 103 104 105
new 110 111,memory=5 112 113,size=9,memory=4 114 115
case n=2
old 200 exit:3 202 203 204 exit:3
new 210 211,size=3 212 silent 214 215
case n=3
old 300 301 302 303
new exit:1
case n=4
old 400~80|401 402 403 404
new 410 411 412~90|412 413
";

/// Settles a case after its second block if its parameter is `n=1`.
struct SettleAfterTwoBlocks;

impl StoppingRule for SettleAfterTwoBlocks {
    fn settled_cases(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        let is_decided = |runs: &&[Run]| {
            runs[0].case.id().ends_with("n=1") && runs.iter().any(|run| run.block >= 1)
        };
        cases.iter().map(is_decided).collect()
    }
}

fn test_plan(file: &Path) -> SessionPlan {
    let folder = file.parent().unwrap();
    let source = BenchmarkSource {
        name: "g/b".into(),
        ..BenchmarkSource::new(SourceKind::Fake, file, folder, folder)
    };
    let variants = vec![Variant::plain("old"), Variant::plain("new")];
    let request = DescribeRequest {
        source,
        program: "true".into(),
        variant: variants[0].clone(),
        sets: Vec::new(),
        selection: BenchmarkSelection::default(),
        limit: Duration::from_secs(1),
    };
    let runs = 6;
    let design = SessionDesign {
        order: RunOrder::Blocks,
        stopping: StoppingDesign::Fixed { runs },
        baseline: "old".into(),
        seed: 5,
        reject: "involuntary>50".parse().unwrap(),
        ..FakeSession::sequential(&["old", "new"], 1).build().design
    };
    SessionPlan {
        jobs: harness_for(SourceKind::Fake).describe_source(&request).unwrap().jobs,
        variants,
        design,
        sampling: SamplingOptions {
            runs: RunCount::Fixed(runs),
            precision: None,
            timeout_ms: 1000,
            budget_ms: None,
            samples: Default::default(),
            requested: Default::default(),
            clock: Default::default(),
        },
        pin: None,
        shared: false,
        is_search: false,
        strata: 1,
        part: None,
    }
}

fn test_session(plan: &SessionPlan, number: u64, machines: u32) -> Session {
    let machine = |machine_index: u32| SessionMachine {
        id: format!("m{machine_index}"),
        name: format!("lab-{machine_index}"),
        ..SessionMachine::default()
    };
    Session {
        id: number.to_string(),
        number: None,
        started_unix_ms: 0,
        state: SessionState::Running,
        design: plan.design.clone(),
        variants: plan.variants.clone(),
        metrics: Vec::new(),
        runs: Vec::new(),
        failures: Vec::new(),
        machines: (0..machines).map(machine).collect(),
        ..FakeSession::sequential(&["old", "new"], 1).build()
    }
}

/// Formats what the store holds about a session, except its id, machines and times.
fn stored_text(store: &Store, number: i64) -> String {
    let mut session = store.load_session(number).unwrap();
    session.id = String::new();
    session.machines.clear();
    for run in &mut session.runs {
        (run.started_unix_ms, run.wall_ns) = (0, 0);
        (run.machine, run.kernel_stats) = (None, None);
    }
    let mut text = Vec::new();
    json_lines::write(&session, &mut text).unwrap();
    format!(
        "{}{:?}\n{:?}\n",
        String::from_utf8(text).unwrap(),
        store.finished_slots(number).unwrap(),
        store.decided_cases(number).unwrap(),
    )
}

/// Simulates that a worker is killed after this many events.
struct KillAfter(u64);

impl SessionObserver for KillAfter {
    fn observe(&mut self, _event: &SessionEvent<'_>) -> anyhow::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(anyhow::anyhow!("killed"))?;
        Ok(())
    }
}

struct RandomSource(Xoshiro256PlusPlus);

impl RandomSource {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}

/// One attempt at a shard. Holds the spool that the attempt wrote, and how much of the spool has
/// been read.
struct SpoolAttempt {
    shard: usize,
    origin: BlockOrigin,
    spool: Vec<u8>,
    read: usize,
    reader: SpoolReader,
    /// Decisions that this attempt made about blocks that another attempt had already delivered.
    /// They are recorded when this attempt has ended.
    decisions: Vec<(u32, usize)>,
}

struct MergeHistory<'a> {
    dice: RandomSource,
    whole_plan: &'a SessionPlan,
    parts: Vec<SessionPlan>,
    attempts: Vec<SpoolAttempt>,
    done: BTreeSet<usize>,
    refused: u32,
}

impl MergeHistory<'_> {
    fn expected_slots(part: &SessionPlan) -> ShardSlots {
        let slots = part.slots().into_iter();
        let expected = slots.map(|slot| {
            let variant = part.variants[slot.variant].name.clone();
            (slot.index, (part.index_in_whole(slot.job), slot.block, variant))
        });
        expected.collect()
    }

    /// Executes an attempt at a shard, continuing from the current content of the store.
    fn run_attempt(&mut self, shard: usize, store: &Store, number: i64, folder: &Path) {
        let part = &self.parts[shard];
        let own: BTreeSet<u32> = part.slots().iter().map(|slot| slot.index).collect();
        let known = store.load_session(number).unwrap();
        let failed = known.failures.iter().filter_map(|failure| failure.slot);
        let orders = ExecuteOptions {
            completed_slots: &store.finished_slots(number).unwrap() & &own,
            failed_slots: failed.filter(|slot| own.contains(slot)).collect(),
            previous_runs: known.runs.into_iter().filter(|run| own.contains(&run.slot)).collect(),
            ..ExecuteOptions::default()
        };
        let before = self.attempts.iter().filter(|known| known.shard == shard);
        let attempt = before.count() as u32;
        let origin = BlockOrigin { machine: shard as u32, shard: shard as u32, attempt };
        let header = SpoolHeader {
            version: VERSION,
            session: "s".into(),
            bundle: "b".into(),
            shard: shard as u32,
            attempt,
            machine: SessionMachine::default(),
            boot: String::new(),
        };
        let jobs = (part.jobs.iter().enumerate())
            .map(|(place, job)| (part.index_in_whole(place), job.label.clone()));
        let path = folder.join("spool.jsonl");
        let mut spool = SpoolWriter::create(&path, header, jobs.collect(), None).unwrap();
        let dies = attempt < 2 && self.dice.below(3) > 0;
        let mut death = KillAfter(if dies { self.dice.below(80) } else { u64::MAX });
        let ended = execute(part, orders, &mut SettleAfterTwoBlocks, &mut [&mut spool, &mut death]);
        match ended {
            Ok(_) => spool.end_spool(None).unwrap(),
            Err(_) => drop(spool),
        }
        let text = self.damaged_spool(&path, dies);
        let reader = SpoolReader::new(MergeHistory::expected_slots(&self.parts[shard]));
        self.attempts.push(SpoolAttempt {
            shard,
            origin,
            spool: text,
            read: 0,
            reader,
            decisions: Vec::new(),
        });
    }

    /// Returns the text of a spool. If the worker that wrote the spool died, the text may be cut
    /// off or have a flipped bit.
    fn damaged_spool(&mut self, path: &Path, died: bool) -> Vec<u8> {
        let mut text = std::fs::read(path).unwrap();
        std::fs::remove_file(path).unwrap();
        if died && self.dice.below(2) == 0 {
            let torn = self.dice.below(text.len() as u64 + 1) as usize;
            text.truncate(torn);
        } else if died && self.dice.below(2) == 0 {
            let at = self.dice.below(text.len() as u64) as usize;
            text[at] ^= 1 << self.dice.below(8);
        }
        text
    }

    /// Reads and merges the next piece of an attempt's spool, or the first piece once more if
    /// `again` is set.
    fn read_spool(
        &mut self,
        at: usize,
        again: bool,
        merger: &mut speedwell_store::SessionRecorder<'_>,
    ) {
        let part = &self.parts[self.attempts[at].shard];
        let attempt = &mut self.attempts[at];
        if again {
            (attempt.read, attempt.reader) =
                (0, SpoolReader::new(MergeHistory::expected_slots(part)));
        }
        let left = attempt.spool.len() - attempt.read;
        let piece = self.dice.below(left as u64 + 1) as usize;
        let bytes = &attempt.spool[attempt.read..attempt.read + piece];
        attempt.read += piece;
        for delivered in attempt.reader.decode(bytes) {
            match delivered {
                SpoolItem::Block(block) => {
                    let merged = merger.merge_block(attempt.origin, &block).unwrap();
                    self.refused += u32::from(matches!(merged, MergeOutcome::Refused(_)));
                }
                SpoolItem::Decided { job, after, saved } => {
                    let Some(known) = self.whole_plan.jobs.get(job as usize) else { continue };
                    let (origin, label) = (attempt.origin, &known.label);
                    if !merger.record_decision(origin, (job, after), label, saved).unwrap() {
                        attempt.decisions.push((job, saved));
                    }
                }
                SpoolItem::Ended(ending, true) if ending.reason.is_none() => {
                    for (job, saved) in std::mem::take(&mut attempt.decisions) {
                        let label = &self.whole_plan.jobs[job as usize].label;
                        let decided =
                            merger.record_decision(attempt.origin, (job, None), label, saved);
                        assert!(decided.unwrap());
                    }
                    self.done.insert(attempt.shard);
                }
                _ => {}
            }
        }
    }

    /// Runs and merges attempts until all shards are complete. Returns the number of the session,
    /// and how many blocks were refused.
    fn run_history(mut self, store: &mut Store, id: u64, folder: &Path) -> (i64, u32) {
        let text = serde_json::to_string(self.whole_plan).unwrap();
        let machines = self.parts.len() as u32;
        let begun = test_session(self.whole_plan, id, machines);
        let number = store.begin_merging(&begun, &text, &[]).unwrap().number();
        while self.done.len() < self.parts.len() {
            let shard = self.dice.below(self.parts.len() as u64) as usize;
            let unread = |one: &SpoolAttempt| one.shard == shard && one.read < one.spool.len();
            let is_open = self.attempts.iter().any(unread);
            if !self.done.contains(&shard) && (!is_open || self.dice.below(12) == 0) {
                self.run_attempt(shard, store, number, folder);
            }
            // Merge as if the coordinator had been killed and started again in between.
            let mut merger = store.resume_recording(number).unwrap();
            for _ in 0..=self.dice.below(4) {
                let at = self.dice.below(self.attempts.len() as u64) as usize;
                let again = self.dice.below(10) == 0;
                self.read_spool(at, again, &mut merger);
            }
        }
        store.resume_recording(number).unwrap().finish_session(false).unwrap();
        (number, self.refused)
    }
}

/// Divides the cases at random among up to three machines.
fn random_shards(whole: &SessionPlan, dice: &mut RandomSource) -> Vec<SessionPlan> {
    let machines = 1 + dice.below(3);
    let mut all: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for job in 0..whole.jobs.len() as u32 {
        all.entry(dice.below(machines)).or_default().push(job);
    }
    let shards = all.into_values().map(|jobs| PlanShard { jobs, stratum: 0 });
    shards.map(|shard| whole.extract_shard(&shard).unwrap()).collect()
}

fn check_histories(count: u64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.fake");
    std::fs::write(&file, CASES).unwrap();
    let whole = test_plan(&file);
    let mut store = Store::open(&folder.path().join("results.db")).unwrap();
    let text = serde_json::to_string(&whole).unwrap();
    let mut recorder = store.begin_recording(&test_session(&whole, u64::MAX, 0), &text).unwrap();
    let alone = recorder.number();
    execute(&whole, ExecuteOptions::default(), &mut SettleAfterTwoBlocks, &mut [&mut recorder])
        .unwrap();
    drop(recorder);
    let expected = stored_text(&store, alone);
    assert!(expected.contains("memory") && expected.contains("involuntary>50"), "{expected}");
    let mut refused = 0;
    for seed in 0..count {
        let mut dice = RandomSource(Xoshiro256PlusPlus::seed_from_u64(seed));
        let history = MergeHistory {
            parts: random_shards(&whole, &mut dice),
            dice,
            whole_plan: &whole,
            attempts: Vec::new(),
            done: BTreeSet::new(),
            refused: 0,
        };
        let (number, doubles) = history.run_history(&mut store, seed, folder.path());
        assert_eq!(stored_text(&store, number), expected, "history {seed}");
        refused += doubles;
    }
    assert!(u64::from(refused) > count / 10, "too few refused blocks: {refused}");
}

/// A rule that settles nothing. `looks` says whether it inspects runs.
struct NeverSettle {
    looks: bool,
}

impl StoppingRule for NeverSettle {
    fn settled_cases(&mut self, cases: &[&[Run]]) -> Vec<bool> {
        assert!(self.looks, "this rule does not inspect runs");
        vec![false; cases.len()]
    }

    fn inspects_runs(&self) -> bool {
        self.looks
    }
}

/// Records a session that is killed after `events` events and then resumed. The stopping rule
/// inspects runs only if `looks` is set. Returns the stored session, and whether it ended without
/// being killed.
fn kill_and_resume(
    store: &mut Store,
    whole_plan: &SessionPlan,
    events: u64,
    looks: bool,
) -> (String, bool) {
    let text = serde_json::to_string(whole_plan).unwrap();
    let id = 2 * events + u64::from(looks);
    let mut recorder = store.begin_recording(&test_session(whole_plan, id, 0), &text).unwrap();
    let number = recorder.number();
    let mut death = KillAfter(events);
    let observers: &mut [&mut dyn SessionObserver] = &mut [&mut recorder, &mut death];
    let ended =
        execute(whole_plan, ExecuteOptions::default(), &mut NeverSettle { looks }, observers);
    drop(recorder);
    let known = store.load_session(number).unwrap();
    if known.state == SessionState::Complete {
        return (stored_text(store, number), ended.is_ok());
    }
    let done = store.finished_slots(number).unwrap();
    let failed = known.failures.iter().filter_map(|failure| failure.slot);
    let begun = whole_plan.begun_slots(&done);
    let orders = ExecuteOptions {
        failed_slots: failed.filter(|slot| done.contains(slot)).collect(),
        previous_runs: if looks {
            known.runs
        } else {
            store.load_slot_runs(number, &begun).unwrap()
        },
        empty_slots: (!looks).then(|| store.empty_slots(number).unwrap()),
        completed_slots: done,
        ..ExecuteOptions::default()
    };
    let mut recorder = store.resume_recording(number).unwrap();
    execute(whole_plan, orders, &mut NeverSettle { looks }, &mut [&mut recorder]).unwrap();
    drop(recorder);
    (stored_text(store, number), false)
}

#[test]
fn a_killed_session_resumes_to_the_result_of_an_undisturbed_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("b.fake");
    std::fs::write(&file, CASES).unwrap();
    let whole = test_plan(&file);
    let mut store = Store::open(&folder.path().join("results.db")).unwrap();
    let (undisturbed, _) = kill_and_resume(&mut store, &whole, u64::MAX / 4, true);
    assert!(undisturbed.contains("involuntary>50"));
    for events in 0.. {
        let (with_all, is_over) = kill_and_resume(&mut store, &whole, events, true);
        assert_eq!(with_all, undisturbed, "after {events} events");
        let (with_few, _) = kill_and_resume(&mut store, &whole, events, false);
        assert_eq!(
            with_few, undisturbed,
            "after {events} events, resumed with the runs of incomplete blocks only"
        );
        if is_over {
            assert!(events > 100);
            break;
        }
    }
}

#[test]
fn blocks_merged_in_any_order_give_the_same_store_as_one_machine() {
    check_histories(60);
}

/// Run with `cargo test --release -p speedwell-engine -- --ignored ten_thousand_histories`.
#[test]
#[ignore = "takes minutes"]
fn ten_thousand_histories() {
    check_histories(10_000);
}
