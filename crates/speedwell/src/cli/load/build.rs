//! From the words typed to a load that can be carried out.
//!
//! It decides what is usual and what contradicts itself. Every group of options becomes the type of
//! `crates/load` that means the same; a drop-in has other words and fills those types by itself.
//! Start at [`job`].

use super::{kinds, search, target};
use crate::cli::options::{ExpectArgs, LoadArgs, PaceArgs};
use crate::report::Measured;
use crate::runner::load::{LoadJob, Url};
use anyhow::{bail, ensure};
use speedwell_load::load::Steady;
use speedwell_load::load::{
    Batching, BodyRule, ConnectionRules, Http, Load, Part, Success, Timeouts,
};
use speedwell_load::pace::{Closed, Pace, Rate, Schedule, Spacing, Stage, Stop, Think};
use std::time::Duration;

/// Requests under way when nothing else is said, as with wrk and autocannon.
const CONCURRENCY: u32 = 10;

/// How long a load lasts that has no end of its own, as with wrk and autocannon.
pub const TIME: Duration = Duration::from_secs(10);

/// How long a request may take, and how long answers are awaited when there is no such limit.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Connections that an open load may come to have.
const MOST_CONNECTIONS: u32 = 1000;

/// What the words say of one address.
///
/// # Errors
/// Options that contradict each other, files that cannot be read, a host without an address.
pub fn job(args: &LoadArgs, url: &Url, seed: u64, part: Part) -> anyhow::Result<LoadJob> {
    check(args, url)?;
    let lanes = args
        .connection
        .streams
        .or(args.connection.pipeline)
        .unwrap_or(1);
    let pace = pace(&args.pace, seed)?;
    let (connections, most_connections) = connections(args, &pace, lanes)?;
    let rules = rules(args);
    let threads = threads(args, &pace, lanes)?;
    let processes = args.generator.clients.unwrap_or(1);
    let load = Load {
        target: target::target(args, url)?,
        kinds: kinds::kinds(args, url)?,
        http: match (args.traffic.http2, args.traffic.http3) {
            (true, _) => Http::Two {
                table_bytes: args.traffic.h2_table_size.unwrap_or(0),
            },
            (_, true) => Http::Three,
            _ => Http::One,
        },
        stop: stop(&args.pace),
        warmup_ns: args.pace.warmup.map_or(0, ns),
        drain_ns: ns(args
            .pace
            .drain
            .unwrap_or_else(|| limit(args).unwrap_or(TIMEOUT))),
        rules,
        success: success(&args.expect),
        processors: processors(args, part, threads),
        keeps_rows: args.log_requests.is_some(),
        steady: args.pace.until_steady.map(|percent| Steady {
            within: percent / 100.0,
        }),
        pace,
        connections,
        most_connections,
        lanes,
        threads,
        part,
    };
    Ok(LoadJob {
        url: url.clone(),
        load,
        is_realtime: args.generator.rt,
        processes,
    })
}

/// Nanoseconds of a duration, at most 584 years.
fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What clap cannot see: it depends on the address or on several options at once.
fn check(args: &LoadArgs, url: &Url) -> anyhow::Result<()> {
    let is_open = is_open(&args.pace);
    ensure!(
        is_open || !args.pace.poisson,
        "--poisson is for requests that are sent when they are due\nhint: add --rate N"
    );
    ensure!(
        is_open || args.connection.max_connections.is_none(),
        "--max-connections is for requests that are sent when they are due\nhint: add --rate N; \
         without it there is a connection for every client, see --concurrency"
    );
    ensure!(
        !is_open || args.pace.think.is_none(),
        "--think is a pause between an answer and the next request, but with --rate and --ramp \
         requests do not wait for answers"
    );
    ensure!(
        url.is_tls || !args.tls.is_any(),
        "there is no TLS with '{url}', so --insecure, --cacert, --cert and --sni have no meaning\n\
         hint: https://"
    );
    ensure!(
        !args.connection.no_keepalive || !args.connection.retry_stale_keepalive,
        "--retry-stale-keepalive is for connections that are used again, which --no-keepalive excludes"
    );
    Ok(())
}

fn is_open(pace: &PaceArgs) -> bool {
    pace.rate.is_some() || !pace.ramp.is_empty()
}

fn pace(pace: &PaceArgs, seed: u64) -> anyhow::Result<Pace> {
    if !is_open(pace) {
        let concurrency = pace.clients().unwrap_or(CONCURRENCY);
        if let Some(count) = pace.count.filter(|count| *count < concurrency) {
            // A default that does not fit gives way; what was typed does not.
            ensure!(
                pace.clients().is_none(),
                "{concurrency} requests cannot be under way when only {count} are sent\n\
                 hint: -c {count}, or a greater -n"
            );
        }
        let fitting = concurrency.min(pace.count.unwrap_or(concurrency));
        let think = match pace.think {
            None => Think::None,
            Some(pause) if pause.is_random => Think::Exponential {
                mean_ns: ns(pause.length),
                seed,
            },
            Some(pause) => Think::Fixed(ns(pause.length)),
        };
        return Ok(Pace::Closed(Closed::new(fitting, think)?));
    }
    let mut stages = Vec::new();
    for ramp in &pace.ramp {
        stages.push(Stage {
            from: Rate::per_second(ramp.from)?,
            to: Rate::per_second(ramp.to)?,
            duration_ns: ns(ramp.duration),
        });
    }
    if let Some(rate) = pace.fixed_rate() {
        stages.push(Stage::constant(Rate::per_second(rate)?));
    }
    let spacing = match pace.poisson {
        true => Spacing::Poisson { seed },
        false => Spacing::Even,
    };
    Ok(Pace::Open(Schedule::new(stages, spacing)?))
}

