//! Defines the options of `load`.

use super::{
    Concurrency, FleetGeneratorArgs, OriginArgs, OutputArgs, RateChoice, SearchArgs, StoreArgs,
    parse,
};
use crate::load::rounds::{LoadMode, LoadRequest};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use speedwell_analysis::load::gate::LoadCondition;
use speedwell_machine::process::CpuSet;
use speedwell_model::load::spec::{LoadClient, LoadSpec, RateStage, ThinkPause, parse_statuses};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Load a server with HTTP requests and measure throughput, latency and errors
///
/// Without --rate, every client waits for a response before it sends the next request. With --rate, requests are sent
/// on schedule, whatever the server does. A test request is sent before the load; if it fails, the load does not start.
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
    /// URLs to load; several are loaded one after the other
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
    #[command(flatten)]
    pub fleet: FleetGeneratorArgs,
    /// Load every URL N times [default: 1; with several levels: 3]
    ///
    /// URLs and concurrency levels are loaded in rounds, each in shuffled order.
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count, help_heading = "Sampling")]
    pub runs: Option<u32>,
    /// Exit with status 1 if e.g. p99>20ms or errors>1% (repeatable)
    #[arg(long, value_name = "CONDITION", help_heading = "Comparison")]
    pub fail_on: Vec<LoadCondition>,
    /// Write every request to this CSV file, one row each
    ///
    /// Rows are kept in memory until the load ends.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub log_requests: Option<PathBuf>,
    /// Write the histograms to this file (HdrHistogram log)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub hdr: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub store: StoreArgs,
    #[command(flatten)]
    pub origin: OriginArgs,
    /// Show live results in a browser
    ///
    /// The dashboard is served until you press Enter, or until a minute after the last viewer leaves.
    #[arg(long, conflicts_with_all = ["no_save", "client"], help_heading = "Output")]
    pub dashboard: bool,
    /// Act as the tool of an HTTP benchmark: send the load, store nothing, print one line of JSON
    #[arg(long, hide = true)]
    pub benchmarker: bool,
}

impl LoadArgs {
    /// Builds the request for the loads of all URLs.
    ///
    /// # Errors
    /// Fails if the machines to send from are unknown.
    pub fn load_request(&self, seed: u64) -> anyhow::Result<LoadRequest> {
        Ok(LoadRequest {
            generators: self.fleet.fleet_request()?,
            specs: (0..self.urls.len()).map(|index| self.load_spec(index)).collect(),
            mode: load_mode(self),
            runs: self.runs,
            conditions: self.fail_on.clone(),
            seed,
        })
    }

    /// Returns the load of the URL with this index. With several levels or a search, the
    /// concurrency or rate of each load is set later.
    pub fn load_spec(&self, index: usize) -> LoadSpec {
        let servers = &self.serving.serve;
        let LoadArgs { pace, traffic, expect, .. } = self;
        LoadSpec {
            url: self.urls.get(index).cloned().unwrap_or_default(),
            concurrency: pace.fixed_concurrency(),
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
            serve: servers.get(index).or(servers.first()).cloned(),
            serve_timeout: self.serving.serve_timeout,
            log_requests: self.log_requests.clone(),
            ..self.transport_spec()
        }
    }

