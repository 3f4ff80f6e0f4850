//! Describes a load for reports and files.

use super::{BatchingMode, BodyRule, HttpVersion, LoadConfig, RequestKind, SuccessRule};
use crate::http1::{ConnectionOption, Http1Version};
use crate::pace::{ArrivalSpacing, FOREVER_NS, PacingModel, ScheduleStage, ThinkTime};
use speedwell_model::load::measurement::{KindFacts, LoadFacts, PaceFacts, RuleFacts, StageFacts};

impl LoadConfig {
    /// Describes the load, which this number of generator processes sends.
    pub fn facts(&self, processes: u32, is_realtime: bool) -> LoadFacts {
        let kinds = self.kinds.kinds();
        let closes = |kind: &RequestKind| kind.connection == ConnectionOption::Close;
        LoadFacts {
            pace: self.pace_facts(),
            requests: self.stop.after_requests,
            time_ns: self.stop.after_ns,
            warmup_ns: self.warmup_ns,
            drain_ns: self.drain_ns,
            kinds: kinds.iter().map(kind_facts).collect(),
            protocol: self.protocol_name().to_owned(),
            h2_table_bytes: match self.http {
                HttpVersion::One | HttpVersion::Three => None,
                HttpVersion::Two { table_bytes } => Some(table_bytes),
            },
            streams_per_connection: self.streams_per_connection,
            keeps_alive: self.rules.max_requests != Some(1) && !kinds.iter().all(closes),
            max_requests_per_connection: self.rules.max_requests,
            connection_lifetime_ns: self.rules.lifetime_ns,
            timeouts: self.rules.timeouts,
            retries_stale: self.rules.retries_stale,
            success: self.success.facts(),
            threads: self.threads,
            processes,
            processors: self.processors.clone(),
            is_realtime,
            busy_polls: self.rules.busy_poll,
            batching_ns: match self.rules.batching {
                BatchingMode::Off => None,
                BatchingMode::Adaptive { max_delay_ns } => Some(max_delay_ns),
            },
        }
    }

    /// Returns the name of the protocol that the requests use.
    pub fn protocol_name(&self) -> &'static str {
        let is_http10 = |kind: &RequestKind| kind.version == Http1Version::Http10;
        match self.http {
            HttpVersion::Three => "HTTP/3",
            HttpVersion::Two { .. } => "HTTP/2",
            HttpVersion::One if self.kinds.kinds().iter().all(is_http10) => "HTTP/1.0",
            HttpVersion::One => "HTTP/1.1",
        }
    }

    fn pace_facts(&self) -> PaceFacts {
        match &self.pace {
            PacingModel::Closed(closed) => {
                let (think_ns, seed) = match closed.think {
                    ThinkTime::None => (0, None),
                    ThinkTime::Fixed(ns) => (ns, None),
                    ThinkTime::Exponential { mean_ns, seed } => (mean_ns, Some(seed)),
                };
                PaceFacts::Closed {
                    concurrency: closed.concurrency,
                    think_ns,
                    thinks_at_random: seed.is_some(),
                    seed: seed.unwrap_or(0),
                }
            }
            PacingModel::Open(schedule) => {
                let seed = match schedule.spacing() {
                    ArrivalSpacing::Even => None,
                    ArrivalSpacing::Poisson { seed } => Some(seed),
                };
                PaceFacts::Open {
                    stages: schedule.stages().iter().map(stage_facts).collect(),
                    is_poisson: seed.is_some(),
                    seed: seed.unwrap_or(0),
                    connections: self.connections,
                    max_connections: self.max_connections,
                }
            }
        }
    }
}

impl SuccessRule {
    fn facts(&self) -> RuleFacts {
        let statuses = self.statuses.iter();
        let mut rule = RuleFacts {
            statuses: statuses.map(|range| (*range.start(), *range.end())).collect(),
            ..RuleFacts::default()
        };
        match &self.body {
            None => {}
            Some(BodyRule::Length(bytes)) => rule.body_bytes = Some(*bytes),
            Some(BodyRule::Contains(text)) => {
                rule.body_contains = Some(String::from_utf8_lossy(text).into_owned());
            }
        }
        rule
    }
}

fn kind_facts(kind: &RequestKind) -> KindFacts {
    KindFacts {
        name: kind.name.clone(),
        weight: kind.weight,
        method: kind.method.clone(),
        path: kind.target.clone(),
        body_bytes: kind.body.as_ref().map(|body| body.len() as u64),
    }
}

fn stage_facts(stage: &ScheduleStage) -> StageFacts {
    StageFacts {
        from_per_s: stage.from.requests_per_s(),
        to_per_s: stage.to.requests_per_s(),
        duration_ns: (stage.duration_ns != FOREVER_NS).then_some(stage.duration_ns),
    }
}