/// Ramps have an end of their own unless a rate follows them.
pub fn stop(pace: &PaceArgs) -> Stop {
    let ends_itself = !pace.ramp.is_empty() && pace.rate.is_none();
    let usual = (pace.count.is_none() && !ends_itself).then_some(TIME);
    let time = pace.time.or(usual);
    Stop {
        after_requests: pace.count.map(u64::from),
        after_ns: time.map(ns),
    }
}

/// The same counted from the very start, the warm-up included: what the live view goes by.
pub fn whole_course(pace: &PaceArgs) -> Stop {
    let stop = stop(pace);
    let warmup_ns = pace.warmup.map_or(0, ns);
    Stop {
        after_ns: stop.after_ns.map(|end_ns| end_ns.saturating_add(warmup_ns)),
        ..stop
    }
}

/// Connections at the beginning and at most.
fn connections(args: &LoadArgs, pace: &Pace, lanes: u32) -> anyhow::Result<(u32, u32)> {
    match pace {
        Pace::Closed(closed) => {
            ensure!(
                lanes <= closed.concurrency,
                "{lanes} requests cannot be under way on one connection when {} are under way in \
                 all\nhint: -c {lanes} or more",
                closed.concurrency
            );
            let connections = closed.concurrency.div_ceil(lanes);
            Ok((connections, connections))
        }
        Pace::Open(_) => {
            let most = args.connection.max_connections;
            let first = args.pace.clients().unwrap_or(CONCURRENCY);
            if let (Some(most), Some(first)) = (most, args.pace.clients()) {
                ensure!(
                    first <= most,
                    "{first} connections at the beginning are more than --max-connections {most}"
                );
            }
            let most = most.unwrap_or(MOST_CONNECTIONS.max(first));
            Ok((first.min(most), most))
        }
    }
}

fn threads(args: &LoadArgs, pace: &Pace, lanes: u32) -> anyhow::Result<u32> {
    let threads = args.generator.threads.unwrap_or(1);
    let processes = args.generator.clients.unwrap_or(1);
    if let Pace::Closed(closed) = pace {
        let all = threads.saturating_mul(processes);
        let connections = closed.concurrency.div_ceil(lanes);
        ensure!(
            all <= connections,
            "{connections} connections cannot be divided among {all} threads\n\
             hint: a greater --concurrency, or fewer --threads and --clients"
        );
    }
    Ok(threads)
}

/// Every thread of every generator process gets a processor of its own as long as there are enough.
fn processors(args: &LoadArgs, part: Part, threads: u32) -> Vec<usize> {
    let Some(set) = &args.generator.pin else {
        return Vec::new();
    };
    let mut processors = set.cpus().to_vec();
    let first = (part.index as usize * threads as usize) % processors.len().max(1);
    processors.rotate_left(first);
    processors
}

/// How long a request may take.
fn limit(args: &LoadArgs) -> Option<Duration> {
    let limit = args.connection.timeout.unwrap_or(TIMEOUT);
    (!limit.is_zero()).then_some(limit)
}

fn rules(args: &LoadArgs) -> ConnectionRules {
    let usual = ConnectionRules::default();
    let options = &args.connection;
    let total = limit(args);
    ConnectionRules {
        most_requests: match options.no_keepalive {
            true => Some(1),
            false => options.requests_per_connection.map(u64::from),
        },
        lifetime_ns: options.connection_lifetime.map(ns),
        timeouts: Timeouts {
            connect_ns: options.connect_timeout.or(total).map(ns),
            first_byte_ns: options.first_byte_timeout.map(ns),
            total_ns: total.map(ns),
        },
        retries_stale: options.retry_stale_keepalive,
        batching: match args.generator.no_batching || args.generator.busy_poll {
            true => Batching::Off,
            false => usual.batching,
        },
        busy_poll: args.generator.busy_poll,
    }
}

fn success(expect: &ExpectArgs) -> Success {
    let text = expect.expect_body.as_ref();
    let body = text.map(|text| BodyRule::Contains(text.as_bytes().to_vec()));
    Success {
        statuses: expect.expect_status.clone(),
        body: body.or(expect.expect_length.map(BodyRule::Length)),
    }
}

