//! Everything that `load` can be asked for.

use super::{
    ConnectionArgs, ExpectArgs, GeneratorArgs, OutputArgs, PaceArgs, SearchArgs, ServeArgs,
    StoreArgs, TlsArgs, TrafficArgs, parse,
};
use crate::load::wish;
use clap::Args;
use speedwell_analysis::load::gate::Condition;
use speedwell_measure::load::LoadRequest;
use speedwell_model::load_spec::LoadSpec;
use std::path::PathBuf;

/// Send HTTP traffic to a server and measure throughput, latency and the outcome of every request
///
/// Without --rate, every client waits for its answer before it sends the next request. With --rate,
/// requests are sent when they are due, whatever the server does. One request is sent before the
/// load; if it fails, the load is not started.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  speedwell load http://localhost:8080/ -c 50 -t 10s
  speedwell load http://localhost:8080/ --rate 2000 -t 30s
  speedwell load http://localhost:8080/ -c max
  speedwell load http://localhost:8080/ --rate max --fail-on 'p99>200ms'
  speedwell load http://localhost:8080/ --ramp 0-5k:30s --ramp 5k:1m --poisson
  speedwell load http://localhost:3000/users -X POST -d @user.json -H 'Content-Type: application/json'
  speedwell load http://localhost:3000/ --serve 'node server.js' -n 100k")]
pub struct LoadArgs {
    /// Addresses; several are loaded one after the other
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    #[command(flatten)]
    pub pace: PaceArgs,
    #[command(flatten)]
    pub search: SearchArgs,
    #[command(flatten)]
    pub traffic: TrafficArgs,
    #[command(flatten)]
    pub expect: ExpectArgs,
    #[command(flatten)]
    pub connection: ConnectionArgs,
    #[command(flatten)]
    pub tls: TlsArgs,
    #[command(flatten)]
    pub serving: ServeArgs,
    #[command(flatten)]
    pub generator: GeneratorArgs,
    /// Load every address N times, in rounds of shuffled order [default: 1; of several levels of
    /// concurrency 3 times each]
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count, help_heading = "Sampling")]
    pub runs: Option<u32>,
    /// Exit with status 1 if this holds, e.g. 'p99>20ms' or 'errors>0.1%' (repeatable)
    #[arg(long, value_name = "CONDITION", help_heading = "Comparison")]
    pub fail_on: Vec<Condition>,
    /// Write a row for every request to this file (CSV); uses memory for each
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub log_requests: Option<PathBuf>,
    /// Write the histograms to this file (log of HdrHistogram)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub hdr: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    /// Be the tool of an HTTP benchmark: send the load at once, keep nothing, print a line of JSON
    #[arg(long, hide = true)]
    pub benchmarker: bool,
}

impl LoadArgs {
    /// The loads of all addresses.
    pub fn request(&self, seed: u64) -> LoadRequest {
        LoadRequest {
            specs: (0..self.urls.len()).map(|at| self.spec(at)).collect(),
            wish: wish(self),
            runs: self.runs,
            conditions: self.fail_on.clone(),
            seed,
        }
    }

    /// The load of one of the addresses. Several levels or a search have no concurrency or rate of their own.
    pub fn spec(&self, at: usize) -> LoadSpec {
        let servers = &self.serving.serve;
        let LoadArgs {
            pace,
            traffic,
            expect,
            ..
        } = self;
        LoadSpec {
            url: self.urls.get(at).cloned().unwrap_or_default(),
            concurrency: pace.clients(),
            rate: pace.fixed_rate(),
            ramp: pace.ramp.clone(),
            poisson: pace.poisson,
            think: pace.think,
            count: pace.count.map(u64::from),
            time: pace.time,
            until_steady: pace.until_steady,
            warmup: pace.warmup,
            drain: pace.drain,
            request: traffic.method.clone(),
            header: traffic.header.clone(),
            data: traffic.data.clone(),
            body_file: traffic.body_file.clone(),
            user: traffic.user.clone(),
            cookie: traffic.cookie.clone(),
            user_agent: traffic.user_agent.clone(),
            requests: traffic.requests.clone(),
            data_rows: traffic.data_rows.clone(),
            location: traffic.location,
            http10: traffic.http10,
            http2: traffic.http2,
            http3: traffic.http3,
            h2_table_size: traffic.h2_table_size,
            expect_status: expect.expect_status.clone(),
            expect_body: expect.expect_body.clone(),
            expect_length: expect.expect_length,
            no_verify: expect.no_verify,
            serve: servers.get(at).or(servers.first()).cloned(),
            serve_timeout: self.serving.serve_timeout,
            log_requests: self.log_requests.clone(),
            ..self.transport()
        }
    }