    /// Returns a load with only the settings for connections and the generator.
    fn transport_spec(&self) -> LoadSpec {
        let LoadArgs { connection, tls, generator, .. } = self;
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

/// Connection options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connections")]
pub struct ConnectionArgs {
    /// Open a new connection for every request
    #[arg(long, conflicts_with_all = ["requests_per_connection", "pipeline", "streams"])]
    pub no_keepalive: bool,
    /// Concurrent requests per connection [default: 1]
    ///
    /// Needs HTTP/2 or HTTP/3.
    #[arg(long, value_name = "N", value_parser = parse::count, requires = "multiplexed")]
    pub streams: Option<u32>,
    /// Pipelined requests per HTTP/1.1 connection [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = parse::count,
        conflicts_with_all = ["multiplexed", "http10"]
    )]
    pub pipeline: Option<u32>,
    /// Close connections after N requests
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub requests_per_connection: Option<u32>,
    /// Close connections after this time
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub connection_lifetime: Option<Duration>,
    /// With --rate: maximum number of connections [default: 1000]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub max_connections: Option<u32>,
    /// Time limit per request; 0 for none [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub timeout: Option<Duration>,
    /// Time limit to connect, including TLS [default: as --timeout]
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub connect_timeout: Option<Duration>,
    /// Time limit until the first byte of a response
    #[arg(long, value_name = "DUR", value_parser = parse::duration)]
    pub first_byte_timeout: Option<Duration>,
    /// Retry a request if the server just closed its idle connection
    #[arg(long)]
    pub retry_stale_keepalive: bool,
    /// Connect to this Unix domain socket
    #[arg(long, value_name = "PATH", conflicts_with_all = ["connect_to", "resolve", "bind", "proxy"])]
    pub unix_socket: Option<PathBuf>,
    /// Connect to HOST2:PORT2 instead of HOST1:PORT1 (repeatable)
    ///
    /// Any part may be empty.
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2")]
    pub connect_to: Vec<String>,
    /// Use these addresses for a host instead of DNS (repeatable)
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,ADDRESS...]")]
    pub resolve: Vec<String>,
    /// Connect from this local address
    #[arg(long, alias = "interface", value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// Send requests through this HTTP proxy, without TLS
    #[arg(long, value_name = "URL")]
    pub proxy: Option<String>,
}

/// Options that define a successful response.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Success")]
pub struct ExpectArgs {
    /// Status codes that count as success, e.g. 200,304 [default: 2xx]
    #[arg(long, value_name = "CODES", value_delimiter = ',', value_parser = parse_statuses)]
    pub expect_status: Vec<RangeInclusive<u16>>,
    /// Text that every body must contain
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_length")]
    pub expect_body: Option<String>,
    /// Length in bytes that every body must have
    #[arg(long, value_name = "BYTES")]
    pub expect_length: Option<u64>,
    /// Do not send a test request before the load
    #[arg(long, conflicts_with = "location")]
    pub no_verify: bool,
}

/// Generator options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Generator")]
pub struct GeneratorArgs {
    /// Threads per generator process [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub threads: Option<u32>,
    /// Generator processes whose results are added up [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub clients: Option<u32>,
    /// Pin the generator's threads to these CPUs, e.g. 1 or 0,2-3
    ///
    /// CPUs are assigned to the threads in turn.
    #[arg(long, value_name = "CPUS")]
    pub pin: Option<CpuSet>,
    /// Run the generator with real-time priority (SCHED_FIFO)
    ///
    /// This needs permission.
    #[arg(long)]
    pub rt: bool,
    /// Busy-wait instead of sleeping, for more precise timing
    ///
    /// Each thread occupies a whole processor.
    #[arg(long)]
    pub busy_poll: bool,
    /// Read each response immediately, without waiting for others
    #[arg(long)]
    pub no_batching: bool,
    /// Load generator: the built-in one or another tool
    ///
    /// The output of the other tool is parsed.
    #[arg(long, value_name = "TOOL", default_value = "builtin", value_parser = clients())]
    pub client: LoadClient,
}

fn clients() -> impl TypedValueParser<Value = LoadClient> {
    let names = LoadClient::NAMES.map(|(name, _)| name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<LoadClient>())
}

