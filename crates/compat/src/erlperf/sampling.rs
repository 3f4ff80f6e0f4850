//! Takes samples of codes, in the order that was asked for, until there are enough of them.
//!
//! Decides who is measured next; what one visit of a code is, is in `machines.rs`. Start at [`sample`].

use super::arguments::{Order, Request, Sample};
use super::machines::Machines;
use super::statistics::variation;
use super::table::{Figures, Unit};
use speedwell_model::{Length, Samples};
use speedwell_model::{Measured, Window};
use speedwell_process::interrupted;
use std::io::{self, Write};
use std::time::Instant;

/// What was measured of one code.
#[derive(Debug, Clone, Default)]
pub struct Taken {
    /// Every sample, in order.
    pub windows: Vec<Window>,
    /// Workers that took them.
    pub workers: u32,
    /// What each visit gave, for what single batches tell.
    pub visits: Vec<Measured>,
}

/// Samples of all codes, and whether they are as steady as was asked for.
pub struct Sampled {
    /// By code.
    pub taken: Vec<Taken>,
    /// False if waiting for steady samples was given up.
    pub is_steady: bool,
}

/// Takes the samples that `request` asks for of these codes.
///
/// # Errors
/// `out` is closed.
pub fn sample(
    machines: &mut Machines,
    jobs: &[usize],
    request: &Request,
    out: &mut dyn Write,
) -> io::Result<Sampled> {
    let mut taken = vec![Taken::default(); machines.jobs.len()];
    let begin = Instant::now();
    let together = jobs.len() < 2 || request.order == Order::Parallel;
    let mut round = 0;
    if together {
        visit(
            machines,
            jobs,
            request.samples,
            true,
            request,
            &mut taken,
            out,
        )?;
        round = request.samples;
    }
    loop {
        let is_steady = round >= request.samples && is_steady(machines, &taken, request);
        let until = request.until;
        let is_late = until.is_some_and(|until| {
            round >= until.most_samples
                || until.most_time.is_some_and(|most| begin.elapsed() >= most)
        });
        let none_left = !jobs.iter().any(|job| machines.jobs[*job].is_sound());
        if is_steady || interrupted() || none_left || round >= request.samples && is_late {
            return Ok(Sampled { taken, is_steady });
        }
        let mut turn = jobs.to_vec();
        // What changes slowly from the first to the last visit then falls on all alike.
        if request.order == Order::Blocks && round % 2 == 1 {
            turn.reverse();
        }
        let visits = if together {
            vec![turn]
        } else {
            turn.into_iter().map(|job| vec![job]).collect()
        };
        for own in visits {
            if !interrupted() {
                visit(machines, &own, 1, round == 0, request, &mut taken, out)?;
            }
        }
        round += 1;
    }
}

/// Has codes measured at the same time.
fn visit(
    machines: &mut Machines,
    jobs: &[usize],
    count: u32,
    is_first: bool,
    request: &Request,
    taken: &mut [Taken],
    out: &mut dyn Write,
) -> io::Result<()> {
    let samples = samples(request, count, is_first);
    for (job, measured) in machines.run(jobs, &samples, out)? {
        let own = &mut taken[job];
        own.workers = measured.workers;
        own.windows.extend(&measured.windows);
        own.visits.push(measured);
    }
    Ok(())
}

fn samples(request: &Request, count: u32, is_first: bool) -> Samples {
    match request.sample {
        Sample::Window(length) => {
            let ns = length.as_nanos() as u64;
            Samples {
                count,
                length: Length::TimeNs(ns),
                warmup_ns: if is_first {
                    ns * u64::from(request.warmup)
                } else {
                    0
                },
            }
        }
        Sample::Loop(iterations) => Samples {
            count,
            length: Length::Iterations(iterations),
            warmup_ns: 0,
        },
    }
}

/// Whether the last samples of every code vary by no more than was asked for.
fn is_steady(machines: &Machines, taken: &[Taken], request: &Request) -> bool {
    let Some(until) = request.until else {
        return true;
    };
    let sound = taken.iter().zip(&machines.jobs);
    let mut sound = sound.filter(|(_, job)| job.is_sound());
    sound.all(|(own, _)| {
        let last = own.last(request.samples);
        let rates: Vec<f64> = last.iter().map(|window| window.per_s).collect();
        // A single sample cannot vary.
        rates.len() < 2 || variation(&rates).is_some_and(|share| share <= until.variation)
    })
}

impl Taken {
    /// The last so many samples: those before them were not steady.
    pub fn last(&self, count: u32) -> &[Window] {
        let from = self.windows.len().saturating_sub(count as usize);
        &self.windows[from..]
    }

    /// Figures of the last samples, less what the loop itself costs if that is to be left out.
    pub fn figures(&self, request: &Request, empty_ns: Option<f64>) -> Option<Figures> {
        let windows = self.last(request.samples);
        let empty_ns = empty_ns.filter(|_| request.subtracts_empty).unwrap_or(0.0);
        let workers = f64::from(self.workers);
        // Nothing is quicker than nothing, whatever noise says.
        let net = |ns: f64| (ns - empty_ns).max(MINUTE_NS);
        let samples = windows.iter().map(|window| {
            let each_ns = workers * 1e9 / window.per_s;
            match request.sample {
                Sample::Window(length) => workers * length.as_nanos() as f64 / net(each_ns),
                Sample::Loop(count) => net(window.elapsed_ns / count as f64) * count as f64,
            }
        });
        let iterations: f64 = windows.iter().map(|window| window.iterations).sum();
        let elapsed_ns: f64 = windows.iter().map(|window| window.elapsed_ns).sum();
        // Nothing completed is a time without end.
        let iteration_ns = net(workers * elapsed_ns / iterations);
        (!windows.is_empty()).then(|| Figures {
            samples: samples.collect(),
            iteration_ns,
        })
    }
}

/// A time that no processor can tell from none, in nanoseconds.
const MINUTE_NS: f64 = 1e-3;

/// What samples of a request are.
pub fn unit(request: &Request) -> Unit {
    match request.sample {
        Sample::Window(_) => Unit::Iterations,
        Sample::Loop(_) => Unit::Nanoseconds,
    }
}