    /// The part of it that says what sends requests, over which connections.
    fn transport(&self) -> LoadSpec {
        let LoadArgs {
            connection,
            tls,
            generator,
            ..
        } = self;
        LoadSpec {
            client: generator.client,
            no_keepalive: connection.no_keepalive,
            streams: connection.streams,
            pipeline: connection.pipeline,
            requests_per_connection: connection.requests_per_connection,
            connection_lifetime: connection.connection_lifetime,
            max_connections: connection.max_connections,
            timeout: connection.timeout,
            connect_timeout: connection.connect_timeout,
            first_byte_timeout: connection.first_byte_timeout,
            retry_stale_keepalive: connection.retry_stale_keepalive,
            unix_socket: connection.unix_socket.clone(),
            connect_to: connection.connect_to.clone(),
            resolve: connection.resolve.clone(),
            bind: connection.bind,
            proxy: connection.proxy.clone(),
            insecure: tls.insecure,
            cacert: tls.cacert.clone(),
            cert: tls.cert.clone(),
            key: tls.key.clone(),
            sni: tls.sni.clone(),
            threads: generator.threads,
            clients: generator.clients,
            pin: generator.pin.clone().map(String::from),
            rt: generator.rt,
            busy_poll: generator.busy_poll,
            no_batching: generator.no_batching,
            ..LoadSpec::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use speedwell_load::load::{
        Address, Batching, BodyRule, ConnectionRules, Http, Load, Part, Steady, Timeouts,
    };
    use speedwell_load::pace::{Closed, Pace, Rate, Schedule, Spacing, Stage, Stop, Think};
    use speedwell_runner::load::job;
    use std::net::SocketAddr;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn part(words: &str, part: Part) -> Load {
        let words = format!("x http://127.0.0.1:81/ {words}");
        let line = Line::try_parse_from(words.split_whitespace()).unwrap();
        job(&line.load.spec(0), 7, part).unwrap().load
    }

    fn load(words: &str) -> Load {
        part(words, Part::WHOLE)
    }

    #[test]
    fn ten_clients_wait_for_their_answers_for_ten_seconds() {
        let usual = load("");
        let closed = Closed::new(10, Think::None).unwrap();
        assert_eq!(usual.pace, Pace::Closed(closed));
        assert_eq!(
            (
                usual.connections,
                usual.streams_per_connection,
                usual.threads
            ),
            (10, 1, 1)
        );
        assert_eq!(usual.stop.after_ns, Some(10_000_000_000));
        assert_eq!(usual.rules.timeouts.total_ns, Some(30_000_000_000));
        assert_eq!(usual.drain_ns, 30_000_000_000);
        let address = Address::Internet(SocketAddr::from(([127, 0, 0, 1], 81)));
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
    fn seconds_are_alike_within_a_percentage() {
        let within = |words: &str| load(words).steady.map(|Steady { within }| within);
        assert_eq!(within(""), None);
        assert_eq!(within("--until-steady"), Some(0.05));
        assert_eq!(within("--until-steady=2%"), Some(0.02));
    }

    #[test]
    fn clients_share_connections_where_these_carry_several_requests() {
        let load = load("-c 25 --http2 --streams 10 --h2-table-size 4096");
        assert_eq!((load.connections, load.streams_per_connection), (3, 10));
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