/// Pace options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Pace")]
pub struct PaceArgs {
    /// Number of concurrent requests; 'max' finds the best [default: 10]
    ///
    /// Several numbers are measured in turn. 'max' finds the number beyond which throughput stops growing. With --rate,
    /// this is the initial number of connections.
    #[arg(short = 'c', long, alias = "connections", value_name = "N|max")]
    pub concurrency: Option<Concurrency>,
    /// Stop after N requests, not counting the warm-up
    #[arg(short = 'n', long, value_name = "N", value_parser = parse::count)]
    pub count: Option<u32>,
    /// Stop after this time [default: 10s without --count]
    ///
    /// The time starts after the warm-up.
    #[arg(short = 't', long, alias = "duration", value_name = "DUR", value_parser = parse::duration)]
    pub time: Option<Duration>,
    /// Requests per second, e.g. 500, 10k, 90/m; 'max' finds the highest
    ///
    /// Requests are sent on schedule, whatever the server does. 'max' finds the highest rate that the server sustains.
    #[arg(long, alias = "rps", value_name = "N[/s]|max")]
    pub rate: Option<RateChoice>,
    /// Ramp the rate, e.g. 0-1000:30s, or hold it, e.g. 1000:1m
    ///
    /// Repeatable: ramps follow one another, then --rate applies, if given.
    #[arg(long, alias = "stage", value_name = "[FROM-]TO:DUR")]
    pub ramp: Vec<RateStage>,
    /// Send at random times instead of evenly, as independent users do
    #[arg(long)]
    pub poisson: bool,
    /// Pause of a client between a response and its next request
    ///
    /// 'DUR exp' draws the pauses from an exponential distribution.
    #[arg(long, value_name = "DUR[ exp]")]
    pub think: Option<ThinkPause>,
    /// Stop early, once throughput and latency are steady [default: 5]
    ///
    /// They are steady when throughput and median latency in two consecutive seconds differ by at most PCT.
    #[arg(
        long,
        value_name = "PCT",
        value_parser = parse::percentage,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        conflicts_with = "clients"
    )]
    pub until_steady: Option<f64>,
    /// Warm-up time, excluded from the results
    #[arg(short = 'w', long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub warmup: Option<Duration>,
    /// How long to wait for the last responses [default: as --timeout]
    #[arg(long, value_name = "DUR", value_parser = parse::duration_or_none)]
    pub drain: Option<Duration>,
    /// Seed for all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl PaceArgs {
    /// Returns the given concurrency, or `None` for the default and for a search. Of several
    /// levels, returns the first; each load gets its own level later.
    pub fn fixed_concurrency(&self) -> Option<u32> {
        match &self.concurrency {
            Some(Concurrency::Levels(levels)) => levels.first().copied(),
            Some(Concurrency::Max) | None => None,
        }
    }

    /// Returns the given rate, or `None` for the default and for a search.
    pub fn fixed_rate(&self) -> Option<f64> {
        match self.rate {
            Some(RateChoice::PerSecond(rate)) => Some(rate),
            Some(RateChoice::Max) | None => None,
        }
    }
}

/// Server options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Server")]
pub struct ServeArgs {
    /// Start this server before each load and stop it afterwards
    ///
    /// The command must stay in the foreground. Give it once for all URLs, or once for each.
    #[arg(long, value_name = "COMMAND")]
    pub serve: Vec<String>,
    /// Time limit for the server to accept connections [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = parse::duration, requires = "serve")]
    pub serve_timeout: Option<Duration>,
}

/// TLS options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// Accept any certificate
    #[arg(short = 'k', long)]
    pub insecure: bool,
    /// Trust only the certificate authorities in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM) [default: in --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Server name for the TLS handshake [default: the host]
    ///
    /// The certificate must match this name.
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
}

