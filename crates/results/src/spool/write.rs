//! Writes a spool: an observer of what is measured.

use super::{Block, BlockEnd, DecidedLine, Header, Line, MetricLine};
use crate::formats::json_lines::run_line;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use speedwell_model::{Event, Observer};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// How many blocks it closed.
    pub blocks: u32,
    /// How many cases it decided; not known of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decisions: Option<u32>,
    /// Why not all of the parcel was measured, if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A spool that is being written.
pub struct Spool {
    file: File,
    path: PathBuf,
    /// Who reads along.
    copy: Option<Box<dyn Write + Send>>,
    /// Places of the cases in the whole plan, and their labels.
    jobs: Vec<(u32, String)>,
    /// Lines that are not written yet; those that the checksum of the block covers.
    lines: Vec<u8>,
    crc: crc32fast::Hasher,
    runs: u32,
    blocks: u32,
    decisions: u32,
    /// The last block of each case, by label.
    last: HashMap<String, u32>,
    /// The last slot that was begun, and the metrics that it reported first.
    slot: u32,
    reported: i64,
}

impl Spool {
    /// A new spool at `path`, which `copy` gets as well; `jobs` are the places that the cases of the plan have in the whole, and
    /// their labels.
    ///
    /// # Errors
    /// The file exists already, or cannot be written.
    pub fn create(
        path: &Path,
        header: Header,
        jobs: Vec<(u32, String)>,
        copy: Option<Box<dyn Write + Send>>,
    ) -> anyhow::Result<Spool> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(path);
        let file = file.with_context(|| format!("cannot create the spool '{}'", path.display()))?;
        let mut spool = Spool {
            file,
            path: path.to_owned(),
            copy,
            jobs,
            lines: Vec::new(),
            crc: crc32fast::Hasher::new(),
            runs: 0,
            blocks: 0,
            decisions: 0,
            last: HashMap::new(),
            slot: 0,
            reported: 0,
        };
        spool.add(&Line::Spool(Box::new(header)))?;
        spool.flush()?;
        // Only what belongs to blocks is covered by their checksums.
        spool.crc = crc32fast::Hasher::new();
        Ok(spool)
    }

    /// Adds a line for the user.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn warn(&mut self, sentence: &str) -> anyhow::Result<()> {
        self.say(&Line::Warning(Cow::Borrowed(sentence)))
    }

    /// Ends the spool. `reason` says why not all of the parcel was measured, if not. That it has ended is said by a file of the
    /// same name with `.ended` behind it, which appears whole.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(mut self, reason: Option<String>) -> anyhow::Result<()> {
        let ending = Ending {
            blocks: self.blocks,
            decisions: Some(self.decisions),
            reason,
        };
        let text = serde_json::to_string(&ending)?;
        self.say(&Line::Ended(ending))?;
        self.sync()?;
        let beside = self.path.with_extension("jsonl.ending");
        let ended = self.path.with_extension("jsonl.ended");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, &ended))
            .with_context(|| format!("cannot write '{}'", ended.display()))
    }

    /// Adds a block as an earlier attempt closed it; `job` is the place of its case in the plan of this one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn take_over(&mut self, job: usize, block: &Block) -> anyhow::Result<()> {
        for (first, metric) in &block.metrics {
            let metric = Cow::Borrowed(metric);
            let first = *first;
            self.add(&Line::Metric(MetricLine { first, metric }))?;
        }
        for run in &block.runs {
            self.add(&Line::Run(Box::new(run_line(run)?)))?;
            self.runs += 1;
        }
        for failure in &block.failures {
            self.add(&Line::Failure(Cow::Borrowed(failure)))?;
        }
        self.add(&Line::Slots(Cow::Borrowed(&block.slots)))?;
        self.close_block(job, block.block)
    }

    /// A line that belongs to the block that is open.
    fn add(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        let begin = self.lines.len();
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        self.crc.update(&self.lines[begin..]);
        Ok(())
    }

    /// A line by itself.
    fn say(&mut self, line: &Line<'_>) -> anyhow::Result<()> {
        serde_json::to_writer(&mut self.lines, line)?;
        self.lines.push(b'\n');
        self.flush()
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let path = &self.path;
        self.file
            .write_all(&self.lines)
            .with_context(|| format!("cannot write the spool '{}'", path.display()))?;
        if let Some(copy) = &mut self.copy {
            copy.write_all(&self.lines).context("nobody reads along")?;
        }
        self.lines.clear();
        Ok(())
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        self.flush()?;
        if let Some(copy) = &mut self.copy {
            copy.flush().context("nobody reads along")?;
        }
        let path = &self.path;
        let kept = self.file.sync_data();
        kept.with_context(|| format!("cannot keep the spool '{}'", path.display()))
    }

    fn close_block(&mut self, job: usize, block: u32) -> anyhow::Result<()> {
        let (place, label) = &self.jobs[job];
        let end = BlockEnd {
            job: *place,
            block,
            runs: self.runs,
            crc: std::mem::take(&mut self.crc).finalize(),
        };
        self.last.insert(label.clone(), block);
        self.say(&Line::BlockDone(end))?;
        self.runs = 0;
        self.blocks += 1;
        self.sync()
    }
}

impl Observer for Spool {
    fn observe(&mut self, event: &Event<'_>) -> anyhow::Result<()> {
        match event {
            // A slot may be begun again after later ones of its block.
            Event::RunStarted { slot, .. } if *slot > self.slot => {
                self.slot = *slot;
                self.reported = 0;
            }
            Event::Declared(metric) => {
                let first = (i64::from(self.slot) << 16) | self.reported;
                self.reported += 1;
                self.add(&Line::Metric(MetricLine {
                    first,
                    metric: Cow::Borrowed(metric),
                }))?;
            }
            Event::RunFinished(run) => {
                self.add(&Line::Run(Box::new(run_line(run)?)))?;
                self.runs += 1;
            }
            Event::Failed(failure) => self.add(&Line::Failure(Cow::Borrowed(failure)))?,
            Event::SlotsDone(slots) => {
                self.add(&Line::Slots(Cow::Borrowed(slots)))?;
                self.flush()?;
            }
            Event::BlockDone { job, block } => self.close_block(*job, *block)?,
            Event::CaseDecided { label, saved } => {
                if let Some((job, _)) = self.jobs.iter().find(|(_, own)| own == label) {
                    let after = self.last.get(*label).copied();
                    self.say(&Line::Decided(DecidedLine::new(*job, after, *saved)))?;
                    self.decisions += 1;
                }
            }
            Event::Warning(sentence) | Event::Busy(sentence) => self.warn(sentence)?,
            _ => {}
        }
        Ok(())
    }
}
