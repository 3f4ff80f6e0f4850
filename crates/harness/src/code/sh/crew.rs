//! The workers of one run: started together, listened to, ended together.

use super::session::News;
use super::worker::{Course, Division, Told, Work, take_part};
use speedwell_process::Stopwatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// A worker's place.
pub struct Place {
    /// Which of the run's jobs it works for.
    pub job: usize,
    /// What it does.
    pub work: Arc<Work>,
    /// Its processes.
    pub watch: Arc<Stopwatch>,
}

/// What all workers of a job had done when the last of them passed a deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// Which of the run's jobs.
    pub job: usize,
    /// Which deadline, from 0.
    pub k: usize,
    /// When the last one passed it.
    pub t_ns: u64,
    /// Executions of all.
    pub count: u64,
    /// How many there are.
    pub workers: usize,
}

/// Workers under way.
pub struct Crew {
    places: Vec<Place>,
    course: Arc<Course>,
    points: Vec<Vec<(u64, u64)>>,
    passed: Vec<usize>,
    back: Vec<Option<Told>>,
}

impl Crew {
    /// Starts a thread for every place. `teller` hears when one comes back, and of every point if it `streams`.
    pub fn start(
        places: Vec<Place>,
        division: Division,
        teller: &Sender<News>,
        streams: bool,
    ) -> Crew {
        let course = Arc::new(Course {
            epoch: Instant::now(),
            division,
            needing: AtomicUsize::new(places.len()),
            over: AtomicBool::new(false),
        });
        for (at, place) in places.iter().enumerate() {
            place.watch.go_on();
            let (work, watch) = (place.work.clone(), place.watch.clone());
            let (course, teller) = (course.clone(), teller.clone());
            std::thread::spawn(move || {
                // Without a listener the process is about to end.
                let tell = |point| {
                    if streams {
                        let _ = teller.send(News::Point(at, point));
                    }
                };
                let told = take_part(&work, &course, &watch, &tell);
                let _ = teller.send(News::Back(at, Box::new(told)));
            });
        }
        Crew {
            points: places.iter().map(|_| Vec::new()).collect(),
            back: places.iter().map(|_| None).collect(),
            passed: vec![0; places.iter().map(|place| place.job + 1).max().unwrap_or(0)],
            places,
            course,
        }
    }

    /// Whether somebody is still at work.
    pub fn is_at_work(&self) -> bool {
        self.back.iter().any(Option::is_none)
    }

    /// A worker has come back.
    pub fn came_back(&mut self, at: usize, told: Told) {
        self.back[at] = Some(told);
    }

    /// A worker has passed a deadline; the answer is what all of its job did, if it was the last one to.
    pub fn passed(&mut self, at: usize, point: (u64, u64)) -> Option<Passed> {
        self.points[at].push(point);
        let job = self.places[at].job;
        let k = self.passed[job];
        let places = self.places.iter().zip(&self.points);
        let own = places.filter(|(place, _)| place.job == job);
        let reached: Option<Vec<(u64, u64)>> =
            own.map(|(_, points)| points.get(k).copied()).collect();
        let reached = reached?;
        self.passed[job] += 1;
        Some(Passed {
            job,
            k,
            t_ns: reached.iter().map(|point| point.0).max().unwrap_or(0),
            count: reached.iter().map(|point| point.1).sum(),
            workers: reached.len(),
        })
    }

    /// Ends what is under way.
    pub fn halt(&self) {
        self.course.over.store(true, Ordering::SeqCst);
        self.places.iter().for_each(|place| place.watch.stop());
    }

    /// What each worker told, job by job.
    pub fn told(self, jobs: usize) -> Vec<Vec<Told>> {
        let mut told: Vec<Vec<Told>> = (0..jobs).map(|_| Vec::new()).collect();
        for (place, own) in self.places.iter().zip(self.back) {
            told[place.job].push(own.unwrap_or_default());
        }
        told
    }
}