/// Traffic options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Traffic")]
pub struct TrafficArgs {
    /// Request method [default: GET; POST with a body]
    #[arg(short = 'X', long = "request", alias = "method", value_name = "METHOD")]
    pub method: Option<String>,
    /// Header field (repeatable)
    ///
    /// 'Name:' removes a default header field, 'Name;' sends an empty one.
    #[arg(short = 'H', long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// Request body, sent as a form; '@FILE' reads it from a file
    #[arg(short = 'd', long, value_name = "TEXT|@FILE", conflicts_with = "body_file")]
    pub data: Option<String>,
    /// Request body from a file, without Content-Type
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// User name and password for Basic authentication
    #[arg(short = 'u', long, value_name = "NAME:PASSWORD")]
    pub user: Option<String>,
    /// Cookie (repeatable)
    #[arg(short = 'b', long, value_name = "NAME=VALUE")]
    pub cookie: Vec<String>,
    /// User-Agent header [default: speedwell/VERSION]
    #[arg(short = 'A', long, value_name = "TEXT")]
    pub user_agent: Option<String>,
    /// TOML file with several kinds of requests and their weights
    ///
    /// The path of a request in the file replaces the path of the URL.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["method", "data", "body_file", "location"]
    )]
    pub requests: Option<PathBuf>,
    /// Table (.csv or .jsonl) whose rows replace '{{column}}'
    ///
    /// Paths, header fields and bodies may contain such placeholders.
    #[arg(long, value_name = "FILE")]
    pub data_rows: Option<PathBuf>,
    /// Follow redirects before the load, and load the final URL
    #[arg(short = 'L', long)]
    pub location: bool,
    /// Use HTTP/1.0
    #[arg(long = "http1.0", conflicts_with = "multiplexed")]
    pub http10: bool,
    /// Use HTTP/2
    ///
    /// Negotiated in TLS; without TLS, the load starts with HTTP/2 directly (prior knowledge).
    #[arg(long, group = "multiplexed")]
    pub http2: bool,
    /// Use HTTP/3, if this program was built with it
    ///
    /// It needs the Cargo feature 'http3'.
    #[arg(long, group = "multiplexed")]
    pub http3: bool,
    /// Size of the server's header compression table [default: 0]
    ///
    /// Browsers allow 65536 bytes.
    #[arg(long, value_name = "BYTES", requires = "http2")]
    pub h2_table_size: Option<u32>,
}

