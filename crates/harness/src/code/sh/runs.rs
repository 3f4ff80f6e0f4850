//! `run`: workers at work in windows of time, or for fixed numbers of executions, and what is reported of them.

use super::super::super::Message;
use super::crew::{Crew, Passed, Place};
use super::session::{News, Session, event};
use super::worker::{Division, Told};
use speedwell_model::Metric;
use std::time::{Duration, Instant};

impl Session {
    /// Answers `run`.
    pub(super) fn run(&mut self, command: &Message) -> std::io::Result<()> {
        let jobs = command.list("jobs");
        if let Some(unknown) = jobs.iter().find(|job| !self.jobs.contains_key(*job)) {
            return self.unknown(command, &unknown.clone());
        }
        for job in &jobs {
            if self.jobs[job].workers.is_empty()
                && let Err(why) = self.employ(job, 1)
            {
                self.fail(command, job, "init_runner", "Command", &why)?;
            }
        }
        let begin = Instant::now();
        let late_ns = match command.get("mode").as_deref() {
            Some("continuous") => self.continuous(command, &jobs)?,
            Some("timed") => self.timed(command, &jobs)?,
            mode => {
                let words = format!("mode '{}' is not offered", mode.unwrap_or_default());
                return self.fail(command, "", "protocol", "Mode", &words);
            }
        };
        let elapsed_ns = begin.elapsed().as_nanos();
        let end = event(command, "end").with_list("jobs", &jobs);
        self.tell(
            end.with("elapsed_ns", elapsed_ns)
                .with("max_late_ns", late_ns),
        )
    }

    fn continuous(&mut self, command: &Message, jobs: &[String]) -> std::io::Result<u64> {
        let number = |key, usual| command.number(key).unwrap_or(usual);
        let division = Division::Windows {
            interval_ns: number("interval_ns", 1_000_000_000).max(1),
            samples: number("samples", 1),
            warmup_ns: number("warmup_ns", 0),
        };
        let told = self.work(command, jobs, division)?;
        let mut late_ns = 0;
        for (job, told) in jobs.iter().zip(told) {
            for (at, told) in told.iter().enumerate() {
                late_ns = late_ns.max(told.late_ns);
                let column = |of: fn(&(u64, u64)) -> u64| -> Vec<String> {
                    told.points
                        .iter()
                        .map(|point| of(point).to_string())
                        .collect()
                };
                let worker = event(command, "worker")
                    .with("job", job)
                    .with("w", at)
                    .with("epoch_ns", 0)
                    .with("batch", 1)
                    .with_list("t_ns", &column(|point| point.0))
                    .with_list("count", &column(|point| point.1))
                    .with_list("q_ps", &told.times.quantiles_ps())
                    .with("batches", told.times.count());
                self.tell(worker)?;
            }
            self.costs(command, job, &told)?;
        }
        Ok(late_ns)
    }

    fn timed(&mut self, command: &Message, jobs: &[String]) -> std::io::Result<u64> {
        let count = command.number::<u64>("loop").unwrap_or(1).max(1);
        let samples = command.number::<usize>("samples").unwrap_or(1);
        let warmup_ns = command.number::<u64>("warmup_ns").unwrap_or(0);
        for job in jobs {
            let own = std::slice::from_ref(job);
            let begin = Instant::now();
            let mut taken: Vec<String> = Vec::new();
            let mut all: Vec<Told> = Vec::new();
            while taken.len() < samples && !self.over {
                let is_warm = begin.elapsed() >= Duration::from_nanos(warmup_ns);
                let told = self
                    .work(command, own, Division::Executions(count))?
                    .remove(0);
                let longest = told
                    .iter()
                    .map(|told| told.points.last().map_or(0, |last| last.0));
                let failed = told.iter().any(|told| told.failed.is_some());
                let stopped = told.iter().any(|told| told.times.count() < count);
                if is_warm && !failed && !stopped {
                    taken.push(longest.max().unwrap_or(0).to_string());
                }
                if is_warm || failed {
                    all.extend(told);
                }
                if failed || stopped {
                    break;
                }
            }
            let mut together = all.iter().map(|told| &told.times);
            let median = together
                .next()
                .map(|times| times.quantiles_ps())
                .unwrap_or_default();
            let batches: u64 = all.iter().map(|told| told.times.count()).sum();
            let timed = event(command, "timed")
                .with("job", job)
                .with_list("ns", &taken)
                .with("loop", count)
                .with("workers", self.jobs[job].workers.len())
                .with_list("q_ps", &median)
                .with("batches", batches);
            if !taken.is_empty() {
                self.tell(timed)?;
            }
            self.costs(command, job, &all)?;
        }
        Ok(0)
    }

