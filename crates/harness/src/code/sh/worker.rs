//! One worker: executes the command again and again, and notes time and count at every deadline.

use super::order::{Order, complaint};
use super::times::Times;
use speedwell_process::Stopwatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

/// What all workers of a job share.
#[derive(Debug)]
pub struct Work {
    /// What is timed.
    pub order: Order,
    /// What is executed before each execution, untimed.
    pub prepare: Option<Order>,
    /// What the shell alone takes of each execution, in nanoseconds, where one is needed.
    pub shell_ns: Option<u64>,
}

/// How a run is divided.
#[derive(Debug, Clone, Copy)]
pub enum Division {
    /// Windows of time.
    Windows {
        /// Their length.
        interval_ns: u64,
        /// How many.
        samples: u64,
        /// The time before them.
        warmup_ns: u64,
    },
    /// So many executions.
    Executions(u64),
}

/// A run that several workers take part in.
#[derive(Debug)]
pub struct Course {
    /// When all begin.
    pub epoch: Instant,
    /// How it is divided.
    pub division: Division,
    /// Workers that still need points; all go on until there is none.
    pub needing: AtomicUsize,
    /// Nobody is to go on.
    pub over: AtomicBool,
}

/// What one worker has to tell.
#[derive(Debug, Default)]
pub struct Told {
    /// Time since the epoch, without what was not measured, and count at each deadline.
    pub points: Vec<(u64, u64)>,
    /// The times of executions after the warm-up.
    pub times: Times,
    /// Sums over the same executions: user time, kernel time; and the largest resident set.
    pub user_ns: u64,
    /// See above.
    pub system_ns: u64,
    /// See above.
    pub max_rss_bytes: u64,
    /// The greatest lateness of a point.
    pub late_ns: u64,
    /// How a command failed.
    pub failed: Option<String>,
}

/// Takes part in a run, and comes back when all have what they need. `tell` hears of every point.
pub fn take_part(
    work: &Work,
    course: &Course,
    watch: &Arc<Stopwatch>,
    tell: &dyn Fn((u64, u64)),
) -> Told {
    let mut told = Told::default();
    let mut own = Own::new(course.division);
    if let Division::Windows { warmup_ns: 0, .. } = course.division {
        told.points.push((0, 0));
        tell((0, 0));
    }
    while !course.over.load(Ordering::SeqCst) {
        match execute(work, watch, &mut own) {
            Ok(Some(timed)) => {
                let before = told.points.len();
                own.note(timed, course, &mut told);
                told.points[before..].iter().copied().for_each(tell);
            }
            Ok(None) => break,
            Err(why) => {
                told.failed = Some(why);
                break;
            }
        }
        if own.is_served(&told) {
            if !own.is_told {
                own.is_told = true;
                course.needing.fetch_sub(1, Ordering::SeqCst);
            }
            if course.needing.load(Ordering::SeqCst) == 0 {
                break;
            }
        }
    }
    if !own.is_told {
        course.needing.fetch_sub(1, Ordering::SeqCst);
    }
    if let Division::Executions(_) = course.division {
        // The length of the sample is all there is to a point here.
        told.points.push((own.now_ns(course), own.count));
    }
    told
}

/// Where a worker stands.
struct Own {
    division: Division,
    /// Time spent on what is not measured.
    unmeasured_ns: u64,
    count: u64,
    deadline_ns: u64,
    is_told: bool,
}

impl Own {
    fn new(division: Division) -> Own {
        let deadline_ns = match division {
            Division::Windows {
                interval_ns,
                warmup_ns: 0,
                ..
            } => interval_ns,
            Division::Windows { warmup_ns, .. } => warmup_ns,
            Division::Executions(_) => 0,
        };
        Own {
            division,
            unmeasured_ns: 0,
            count: 0,
            deadline_ns,
            is_told: false,
        }
    }

    fn note(&mut self, timed: speedwell_process::Timed, course: &Course, told: &mut Told) {
        self.count += 1;
        let is_warm = !told.points.is_empty() || matches!(self.division, Division::Executions(_));
        if is_warm && !self.is_told {
            told.times.add(timed.wall_ns);
            told.user_ns += timed.user_ns;
            told.system_ns += timed.system_ns;
            told.max_rss_bytes = told.max_rss_bytes.max(timed.max_rss_bytes);
        }
        let Division::Windows {
            interval_ns,
            warmup_ns,
            samples,
        } = self.division
        else {
            return;
        };
        let now_ns = self.now_ns(course);
        if now_ns >= self.deadline_ns && told.points.len() as u64 <= samples {
            told.late_ns = told.late_ns.max(now_ns - self.deadline_ns);
            told.points.push((now_ns, self.count));
            let passed = (now_ns - warmup_ns) / interval_ns;
            self.deadline_ns = warmup_ns + (passed + 1) * interval_ns;
        }
    }

    /// Time since the epoch without what was not measured.
    fn now_ns(&self, course: &Course) -> u64 {
        let elapsed_ns = course.epoch.elapsed().as_nanos() as u64;
        elapsed_ns.saturating_sub(self.unmeasured_ns)
    }

    fn is_served(&self, told: &Told) -> bool {
        match self.division {
            Division::Windows { samples, .. } => told.points.len() as u64 > samples,
            Division::Executions(count) => self.count >= count,
        }
    }
}

/// One execution with what belongs to it; `None` when it was ended on purpose.
fn execute(
    work: &Work,
    watch: &Stopwatch,
    own: &mut Own,
) -> Result<Option<speedwell_process::Timed>, String> {
    if let Some(prepare) = &work.prepare {
        let begin = Instant::now();
        let done = prepare.execute(watch);
        own.unmeasured_ns += begin.elapsed().as_nanos() as u64;
        if watch.is_stopped() {
            return Ok(None);
        }
        done.map_err(|why| format!("the preparation {why}"))?;
    }
    let timed = watch.time(&mut work.order.command());
    if watch.is_stopped() {
        return Ok(None);
    }
    let timed = timed.map_err(|error| error.to_string())?;
    match complaint(timed.ended) {
        Some(why) => Err(format!("the command {why}")),
        None => Ok(Some(timed)),
    }
}