/// Returns the kind of measurement that the options request.
pub fn load_mode(args: &LoadArgs) -> LoadMode {
    let search_mode = || LoadMode::Concurrency(args.search.search_request(args.runs));
    match (&args.pace.concurrency, args.pace.rate) {
        (_, Some(RateChoice::Max)) => LoadMode::Rate,
        _ if args.search.squeeze => search_mode(),
        (Some(Concurrency::Max), _) => search_mode(),
        (Some(Concurrency::Levels(levels)), _) if levels.len() > 1 => {
            LoadMode::Levels(levels.clone())
        }
        _ => LoadMode::AsSpecified,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use speedwell_engine::execution::load::build_job;
    use speedwell_load::load::{
        BatchingMode, BodyRule, ConnectionRules, HttpVersion, LoadConfig, LoadShare,
        RequestTimeouts, ServerAddress, SteadinessRule,
    };
    use speedwell_load::pace::{
        ArrivalSpacing, ClosedPace, PacingModel, RateSchedule, RequestRate, ScheduleStage,
        StopCondition, ThinkTime,
    };
    use std::net::SocketAddr;

    #[derive(Parser)]
    struct LoadCli {
        #[command(flatten)]
        load: LoadArgs,
    }

    fn part(arguments: &str, part: LoadShare) -> LoadConfig {
        let arguments = format!("x http://127.0.0.1:81/ {arguments}");
        let parsed = LoadCli::try_parse_from(arguments.split_whitespace()).unwrap();
        build_job(&parsed.load.load_spec(0), 7, part).unwrap().load
    }

    fn load(arguments: &str) -> LoadConfig {
        part(arguments, LoadShare::ONLY)
    }

    #[test]
    fn ten_clients_wait_for_their_answers_for_ten_seconds() {
        let default_load = load("");
        let closed = ClosedPace::new(10, ThinkTime::None).unwrap();
        assert_eq!(default_load.pace, PacingModel::Closed(closed));
        assert_eq!(
            (default_load.connections, default_load.streams_per_connection, default_load.threads),
            (10, 1, 1)
        );
        assert_eq!(default_load.stop.after_ns, Some(10_000_000_000));
        assert_eq!(default_load.rules.timeouts.total_ns, Some(30_000_000_000));
        assert_eq!(default_load.drain_ns, 30_000_000_000);
        let address = ServerAddress::Internet(SocketAddr::from(([127, 0, 0, 1], 81)));
        assert_eq!(default_load.target.addresses, [address]);
        // The default number of clients is reduced to the number of requests.
        assert_eq!(load("-n 3").connections, 3);
    }

    #[test]
    fn a_warm_up_comes_before_the_time_asked_for() {
        let load = load("-t 5s -w 2s --timeout 0 --drain 1s");
        // The generator starts counting at the end of the warm-up.
        assert_eq!(load.stop.after_ns, Some(5_000_000_000));
        assert_eq!((load.warmup_ns, load.drain_ns), (2_000_000_000, 1_000_000_000));
        assert_eq!(load.rules.timeouts, RequestTimeouts::default());
        assert_eq!(super::tests::load("-n 1k").stop.after_ns, None);
    }

    #[test]
    fn ramps_end_by_themselves_and_a_rate_goes_on_after_them() {
        let ramp = |from: f64, to: f64, seconds: u64| ScheduleStage {
            from: RequestRate::per_second(from).unwrap(),
            to: RequestRate::per_second(to).unwrap(),
            duration_ns: seconds * 1_000_000_000,
        };
        let ramps_only = load("--ramp 0-1k:30s --stage 1k:1m");
        assert_eq!(ramps_only.stop, StopCondition::default());
        let stages = vec![ramp(0.0, 1000.0, 30), ramp(1000.0, 1000.0, 60)];
        let schedule = RateSchedule::new(stages, ArrivalSpacing::Even).unwrap();
        assert_eq!(ramps_only.pace, PacingModel::Open(schedule));
        assert_eq!((ramps_only.connections, ramps_only.max_connections), (10, 1000));
        let with_rate = load("--ramp 0-1k:30s --rate 500 --poisson -c 2000");
        assert_eq!(with_rate.stop.after_ns, Some(10_000_000_000));
        let stages = vec![
            ramp(0.0, 1000.0, 30),
            ScheduleStage::constant(RequestRate::per_second(500.0).unwrap()),
        ];
        let schedule = RateSchedule::new(stages, ArrivalSpacing::Poisson { seed: 7 }).unwrap();
        assert_eq!(with_rate.pace, PacingModel::Open(schedule));
        assert_eq!((with_rate.connections, with_rate.max_connections), (2000, 2000));
    }

    #[test]
    fn seconds_are_alike_within_a_percentage() {
        let within = |words: &str| load(words).steady.map(|SteadinessRule { within }| within);
        assert_eq!(within(""), None);
        assert_eq!(within("--until-steady"), Some(0.05));
        assert_eq!(within("--until-steady=2%"), Some(0.02));
    }

    #[test]
    fn clients_share_connections_where_these_carry_several_requests() {
        let load = load("-c 25 --http2 --streams 10 --h2-table-size 4096");
        assert_eq!((load.connections, load.streams_per_connection), (3, 10));
        assert_eq!(load.http, HttpVersion::Two { table_bytes: 4096 });
    }

    #[test]
    fn processes_take_turns_with_the_processors() {
        let arguments = "--threads 2 --clients 2 --pin 0-3";
        let processors_of = |index| part(arguments, LoadShare { index, count: 2 }).processors;
        assert_eq!((processors_of(0), processors_of(1)), (vec![0, 1, 2, 3], vec![2, 3, 0, 1]));
    }

    #[test]
    fn rules_of_connections_are_those_asked_for() {
        let rules = load("--no-keepalive --busy-poll --first-byte-timeout 1s").rules;
        assert_eq!((rules.max_requests, rules.busy_poll), (Some(1), true));
        assert_eq!(rules.batching, BatchingMode::Off);
        assert_eq!(rules.timeouts.first_byte_ns, Some(1_000_000_000));
        let rules = load("--requests-per-connection 100 --connection-lifetime 1m").rules;
        assert_eq!(rules.max_requests, Some(100));
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