/// Checks what concerns all addresses together.
///
/// # Errors
/// Options that contradict each other.
pub fn check_all(args: &LoadArgs) -> anyhow::Result<()> {
    let (servers, urls) = (args.serving.serve.len(), args.urls.len());
    if servers > 1 && servers != urls {
        bail!(
            "--serve was given {servers} times for {urls} {}\nhint: give it once for all, or once for \
             each",
            if urls == 1 { "address" } else { "addresses" }
        );
    }
    if !search::is_asked_for(args) {
        args.output.check(Measured::Loads)?;
    }
    search::check(args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::net::SocketAddr;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn part(words: &str, part: Part) -> Load {
        let words = format!("x http://127.0.0.1:81/ {words}");
        let line = Line::try_parse_from(words.split_whitespace()).unwrap();
        let url = Url::parse(&line.load.urls[0]).unwrap();
        job(&line.load, &url, 7, part).unwrap().load
    }

    fn load(words: &str) -> Load {
        part(words, Part::WHOLE)
    }

    #[test]
    fn ten_clients_wait_for_their_answers_for_ten_seconds() {
        let usual = load("");
        let closed = Closed::new(10, Think::None).unwrap();
        assert_eq!(usual.pace, Pace::Closed(closed));
        assert_eq!((usual.connections, usual.lanes, usual.threads), (10, 1, 1));
        assert_eq!(usual.stop.after_ns, Some(10_000_000_000));
        assert_eq!(usual.rules.timeouts.total_ns, Some(30_000_000_000));
        assert_eq!(usual.drain_ns, 30_000_000_000);
        let address =
            speedwell_load::load::Address::Internet(SocketAddr::from(([127, 0, 0, 1], 81)));
        assert_eq!(usual.target.addresses, [address]);
        // Fewer requests than clients: a default gives way.
        assert_eq!(load("-n 3").connections, 3);
    }

    #[test]
    fn a_warm_up_comes_before_the_time_asked_for() {
        let load = load("-t 5s -w 2s --timeout 0 --drain 1s");
        // The generator counts from the end of the warm-up.
        assert_eq!(load.stop.after_ns, Some(5_000_000_000));
        assert_eq!(
            (load.warmup_ns, load.drain_ns),
            (2_000_000_000, 1_000_000_000)
        );
        assert_eq!(load.rules.timeouts, Timeouts::default());
        assert_eq!(super::tests::load("-n 1k").stop.after_ns, None);
    }

    #[test]
    fn ramps_end_by_themselves_and_a_rate_goes_on_after_them() {
        let ramp = |from: f64, to: f64, seconds: u64| Stage {
            from: Rate::per_second(from).unwrap(),
            to: Rate::per_second(to).unwrap(),
            duration_ns: seconds * 1_000_000_000,
        };
        let alone = load("--ramp 0-1k:30s --stage 1k:1m");
        assert_eq!(alone.stop, Stop::default());
        let stages = vec![ramp(0.0, 1000.0, 30), ramp(1000.0, 1000.0, 60)];
        let schedule = Schedule::new(stages, Spacing::Even).unwrap();
        assert_eq!(alone.pace, Pace::Open(schedule));
        assert_eq!((alone.connections, alone.most_connections), (10, 1000));
        let then = load("--ramp 0-1k:30s --rate 500 --poisson -c 2000");
        assert_eq!(then.stop.after_ns, Some(10_000_000_000));
        let stages = vec![
            ramp(0.0, 1000.0, 30),
            Stage::constant(Rate::per_second(500.0).unwrap()),
        ];
        let schedule = Schedule::new(stages, Spacing::Poisson { seed: 7 }).unwrap();
        assert_eq!(then.pace, Pace::Open(schedule));
        assert_eq!((then.connections, then.most_connections), (2000, 2000));
    }

    #[test]
    fn clients_share_connections_where_these_carry_several_requests() {
        let load = load("-c 25 --http2 --streams 10 --h2-table-size 4096");
        assert_eq!((load.connections, load.lanes), (3, 10));
        assert_eq!(load.http, Http::Two { table_bytes: 4096 });
    }

    #[test]
    fn processes_take_turns_with_the_processors() {
        let words = "--threads 2 --clients 2 --pin 0-3";
        let of = |index| part(words, Part { index, of: 2 }).processors;
        assert_eq!((of(0), of(1)), (vec![0, 1, 2, 3], vec![2, 3, 0, 1]));
    }

    #[test]
    fn rules_of_connections_are_those_asked_for() {
        let rules = load("--no-keepalive --busy-poll --first-byte-timeout 1s").rules;
        assert_eq!((rules.most_requests, rules.busy_poll), (Some(1), true));
        assert_eq!(rules.batching, Batching::Off);
        assert_eq!(rules.timeouts.first_byte_ns, Some(1_000_000_000));
        let rules = load("--requests-per-connection 100 --connection-lifetime 1m").rules;
        assert_eq!(rules.most_requests, Some(100));
        assert_eq!(rules.lifetime_ns, Some(60_000_000_000));
        assert_eq!(rules.batching, ConnectionRules::default().batching);
    }

    #[test]
    fn success_is_what_is_expected() {
        let success =
            load("--expect-status 200,304 --expect-status 5xx --expect-length 12").success;
        assert_eq!(success.statuses, [200..=200, 304..=304, 500..=599]);
        assert_eq!(success.body, Some(BodyRule::Length(12)));
    }
}
