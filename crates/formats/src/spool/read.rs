//! Reads a spool while it grows.

use super::{AttemptEnd, DecisionLine, SpoolBlock, SpoolHeader, SpoolLine, VERSION};
use crate::json_lines::InternedNames;
use speedwell_model::{Metric, Run};
use std::collections::{HashMap, HashSet};

/// Maximum length of a line in bytes; longer lines are rejected.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Slots (planned runs) that a shard should contain. The map gives the case index, the block and
/// the variant of each slot.
pub type ShardSlots = HashMap<u32, (u32, u32, String)>;

/// Item decoded from a spool.
#[derive(Debug, Clone, PartialEq)]
pub enum SpoolItem {
    /// The attempt has started.
    Header(Box<SpoolHeader>),
    /// A complete block.
    Block(SpoolBlock),
    /// The case needs no more runs.
    Decided {
        /// Index of the case in the plan.
        job: u32,
        /// Last block of the case in this spool; `None` if the spool contains no block of the case.
        after: Option<u32>,
        /// Number of planned runs that the decision made unnecessary.
        saved: usize,
    },
    /// A message for the user.
    Warning(String),
    /// Something was dropped, for this reason.
    LeftOut(String),
    /// The attempt has ended. The flag tells whether all blocks that the attempt closed, and all
    /// its decisions, arrived intact.
    Ended(AttemptEnd, bool),
}

/// Incremental decoder of a spool.
#[derive(Debug, Default)]
pub struct SpoolReader {
    slots: ShardSlots,
    /// Start of a line whose end has not arrived yet.
    partial_line: Vec<u8>,
    is_too_long: bool,
    has_header: bool,
    shared: InternedNames,
    /// All metrics reported so far; the first `earlier_metrics` of them were reported before the
    /// open block.
    metrics: Vec<(i64, Metric)>,
    earlier_metrics: usize,
    crc: crc32fast::Hasher,
    block: SpoolBlock,
    /// Last error found in a line of the open block.
    fault: Option<String>,
    /// Whether a block was dropped. Later blocks are then rejected, because they must not be
    /// analyzed without the missing data.
    has_gap: bool,
    blocks: u32,
    decisions: u32,
}

impl SpoolReader {
    /// Creates a decoder for an attempt at a shard with these slots.
    pub fn new(slots: ShardSlots) -> SpoolReader {
        SpoolReader { slots, ..SpoolReader::default() }
    }

    /// Consumes bytes and returns the items they complete.
    pub fn decode(&mut self, bytes: &[u8]) -> Vec<SpoolItem> {
        let mut found = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.partial_line.len() + piece.len() > MAX_LINE_BYTES {
                self.is_too_long = true;
                self.partial_line.clear();
            } else {
                self.partial_line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.partial_line);
                if std::mem::take(&mut self.is_too_long) {
                    self.fault = Some("a line is too long".to_owned());
                } else {
                    found.extend(self.decode_line(&line));
                }
            }
        }
        found
    }

    fn decode_line(&mut self, text: &[u8]) -> Option<SpoolItem> {
        let line = match serde_json::from_slice::<SpoolLine<'_>>(text) {
            Ok(line) => line,
            Err(error) => {
                self.fault = Some(format!("a line cannot be read: {error}"));
                return None;
            }
        };
        match line {
            SpoolLine::Spool(header) => return Some(self.accept_header(*header)),
            SpoolLine::Warning(sentence) => return Some(SpoolItem::Warning(sentence.into_owned())),
            SpoolLine::Decided(line) => {
                let is_sound = line == DecisionLine::new(line.job, line.after, line.saved);
                if !is_sound || self.has_gap || self.fault.is_some() {
                    let reason =
                        "a decision is left out: the decision or an earlier block is damaged";
                    return Some(SpoolItem::LeftOut(reason.to_owned()));
                }
                self.decisions += 1;
                let DecisionLine { job, after, saved, .. } = line;
                return Some(SpoolItem::Decided { job, after, saved });
            }
            SpoolLine::Ended(ending) => {
                let has_decisions = |decisions: u32| decisions == self.decisions;
                let is_intact =
                    ending.blocks == self.blocks && ending.decisions.is_none_or(has_decisions);
                return Some(SpoolItem::Ended(ending, is_intact));
            }
            SpoolLine::BlockDone(end) => return Some(self.close_block(end)),
            SpoolLine::Run(line) => {
                let run = self.shared.convert_run(*line);
                self.block.runs.push(run);
            }
            SpoolLine::Failure(failure) => self.block.failures.push(failure.into_owned()),
            SpoolLine::Slots(slots) => self.block.slots.extend_from_slice(&slots),
            SpoolLine::Metric { first, metric } => self.metrics.push((first, metric.into_owned())),
        }
        self.crc.update(text);
        None
    }

    fn accept_header(&mut self, header: SpoolHeader) -> SpoolItem {
        if header.version != VERSION {
            return SpoolItem::LeftOut(format!(
                "its speedwell writes version {} of the spool format, but this one reads version {VERSION}",
                header.version
            ));
        }
        self.has_header = true;
        SpoolItem::Header(Box::new(header))
    }

    fn close_block(&mut self, end: super::BlockTrailer) -> SpoolItem {
        let mut block = std::mem::take(&mut self.block);
        (block.job, block.block) = (end.job, end.block);
        let crc = std::mem::take(&mut self.crc).finalize();
        let fault = self.fault.take().or_else(|| {
            if !self.has_header {
                return Some("the header of the spool is missing".to_owned());
            }
            if self.has_gap {
                return Some("an earlier block was left out".to_owned());
            }
            if crc != end.crc || block.runs.len() != end.runs as usize {
                return Some("it is damaged".to_owned());
            }
            block_fault(&self.slots, &block)
        });
        if let Some(fault) = fault {
            self.has_gap = true;
            return SpoolItem::LeftOut(format!(
                "block {} of case {} is left out: {fault}",
                end.block, end.job
            ));
        }
        self.blocks += 1;
        block.metrics = self.block_metrics(&block.runs);
        self.earlier_metrics = self.metrics.len();
        SpoolItem::Block(block)
    }

    /// Returns the metrics first reported in the open block, and earlier metrics that its runs use.
    fn block_metrics(&self, runs: &[Run]) -> Vec<(i64, Metric)> {
        let samples = runs.iter().flat_map(|run| &run.samples);
        let names: HashSet<&str> = samples.map(|sample| &*sample.metric).collect();
        let (earlier, own) = self.metrics.split_at(self.earlier_metrics);
        let used = earlier.iter().filter(|(_, metric)| names.contains(metric.name.as_str()));
        used.chain(own).cloned().collect()
    }
}

