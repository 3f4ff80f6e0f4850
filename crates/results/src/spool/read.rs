//! Reads a spool while it grows.

use super::{Block, DecidedLine, Ending, Header, Line, VERSION};
use crate::formats::json_lines::Shared;
use speedwell_model::{Metric, Run};
use std::collections::{HashMap, HashSet};

/// Maximum length of a line in bytes; longer lines are rejected.
const LONGEST_LINE: usize = 16 << 20;

/// Expected slots of a parcel: for each slot the index of its case, its block and its variant.
#[derive(Debug, Clone, Default)]
pub struct Slots(HashMap<u32, (u32, u32, String)>);

impl FromIterator<(u32, (u32, u32, String))> for Slots {
    fn from_iter<I: IntoIterator<Item = (u32, (u32, u32, String))>>(slots: I) -> Slots {
        Slots(slots.into_iter().collect())
    }
}

/// Item decoded from a spool.
#[derive(Debug, Clone, PartialEq)]
pub enum Delivered {
    /// The attempt has started.
    Header(Box<Header>),
    /// A complete block.
    Block(Block),
    /// The case needs no more runs.
    Decided {
        /// Index of the case in the plan.
        job: u32,
        /// Last block of the case in this attempt; `None` if earlier attempts settled the case.
        after: Option<u32>,
        /// Planned runs that are no longer needed.
        saved: usize,
    },
    /// A message for the user.
    Warning(String),
    /// Something was dropped, with the reason.
    LeftOut(String),
    /// The attempt has ended, and whether all blocks it closed and all its decisions arrived
    /// intact.
    Ended(Ending, bool),
}

/// Incremental decoder of a spool.
#[derive(Debug)]
pub struct SpoolReader {
    slots: Slots,
    /// Start of a line whose end has not arrived yet.
    rest: Vec<u8>,
    is_too_long: bool,
    has_header: bool,
    shared: Shared,
    /// All metrics reported so far; the first `earlier` of them precede the open block.
    metrics: Vec<(i64, Metric)>,
    earlier: usize,
    crc: crc32fast::Hasher,
    block: Block,
    /// First error in the open block.
    fault: Option<String>,
    /// Whether something was dropped. Later blocks are rejected then: they would be judged without
    /// the missing data.
    has_gap: bool,
    blocks: u32,
    decisions: u32,
}

impl SpoolReader {
    /// Creates a decoder for an attempt at a parcel with these slots.
    pub fn new(slots: Slots) -> SpoolReader {
        SpoolReader {
            slots,
            rest: Vec::new(),
            is_too_long: false,
            has_header: false,
            shared: Shared::default(),
            metrics: Vec::new(),
            earlier: 0,
            crc: crc32fast::Hasher::new(),
            block: Block::default(),
            fault: None,
            has_gap: false,
            blocks: 0,
            decisions: 0,
        }
    }