    /// What executions cost beside time, and how one failed.
    fn costs(&mut self, command: &Message, job: &str, told: &[Told]) -> std::io::Result<()> {
        let count: u64 = told.iter().map(|told| told.times.count()).sum();
        if count > 0 {
            let sum = |of: fn(&Told) -> u64| told.iter().map(of).sum::<u64>() as f64 / count as f64;
            let rss = told.iter().map(|told| told.max_rss_bytes).max();
            let shell_ns = self.jobs[job].work.shell_ns;
            let shell = shell_ns.map(|ns| (Metric::SHELL_TIME, "ns", ns as f64));
            let metrics = [
                ("user_time", "ns", sum(|told| told.user_ns)),
                ("system_time", "ns", sum(|told| told.system_ns)),
                ("max_rss", "B", rss.unwrap_or(0) as f64),
            ];
            for (name, unit, value) in metrics.into_iter().chain(shell) {
                let metric = event(command, "metric").with("job", job).with("name", name);
                self.tell(
                    metric
                        .with("unit", unit)
                        .with("better", "lower")
                        .with("value", value),
                )?;
            }
        }
        match told.iter().find_map(|told| told.failed.clone()) {
            Some(why) => self.fail(command, job, "run", "Command", &why),
            None => Ok(()),
        }
    }

    /// Has the workers of these jobs work, and listens meanwhile: what each told, job by job.
    fn work(
        &mut self,
        command: &Message,
        jobs: &[String],
        division: Division,
    ) -> std::io::Result<Vec<Vec<Told>>> {
        let streams = command.get("stream").as_deref() == Some("1");
        let mut crew = Crew::start(self.places(jobs), division, &self.teller, streams);
        while crew.is_at_work() {
            match self.news.recv() {
                Ok(News::Back(at, told)) => crew.came_back(at, *told),
                Ok(News::Point(at, point)) => {
                    if let Some(passed) = crew.passed(at, point) {
                        self.tell(sample(command, &jobs[passed.job], &passed))?;
                    }
                }
                Ok(News::Command(other)) if other.verb == "stop" => {
                    crew.halt();
                    self.answer(&other)?;
                }
                Ok(News::Command(other)) => self.waiting.push(other),
                Ok(News::End) | Err(_) => {
                    self.over = true;
                    crew.halt();
                }
            }
        }
        Ok(crew.told(jobs.len()))
    }

    fn places(&self, jobs: &[String]) -> Vec<Place> {
        let mut places = Vec::new();
        for (at, job) in jobs.iter().enumerate() {
            let own = &self.jobs[job];
            places.extend(own.workers.iter().map(|watch| Place {
                job: at,
                work: own.work.clone(),
                watch: watch.clone(),
            }));
        }
        places
    }
}

fn sample(command: &Message, job: &str, passed: &Passed) -> Message {
    event(command, "sample")
        .with("job", job)
        .with("k", passed.k)
        .with("t_ns", passed.t_ns)
        .with("count", passed.count)
        .with("workers", passed.workers)
        .with("late_ns", 0)
}
