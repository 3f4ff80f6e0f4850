//! Hand-made loads with figures that can be computed on paper.

use speedwell_model::load::latency::{
    ConnectionLag, IntendedStart, LoadLatency, RequestOutcome, RequestTimes, RequestTotals,
};
use speedwell_model::load::measurement::{
    KindFacts, LoadFacts, LoadMeasurement, LoadRun, LoadTimeline, PaceFacts, ProbeFacts,
    RequestTimeouts, RuleFacts, StageFacts, ThreadReport, TimelineTick,
};
use speedwell_model::load::outcomes::ErrorClass;

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

/// A load under construction.
#[derive(Clone)]
pub struct MadeLoad {
    pub run: LoadRun,
}

impl MadeLoad {
    /// A closed load with this many clients, for one second.
    pub fn closed(concurrency: u32) -> MadeLoad {
        let pace = PaceFacts::Closed { concurrency, think_ns: 0, thinks_at_random: false, seed: 0 };
        MadeLoad::from_pace(pace, true)
    }

    /// An open load at a steady rate, for one second.
    pub fn open(per_s: f64) -> MadeLoad {
        let stage = StageFacts { from_per_s: per_s, to_per_s: per_s, duration_ns: None };
        let pace = PaceFacts::Open {
            stages: vec![stage],
            is_poisson: false,
            seed: 0,
            connections: 8,
            max_connections: 64,
        };
        MadeLoad::from_pace(pace, false)
    }

    fn from_pace(pace: PaceFacts, is_closed: bool) -> MadeLoad {
        let measured = LoadMeasurement {
            began_epoch_ms: 1_769_868_300_000,
            elapsed_ns: S,
            ok_in_time: 0,
            in_flight_ns: None,
            totals: RequestTotals::new(is_closed),
            warmup: RequestTotals::new(is_closed),
            timeline: LoadTimeline { interval_ns: 100 * MS, warmup: 0, ticks: Vec::new() },
            threads: vec![ThreadReport {
                elapsed_ns: S,
                cpu_ns: S / 4,
                system_calls: 2_200,
                loops: 500,
                ..ThreadReport::default()
            }],
            max_connections: 8,
            reached_max_connections: false,
            is_interrupted: false,
            rows: Vec::new(),
        };
        MadeLoad {
            run: LoadRun {
                label: "http://127.0.0.1:8080/hello".into(),
                url: "http://127.0.0.1:8080/hello".into(),
                round: 0,
                slot: 0,
                requested: requested_load(pace),
                probe: Some(probe()),
                measured,
                server: None,
                parts: Vec::new(),
                is_partial: false,
                warnings: Vec::new(),
            },
        }
    }

    /// Adds this many successful responses, which take `step_ns`, twice that, and so on.
    pub fn with_successes(mut self, number: u64, step_ns: u64) -> MadeLoad {
        for at in 1..=number {
            self.add_request(RequestOutcome::Ok, at * step_ns, 0);
        }
        self
    }

    /// Adds this many requests with this outcome, all after the same time.
    pub fn with_outcomes(
        mut self,
        outcome: RequestOutcome,
        number: u64,
        after_ns: u64,
    ) -> MadeLoad {
        for _ in 0..number {
            self.add_request(outcome, after_ns, 0);
        }
        self
    }

    /// Adds one request; in an open load it is sent `late_ns` after it was due, on a free
    /// connection.
    pub fn add_request(&mut self, outcome: RequestOutcome, service_ns: u64, late_ns: u64) {
        let LoadMeasurement { totals, ok_in_time, .. } = &mut self.run.measured;
        let counts = &mut totals.outcomes;
        counts.count_attempt();
        match outcome {
            RequestOutcome::Ok => {
                counts.count_ok(200);
                *ok_in_time += 1;
                totals.responses.count_response(14, true, false);
            }
            RequestOutcome::Failed(ErrorClass::Status) => {
                counts.count_failed_response(ErrorClass::Status, 500)
            }
            RequestOutcome::Failed(class) => counts.count_failed(class),
            RequestOutcome::Cancelled => counts.cancelled += 1,
            RequestOutcome::Unsent => counts.unsent += 1,
            RequestOutcome::InFlight => {}
        }
        if outcome == RequestOutcome::Unsent {
            if let LoadLatency::Open(latency) = &mut totals.latency {
                latency.record_unsent(IntendedStart::default(), late_ns);
            }
            return;
        }
        counts.connections.count_send(counts.attempts() > 8);
        counts.bytes.sent += 60;
        counts.bytes.received += 185;
        counts.bytes.body += 14;
        let freed = ConnectionLag { since_ns: 0, own_lag_ns: 0 };
        let mut intended = IntendedStart::default();
        if let LoadLatency::Open(latency) = &mut totals.latency {
            intended.own_lag_ns = latency.record_sent(0, freed, late_ns);
        }
        let times = RequestTimes {
            sent_ns: late_ns,
            first_byte_ns: outcome.has_ended().then_some(late_ns + service_ns / 2),
            end_ns: late_ns + service_ns,
        };
        totals.latency.record(outcome, intended, times);
    }

    /// Adds established connections, one for each time.
    pub fn with_connections(mut self, times_ns: &[u64]) -> MadeLoad {
        let totals = &mut self.run.measured.totals;
        for ns in times_ns {
            totals.outcomes.connections.tried += 1;
            totals.outcomes.connections.opened += 1;
            totals.latency.record_connect(*ns);
        }
        self
    }

    /// Adds a time series: successful responses in each tenth of a second, the first `warmup` of
    /// them in the warm-up.
    pub fn with_ticks(mut self, warmup: usize, ok: &[u64]) -> MadeLoad {
        let tick = |ok: &u64| TimelineTick {
            ok: *ok,
            errors: 0,
            p50_ns: Some(500 * US),
            p99_ns: Some(990 * US),
            max_ns: Some(MS),
        };
        let timeline = &mut self.run.measured.timeline;
        timeline.warmup = warmup;
        timeline.ticks = ok.iter().map(tick).collect();
        self.run.measured.elapsed_ns = (ok.len() - warmup) as u64 * timeline.interval_ns;
        self
    }

    /// Applies any other change.
    pub fn with_change(mut self, change: impl FnOnce(&mut LoadRun)) -> MadeLoad {
        change(&mut self.run);
        self
    }
}

fn requested_load(pace: PaceFacts) -> LoadFacts {
    LoadFacts {
        pace,
        requests: None,
        time_ns: Some(S),
        warmup_ns: 0,
        drain_ns: 5 * S,
        kinds: vec![KindFacts {
            name: "GET /hello".into(),
            weight: 1,
            method: "GET".into(),
            path: "/hello".into(),
            body_bytes: None,
        }],
        protocol: "HTTP/1.1".into(),
        h2_table_bytes: None,
        streams_per_connection: 1,
        keeps_alive: true,
        max_requests_per_connection: None,
        connection_lifetime_ns: None,
        timeouts: RequestTimeouts::default(),
        retries_stale: false,
        success: RuleFacts::default(),
        threads: 1,
        processes: 1,
        processors: Vec::new(),
        is_realtime: false,
        busy_polls: false,
        batching_ns: Some(100 * US),
    }
}

fn probe() -> ProbeFacts {
    ProbeFacts {
        address: "127.0.0.1:8080".into(),
        tls: None,
        status: 200,
        server: Some("nginx/1.22.1".into()),
        content_type: Some("text/plain".into()),
        body_bytes: 14,
        wire_bytes: 185,
        is_reusable: true,
        connect_ns: 80 * US,
        service_ns: 120 * US,
        redirected_from: Vec::new(),
    }
}