    /// Consumes bytes and returns the items they complete.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Delivered> {
        let mut found = Vec::new();
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            if self.rest.len() + piece.len() > LONGEST_LINE {
                self.is_too_long = true;
                self.rest.clear();
            } else {
                self.rest.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.rest);
                if std::mem::take(&mut self.is_too_long) {
                    self.fault = Some("a line is too long".to_owned());
                } else {
                    found.extend(self.line(&line));
                }
            }
        }
        found
    }

    fn line(&mut self, text: &[u8]) -> Option<Delivered> {
        let line = match serde_json::from_slice::<Line<'_>>(text) {
            Ok(line) => line,
            Err(error) => {
                self.fault = Some(format!("a line cannot be read: {error}"));
                return None;
            }
        };
        match line {
            Line::Spool(header) => return Some(self.header(*header)),
            Line::Warning(sentence) => return Some(Delivered::Warning(sentence.into_owned())),
            Line::Decided(line) => {
                let is_sound = line == DecidedLine::new(line.job, line.after, line.saved);
                if !is_sound || self.has_gap || self.fault.is_some() {
                    let why = "a decision is left out: it, or what it rests on, is damaged";
                    return Some(Delivered::LeftOut(why.to_owned()));
                }
                self.decisions += 1;
                return Some(Delivered::Decided {
                    job: line.job,
                    after: line.after,
                    saved: line.saved,
                });
            }
            Line::Ended(ending) => {
                let has_decisions = |decisions: u32| decisions == self.decisions;
                let is_whole =
                    ending.blocks == self.blocks && ending.decisions.is_none_or(has_decisions);
                return Some(Delivered::Ended(ending, is_whole));
            }
            Line::BlockDone(end) => return Some(self.block_done(end)),
            Line::Run(line) => {
                let run = self.shared.run(*line);
                self.block.runs.push(run);
            }
            Line::Failure(failure) => self.block.failures.push(failure.into_owned()),
            Line::Slots(slots) => self.block.slots.extend_from_slice(&slots),
            Line::Metric(line) => self.metrics.push((line.first, line.metric.into_owned())),
        }
        self.crc.update(text);
        None
    }

    fn header(&mut self, header: Header) -> Delivered {
        if header.version != VERSION {
            return Delivered::LeftOut(format!(
                "its speedwell writes spools of version {}, this one reads {VERSION}",
                header.version
            ));
        }
        self.has_header = true;
        Delivered::Header(Box::new(header))
    }

    fn block_done(&mut self, end: super::BlockEnd) -> Delivered {
        let mut block = std::mem::take(&mut self.block);
        (block.job, block.block) = (end.job, end.block);
        let crc = std::mem::take(&mut self.crc).finalize();
        let fault = self.fault.take().or_else(|| {
            if !self.has_header {
                return Some("nobody has said whose it is".to_owned());
            }
            if self.has_gap {
                return Some("what came before it is damaged".to_owned());
            }
            if crc != end.crc || block.runs.len() != end.runs as usize {
                return Some("it is damaged".to_owned());
            }
            self.slots.fault(&block)
        });
        if let Some(fault) = fault {
            self.has_gap = true;
            return Delivered::LeftOut(format!(
                "block {} of case {} is left out: {fault}",
                end.block, end.job
            ));
        }
        self.blocks += 1;
        block.metrics = self.metrics_of(&block.runs);
        self.earlier = self.metrics.len();
        Delivered::Block(block)
    }

    /// Returns the metrics reported in the open block and those of its runs that an earlier block
    /// reported.
    fn metrics_of(&self, runs: &[Run]) -> Vec<(i64, Metric)> {
        let samples = runs.iter().flat_map(|run| &run.samples);
        let names: HashSet<&str> = samples.map(|sample| &*sample.metric).collect();
        let own = self.metrics.iter();
        own.enumerate()
            .filter(|(at, (_, metric))| *at >= self.earlier || names.contains(metric.name.as_str()))
            .map(|(_, known)| known.clone())
            .collect()
    }
}