/// Returns the reason why a block does not belong to the shard; `None` if it does.
fn block_fault(slots: &ShardSlots, block: &SpoolBlock) -> Option<String> {
    let find_slot = |slot: u32| {
        let slot_facts = slots.get(&slot);
        slot_facts.filter(|(job, number, _)| (*job, *number) == (block.job, block.block))
    };
    let foreign_slot_error = |slot: u32| format!("slot {slot} does not belong to the block");
    if let Some(&slot) = block.slots.iter().find(|&&slot| find_slot(slot).is_none()) {
        return Some(foreign_slot_error(slot));
    }
    for run in &block.runs {
        match find_slot(run.slot) {
            None => return Some(foreign_slot_error(run.slot)),
            Some((_, _, variant)) if *variant != *run.variant => {
                return Some(format!(
                    "slot {} belongs to variant '{variant}', not '{}'",
                    run.slot, run.variant
                ));
            }
            Some(_) if run.block != block.block || run.machine.is_some() => {
                return Some(format!(
                    "the run of slot {} names another block, or wrongly names a machine",
                    run.slot
                ));
            }
            Some(_) => {}
        }
    }
    let mut failed_slots = block.failures.iter().filter_map(|failure| failure.slot);
    failed_slots.find(|&slot| find_slot(slot).is_none()).map(foreign_slot_error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{SpoolBlock, SpoolWriter};
    use speedwell_fixtures::FakeSession;
    use speedwell_model::{Session, SessionEvent, SessionMachine, SessionObserver};

    fn shard_slots() -> ShardSlots {
        let slot_facts = |slot: u32| (slot, (3, 0, ["a", "b"][slot as usize % 2].to_owned()));
        (4..6).map(slot_facts).collect()
    }

    /// Reads the spool of [`spool_bytes`].
    fn read_spool(change: impl Fn(&mut Run)) -> Vec<SpoolItem> {
        SpoolReader::new(shard_slots()).decode(&spool_bytes(change))
    }

    /// A spool with one block of case 3 and a decision on that case. `change` may alter the runs.
    fn spool_bytes(change: impl Fn(&mut Run)) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.0.jsonl");
        let header = SpoolHeader {
            version: VERSION,
            session: "s".into(),
            bundle: "b".into(),
            shard: 0,
            attempt: 0,
            machine: SessionMachine::default(),
            boot: String::new(),
        };
        let Session { runs, metrics, .. } =
            FakeSession::with_fixed_blocks(&["a", "b"], 1).add_case("g/x", |_, _| 1.5).build();
        let mut spool = SpoolWriter::create(&path, header, vec![(3, "g/x".into())], None).unwrap();
        spool.observe(&SessionEvent::Declared(&metrics[0])).unwrap();
        for slot in 4..6 {
            let variant = ["a", "b"][slot as usize % 2];
            let mut run = Run { slot, variant: variant.into(), ..runs[0].clone() };
            change(&mut run);
            spool.observe(&SessionEvent::RunFinished(&run)).unwrap();
            spool.observe(&SessionEvent::SlotsDone(&[slot])).unwrap();
        }
        spool.observe(&SessionEvent::BlockDone { job: 0, block: 0 }).unwrap();
        let (label, saved) = ("g/x", 2);
        spool.observe(&SessionEvent::CaseDecided { label, saved }).unwrap();
        spool.end_spool(None).unwrap();
        assert!(path.with_extension("jsonl.ended").exists());
        std::fs::read(&path).unwrap()
    }

    fn drop_reason(delivered: &[SpoolItem]) -> &str {
        match &delivered[1] {
            SpoolItem::LeftOut(reason) => reason,
            other => panic!("it was not dropped: {other:?}"),
        }
    }

    #[test]
    fn a_block_round_trips() {
        let found = read_spool(|_| {});
        let [
            SpoolItem::Header(header),
            SpoolItem::Block(block),
            SpoolItem::Decided { job: 3, after: Some(0), saved: 2 },
            SpoolItem::Ended(_, true),
        ] = &found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(header.session, "s");
        let SpoolBlock { job, block: number, slots, runs, metrics, .. } = block;
        assert_eq!((*job, *number, &slots[..], runs.len()), (3, 0, &[4, 5][..], 2));
        assert_eq!(runs[1].samples[0].value, 1.5);
        assert_eq!(metrics[0].1.name, "throughput");
    }

    #[test]
    fn a_block_copied_from_an_earlier_attempt_is_unchanged() {
        let found = read_spool(|_| {});
        let block = |found: &[SpoolItem]| {
            let blocks = found.iter().filter_map(|item| match item {
                SpoolItem::Block(block) => Some(block.clone()),
                _ => None,
            });
            blocks.collect::<Vec<SpoolBlock>>()
        };
        let [first] = &block(&found)[..] else {
            panic!("{found:?}");
        };
        let SpoolItem::Header(header) = &found[0] else {
            panic!("{found:?}");
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.1.jsonl");
        let header = SpoolHeader { attempt: 1, ..(**header).clone() };
        let jobs = vec![(3, "g/x".into())];
        let mut spool = SpoolWriter::create(&path, header, jobs, None).unwrap();
        spool.copy_block(0, first).unwrap();
        spool.end_spool(None).unwrap();
        let items = SpoolReader::new(shard_slots()).decode(&std::fs::read(&path).unwrap());
        assert_eq!(block(&items), std::slice::from_ref(first));
        assert!(matches!(items.last(), Some(SpoolItem::Ended(_, true))));
    }

    #[test]
    fn runs_outside_the_shard_are_dropped_with_a_reason() {
        let reason = |change: &dyn Fn(&mut Run)| drop_reason(&read_spool(change)).to_owned();
        assert!(reason(&|run| run.slot += 7).contains("slot 11 does not belong to the block"));
        let variant = reason(&|run| run.variant = "c".into());
        assert!(variant.contains("slot 4 belongs to variant 'a', not 'c'"), "{variant}");
        assert!(reason(&|run| run.block = 9).contains("names another block, or"));
        assert!(reason(&|run| run.machine = Some(1)).contains("names another block, or"));
    }

    #[test]
    fn an_attempt_whose_decision_is_damaged_is_not_whole() {
        let text = spool_bytes(|_| {});
        let position = (text.windows(9).rposition(|word| word == b"\"decided\"")).unwrap();
        let saved = text[position..].iter().position(|&byte| byte == b'2').unwrap();
        for (place, byte) in [(position + 1, b'x'), (position + saved, b'3'), (position - 1, b'[')]
        {
            let mut damaged = text.clone();
            damaged[place] = byte;
            let found = SpoolReader::new(shard_slots()).decode(&damaged);
            let decided = |one: &SpoolItem| matches!(one, SpoolItem::Decided { .. });
            assert!(!found.iter().any(decided), "{found:?}");
            assert!(matches!(found.last(), Some(SpoolItem::Ended(_, false))), "{found:?}");
        }
    }

    #[test]
    fn lines_without_valid_spool_content_are_ignored() {
        let mut reader = SpoolReader::new(shard_slots());
        assert!(reader.decode(b"hello\n{\"run\":{}}\n").is_empty());
        let end = b"{\"block_done\":{\"job\":3,\"block\":0,\"runs\":0,\"crc\":0}}\n";
        let found = reader.decode(end);
        assert!(matches!(&found[..], [SpoolItem::LeftOut(_)]), "{found:?}");
        let long = vec![b'x'; MAX_LINE_BYTES + 5];
        assert!(reader.decode(&long).is_empty() && reader.partial_line.len() <= MAX_LINE_BYTES);
    }
}
