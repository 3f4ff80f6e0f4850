//! Benchmarks the history: `cargo bench -p speedwell --bench history [-- SERIES POINTS]`.
//!
//! Searches a store of 500 series with 1000 points each, then again after one new session of all of
//! them; then a series of 2000 points, and the origin of a session in a repository of 100,000
//! commits. Times are wall-clock times, the minimum of several tries, to limit the influence of
//! other work. Results are in `history.md` next to it. Without `--bench` (as under `cargo test
//! --benches`) everything is small and only shows that it runs.

use anyhow::Result;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell::project_history::{HistoryRequest, load_history};
use speedwell_fixtures::{FakeRepo, FakeSession};
use speedwell_machine::environment::find_origin;
use speedwell_model::{
    HistoryPoint, Machine, Metric, MetricDirection, OriginRequest, PointKind, Revision, SeriesKey,
    SessionPoint, SessionPoints, SessionState,
};
use speedwell_store::Store;
use std::path::Path;
use std::time::{Duration, Instant};

/// The branch of the generated line. No repository has a branch of this name.
const LINE: &str = "made for a bench";

fn main() -> Result<()> {
    let is_bench = std::env::args().any(|word| word == "--bench");
    let given: Vec<usize> = std::env::args().filter_map(|word| word.parse().ok()).collect();
    let (series, points, long, commits) = match given[..] {
        [series, points] => (series, points, 2 * points, 100 * points),
        _ if is_bench => (500, 1000, 2000, 100_000),
        _ => (3, 30, 40, 100),
    };
    let folder = tempfile::tempdir()?;

    let mut store = Store::open(&folder.path().join("many.db"))?;
    let mut made = GeneratedHistory::new(series);
    made.sessions(&mut store, 0..points)?;
    let first = min_time_ms(1, || search_history(&mut store))?;
    let again = min_time_ms(3, || search_history(&mut store))?;
    made.sessions(&mut store, points..points + 1)?;
    let grown = min_time_ms(1, || search_history(&mut store))?;
    println!("{series} series of {points} points, first  {:>9.1} ms", first);
    println!("the same once more                 {again:>9.1} ms");
    println!("with one new session               {grown:>9.1} ms");

    let mut store = Store::open(&folder.path().join("long.db"))?;
    GeneratedHistory::new(1).sessions(&mut store, 0..long)?;
    let course = min_time_ms(5, || search_history(&mut store))?;
    println!("one series of {long} points            {course:>9.1} ms");

    if let Some(known) = repository(&folder.path().join("repository"), commits) {
        let asked = min_time_ms(10, || {
            let found = find_origin(known.folder(), &OriginRequest::default());
            anyhow::ensure!(found.is_some_and(|origin| origin.revision == known.commit_id("HEAD")));
            Ok(())
        })?;
        let compared = min_time_ms(10, || {
            known.commit_id("HEAD");
            Ok(())
        })?;
        println!("origin among {commits} commits        {:>9.1} ms", asked - compared);
    }
    Ok(())
}

/// The minimum time of this many tries, in milliseconds.
fn min_time_ms(tries: u32, mut what: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = Duration::MAX;
    for _ in 0..tries {
        let begin = Instant::now();
        what()?;
        least = least.min(begin.elapsed());
    }
    Ok(least.as_secs_f64() * 1e3)
}

/// What `history changes` does before it writes.
fn search_history(store: &mut Store) -> Result<()> {
    let request = HistoryRequest { branch: Some(LINE.to_owned()), ..HistoryRequest::default() };
    std::hint::black_box(load_history(store, &request)?);
    Ok(())
}

/// Sessions whose results occasionally become worse by 5%, at different positions for each series.
struct GeneratedHistory {
    series: usize,
    random: Xoshiro256PlusPlus,
}

impl GeneratedHistory {
    fn new(series: usize) -> GeneratedHistory {
        GeneratedHistory { series, random: Xoshiro256PlusPlus::seed_from_u64(1) }
    }

    /// One session at each of these positions of the line.
    fn sessions(&mut self, store: &mut Store, places: std::ops::Range<usize>) -> Result<()> {
        let line: Vec<Revision> = places.clone().map(revision).collect();
        store.store_line(LINE, u32::try_from(places.start)?, &line)?;
        for (place, revision) in places.zip(line) {
            let mut session = FakeSession::with_fixed_blocks(&["default"], 1).build();
            session.runs.clear();
            session.id = format!("session {place}");
            session.state = SessionState::Imported;
            session.started_unix_ms = place as i64;
            let number = store.insert_session(&session)?;
            let points = (0..self.series).map(|series| self.point(series, place, &revision));
            let points = SessionPoints {
                machine: Machine { id: "bench".into(), name: None, label: None, class: None },
                environment_facts: vec![("kernel".into(), "6.1".into())],
                points: points.collect(),
            };
            store.store_points(number, &points)?;
        }
        Ok(())
    }

    fn point(&mut self, series: usize, place: usize, revision: &Revision) -> SessionPoint {
        let drawn: f64 = (0..4).map(|_| self.random.random::<f64>() - 0.5).sum();
        let steps = (place + 37 * series) / 400;
        let value = 1000.0 * 1.05_f64.powi(steps as i32) * (1.0 + 0.03 * drawn);
        SessionPoint {
            series: SeriesKey {
                case: format!("group/benchmark n={series}"),
                variant: "default".into(),
                metric: Metric::new("throughput", "1/s", MetricDirection::Higher),
            },
            metric_index: 0,
            revision: Some(revision.clone()),
            point: HistoryPoint {
                value,
                interval: Some((0.99 * value, 1.01 * value)),
                runs: 6,
                spread: Some(0.02),
                kind: PointKind::Measured,
                is_dirty: false,
                benchmark_digest: None,
            },
        }
    }
}

fn revision(place: usize) -> Revision {
    // Unlike numbers, commit IDs differ in their first digits.
    let id = (place as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    Revision {
        id: format!("{id:032x}00000000"),
        tree: Some(format!("{:040x}", place + 1_000_000)),
        committed_unix_ms: Some(place as i64),
        ..Revision::default()
    }
}

/// A repository with this many commits; `None`, with a message on stderr, if there is no git.
fn repository(folder: &Path, commits: usize) -> Option<FakeRepo> {
    let history = FakeRepo::init(folder)?;
    let commit = |number: usize| {
        let unix_s = speedwell_fixtures::BEGIN_UNIX_S + number as i64;
        (format!("commit {number}"), unix_s, format!("{number}"))
    };
    let all: Vec<_> = (0..commits).map(commit).collect();
    history.import_commits("counted", &all);
    Some(history)
}