impl Slots {
    /// Returns why a block does not belong to the parcel, if it does not.
    fn fault(&self, block: &Block) -> Option<String> {
        let of_slot = |slot: u32| {
            let known = self.0.get(&slot);
            known.filter(|(job, number, _)| (*job, *number) == (block.job, block.block))
        };
        let foreign = |slot: u32| format!("slot {slot} is not one of its slots");
        if let Some(&slot) = block.slots.iter().find(|&&slot| of_slot(slot).is_none()) {
            return Some(foreign(slot));
        }
        for run in &block.runs {
            match of_slot(run.slot) {
                None => return Some(foreign(run.slot)),
                Some((_, _, variant)) if *variant != *run.variant => {
                    return Some(format!(
                        "slot {} is of variant '{variant}' and not of '{}'",
                        run.slot, run.variant
                    ));
                }
                Some(_) if run.block != block.block || run.machine.is_some() => {
                    return Some(format!("the run of slot {} says otherwise", run.slot));
                }
                Some(_) => {}
            }
        }
        let mut slots = block.failures.iter().filter_map(|failure| failure.slot);
        slots.find(|&slot| of_slot(slot).is_none()).map(foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::{Block, Spool};
    use speedwell_fixtures::Story;
    use speedwell_model::{Event, Observer, Session, SessionMachine};

    fn slots() -> Slots {
        let of = |slot: u32| (slot, (3, 0, ["a", "b"][slot as usize % 2].to_owned()));
        (4..6).map(of).collect()
    }

    /// Reads the spool of [`written`].
    fn delivered(change: impl Fn(&mut Run)) -> Vec<Delivered> {
        SpoolReader::new(slots()).feed(&written(change))
    }

    /// A spool with one block of case 3 and a decision on that case. `change` may alter the runs.
    fn written(change: impl Fn(&mut Run)) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.0.jsonl");
        let header = Header {
            version: VERSION,
            session: "s".into(),
            bundle: "b".into(),
            parcel: 0,
            attempt: 0,
            machine: SessionMachine::default(),
            boot: String::new(),
        };
        let Session { runs, metrics, .. } = Story::fixed(&["a", "b"], 1)
            .case("g/x", |_, _| 1.5)
            .session();
        let mut spool = Spool::create(&path, header, vec![(3, "g/x".into())], None).unwrap();
        spool.observe(&Event::Declared(&metrics[0])).unwrap();
        for slot in 4..6 {
            let variant = ["a", "b"][slot as usize % 2];
            let mut run = Run {
                slot,
                variant: variant.into(),
                ..runs[0].clone()
            };
            change(&mut run);
            spool.observe(&Event::RunFinished(&run)).unwrap();
            spool.observe(&Event::SlotsDone(&[slot])).unwrap();
        }
        spool
            .observe(&Event::BlockDone { job: 0, block: 0 })
            .unwrap();
        let (label, saved) = ("g/x", 2);
        spool.observe(&Event::CaseDecided { label, saved }).unwrap();
        spool.end(None).unwrap();
        assert!(path.with_extension("jsonl.ended").exists());
        std::fs::read(&path).unwrap()
    }

    fn left_out(delivered: &[Delivered]) -> &str {
        match &delivered[1] {
            Delivered::LeftOut(reason) => reason,
            other => panic!("it was taken: {other:?}"),
        }
    }

    #[test]
    fn a_block_comes_back_as_it_was_told() {
        let found = delivered(|_| {});
        let [
            Delivered::Header(header),
            Delivered::Block(block),
            Delivered::Decided {
                job: 3,
                after: Some(0),
                saved: 2,
            },
            Delivered::Ended(_, true),
        ] = &found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(header.session, "s");
        let Block {
            job,
            block: number,
            slots,
            runs,
            metrics,
            ..
        } = block;
        assert_eq!(
            (*job, *number, &slots[..], runs.len()),
            (3, 0, &[4, 5][..], 2)
        );
        assert_eq!(runs[1].samples[0].value, 1.5);
        assert_eq!(metrics[0].1.name, "throughput");
    }

    #[test]
    fn a_block_that_is_taken_over_is_that_of_the_earlier_attempt() {
        let found = delivered(|_| {});
        let block = |found: &[Delivered]| {
            let blocks = found.iter().filter_map(|one| match one {
                Delivered::Block(block) => Some(block.clone()),
                _ => None,
            });
            blocks.collect::<Vec<Block>>()
        };
        let [first] = &block(&found)[..] else {
            panic!("{found:?}");
        };
        let Delivered::Header(header) = &found[0] else {
            panic!("{found:?}");
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.1.jsonl");
        let header = Header {
            attempt: 1,
            ..(**header).clone()
        };
        let jobs = vec![(3, "g/x".into())];
        let mut spool = Spool::create(&path, header, jobs, None).unwrap();
        spool.take_over(0, first).unwrap();
        spool.end(None).unwrap();
        let again = SpoolReader::new(slots()).feed(&std::fs::read(&path).unwrap());
        assert_eq!(block(&again), std::slice::from_ref(first));
        assert!(matches!(again.last(), Some(Delivered::Ended(_, true))));
    }

    #[test]
    fn what_does_not_belong_to_the_parcel_is_left_out_and_named() {
        let reason = |change: &dyn Fn(&mut Run)| left_out(&delivered(change)).to_owned();
        assert!(reason(&|run| run.slot += 7).contains("slot 11 is not one of its slots"));
        let variant = reason(&|run| run.variant = "c".into());
        assert!(
            variant.contains("slot 4 is of variant 'a' and not of 'c'"),
            "{variant}"
        );
        assert!(reason(&|run| run.block = 9).contains("says otherwise"));
        assert!(reason(&|run| run.machine = Some(1)).contains("says otherwise"));
    }

    #[test]
    fn an_attempt_whose_decision_is_damaged_is_not_whole() {
        let text = written(|_| {});
        let at = (text.windows(9).rposition(|word| word == b"\"decided\"")).unwrap();
        let saved = text[at..].iter().position(|&byte| byte == b'2').unwrap();
        for (place, byte) in [(at + 1, b'x'), (at + saved, b'3'), (at - 1, b'[')] {
            let mut damaged = text.clone();
            damaged[place] = byte;
            let found = SpoolReader::new(slots()).feed(&damaged);
            let decided = |one: &Delivered| matches!(one, Delivered::Decided { .. });
            assert!(!found.iter().any(decided), "{found:?}");
            assert!(
                matches!(found.last(), Some(Delivered::Ended(_, false))),
                "{found:?}"
            );
        }
    }

    #[test]
    fn lines_that_are_no_spool_are_left_out() {
        let mut reader = SpoolReader::new(slots());
        assert!(reader.feed(b"hello\n{\"run\":{}}\n").is_empty());
        let end = b"{\"block_done\":{\"job\":3,\"block\":0,\"runs\":0,\"crc\":0}}\n";
        let found = reader.feed(end);
        assert!(matches!(&found[..], [Delivered::LeftOut(_)]), "{found:?}");
        let long = vec![b'x'; LONGEST_LINE + 5];
        assert!(reader.feed(&long).is_empty() && reader.rest.len() <= LONGEST_LINE);
    }
}
