//! Defines the options of `load`, the request that they make with the order of its loads, and the
//! options of the search for the best concurrency, which `eval` shares.

use crate::options::{FleetGeneratorArgs, OriginArgs, OutputArgs, StoreArgs, parse};
use clap::Args;
use speedwell_adapters::plan::BlockShuffle;
use speedwell_analysis::load::gate::LoadCondition;
use speedwell_analysis::scaling::SaturationRules;
use speedwell_engine::SearchRequest;
use speedwell_machine::process::CpuSet;
use speedwell_model::load::spec::LoadSpec;
use speedwell_model::{ParameterValue, ValueKind};
use speedwell_remote::fleet::FleetRequest;
use std::path::PathBuf;
use std::str::FromStr;
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
    /// Number of concurrent requests; 'max' finds the best [default: 10]
    ///
    /// Several numbers are measured in turn. 'max' finds the number beyond which throughput stops growing. With --rate,
    /// this is the initial number of connections.
    #[arg(short = 'c', long, aliases = ["connections", "vus"], value_name = "N|max", help_heading = "Pace")]
    pub concurrency: Option<Concurrency>,
    /// Requests per second, e.g. 500, 10k, 90/m; 'max' finds the highest
    ///
    /// Requests are sent on schedule, whatever the server does. 'max' finds the highest rate that the server sustains.
    #[arg(long, alias = "rps", value_name = "N[/s]|max", help_heading = "Pace")]
    pub rate: Option<RateChoice>,
    /// Seed for all random choices [default: random; stored and shown]
    #[arg(long, value_name = "N", help_heading = "Pace")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub search: SearchArgs,
    #[command(flatten)]
    pub spec: LoadSpec,
    /// Start this server before each load and stop it afterwards
    ///
    /// The command must stay in the foreground. Give it once for all URLs, or once for each.
    #[arg(long, value_name = "CMD", help_heading = "Server")]
    pub serve: Vec<String>,
    /// Time limit for the server to accept connections [default: 30s]
    #[arg(
        long,
        value_name = "DUR",
        value_parser = parse::duration,
        requires = "serve",
        help_heading = "Server"
    )]
    pub serve_timeout: Option<Duration>,
    /// Pin generator threads to these CPUs, e.g. 1 or 0,2-3
    ///
    /// CPUs are assigned to the threads in turn.
    #[arg(long, value_name = "CPUS", help_heading = "Generator")]
    pub pin: Option<CpuSet>,
    #[command(flatten)]
    pub fleet: FleetGeneratorArgs,
    /// Load every URL N times [default: 1; with several levels: 3]
    ///
    /// URLs and concurrency levels are loaded in rounds, each in shuffled order.
    #[arg(short = 'r', long, value_name = "N", value_parser = parse::count, help_heading = "Sampling")]
    pub runs: Option<u32>,
    /// Exit with status 1 if e.g. p99>20ms or errors>1% (repeatable)
    #[arg(long, value_name = "WHEN", help_heading = "Comparison")]
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
    pub fn load_request(&self, seed: u64) -> anyhow::Result<LoadRequest<'_>> {
        Ok(LoadRequest {
            args: self,
            generators: self.fleet.fleet_request()?,
            specs: (0..self.urls.len()).map(|index| self.load_spec(index)).collect(),
            mode: load_mode(self),
            seed,
        })
    }

    /// Returns the load of the URL with this index. With several levels or a search, the
    /// concurrency or rate of each load is set later.
    pub fn load_spec(&self, index: usize) -> LoadSpec {
        LoadSpec {
            url: self.urls.get(index).cloned().unwrap_or_default(),
            concurrency: match &self.concurrency {
                Some(Concurrency::Levels(levels)) => levels.first().copied(),
                Some(Concurrency::Max) | None => None,
            },
            rate: match self.rate {
                Some(RateChoice::PerSecond(rate)) => Some(rate),
                Some(RateChoice::Max) | None => None,
            },
            serve: self.serve.get(index).or(self.serve.first()).cloned(),
            serve_timeout: self.serve_timeout,
            pin: self.pin.clone().map(String::from),
            log_requests: self.log_requests.clone(),
            ..self.spec.clone()
        }
    }
}

/// Returns the kind of measurement that the options request.
pub fn load_mode(args: &LoadArgs) -> LoadMode {
    let search_mode = || LoadMode::Concurrency(args.search.search_request(args.runs));
    match (&args.concurrency, args.rate) {
        (_, Some(RateChoice::Max)) => LoadMode::Rate,
        _ if args.search.squeeze => search_mode(),
        (Some(Concurrency::Max), _) => search_mode(),
        (Some(Concurrency::Levels(levels)), _) if levels.len() > 1 => {
            LoadMode::Levels(levels.clone())
        }
        _ => LoadMode::AsSpecified,
    }
}

/// The loads to send.
#[derive(Debug, Clone)]
pub struct LoadRequest<'a> {
    /// The options.
    pub args: &'a LoadArgs,
    /// One load per address. A search or a list of levels overrides the concurrency or the rate of
    /// every load.
    pub specs: Vec<LoadSpec>,
    /// How the loads are chosen: as given, at given levels, or by a search.
    pub mode: LoadMode,
    /// Seed of every random choice.
    pub seed: u64,
    /// Machines that send the loads; this machine by default.
    pub generators: Option<FleetRequest>,
}

/// How the loads are chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoadMode {
    /// No search: send the given loads.
    AsSpecified,
    /// No search: send loads at the given levels of concurrency.
    Levels(Vec<u32>),
    /// Search for the concurrency at which throughput stops growing.
    Concurrency(SearchRequest),
    /// Search for the highest sustainable rate.
    Rate,
}

/// A load and its place in the order of all loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadTurn {
    /// Index of the address.
    pub url: usize,
    /// Index of the round. Every address has one turn per round.
    pub round: u32,
    /// Index in the order of all loads.
    pub slot: u32,
}

/// Plans `rounds` rounds over `urls` addresses. Each round is shuffled, so that a slow drift of the
/// machine affects all addresses alike. A single round keeps the order that the user typed.
pub fn plan_turns(urls: usize, rounds: u32, seed: u64) -> Vec<LoadTurn> {
    let mut shuffle = BlockShuffle::new(seed);
    let mut turns = Vec::new();
    for round in 0..rounds {
        let order = if rounds == 1 { (0..urls).collect() } else { shuffle.shuffle_block(urls, 1) };
        for url in order {
            turns.push(LoadTurn { url, round, slot: turns.len() as u32 });
        }
    }
    turns
}

/// Search options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Search")]
pub struct SearchArgs {
    /// Same as '-c max'
    #[arg(long, conflicts_with = "concurrency")]
    pub squeeze: bool,
    /// Highest concurrency that '-c max' tries
    #[arg(long, value_name = "N", value_parser = parse::count, long_help = limit_help())]
    pub concurrency_limit: Option<u32>,
    /// Stop '-c max' after N levels without improvement [default: 2]
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub patience: Option<u32>,
    /// Let '-c max' try multiples of N instead of doubling
    #[arg(long, value_name = "N", value_parser = parse::count)]
    pub step: Option<u32>,
}

impl SearchArgs {
    /// Builds the request for the search. Each level is measured `visits` times.
    pub fn search_request(&self, visits: Option<u32>) -> SearchRequest {
        SearchRequest {
            step: self.step,
            limit: self.concurrency_limit,
            patience: self.patience,
            visits,
        }
    }

    /// Default maximum number of concurrent workers. It is lower than for connections, because a
    /// worker may be a process or a thread with its own virtual machine.
    pub const MAX_WORKERS: u32 = 256;
}

fn limit_help() -> String {
    format!(
        "Highest concurrency that '-c max' tries [default: {} for snippets, {} for connections]",
        SearchArgs::MAX_WORKERS,
        SaturationRules::default().limit
    )
}

/// Value of `-c`: the number of workers or concurrent requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concurrency {
    /// These numbers, one after the other.
    Levels(Vec<u32>),
    /// The number with the greatest throughput.
    Max,
}

impl FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Concurrency, String> {
        if text == "max" {
            return Ok(Concurrency::Max);
        }
        let mut levels = Vec::new();
        for number in text.split(',').map(str::trim) {
            let level = parse::count(number)
                .map_err(|error| format!("cannot parse '{number}': {error}, or 'max'"))?;
            if levels.contains(&level) {
                return Err(format!("{level} is given twice"));
            }
            levels.push(level);
        }
        Ok(Concurrency::Levels(levels))
    }
}

/// Value of `--rate`: the number of requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RateChoice {
    /// A fixed rate.
    PerSecond(f64),
    /// The highest rate that the server sustains.
    Max,
}

impl FromStr for RateChoice {
    type Err = String;

    /// Parses `max`, or a positive rate: `500`, `10k`, `0.5`, `500/s`, `90/m`.
    fn from_str(text: &str) -> Result<RateChoice, String> {
        let (figure, seconds) = match text.rsplit_once('/') {
            None if text == "max" => return Ok(RateChoice::Max),
            None => (text, 1.0),
            Some((figure, "s")) => (figure, 1.0),
            Some((figure, "m" | "min")) => (figure, 60.0),
            Some((figure, "h")) => (figure, 3600.0),
            Some(_) => ("", 1.0),
        };
        match ParameterValue::parse(figure.trim(), ValueKind::Number) {
            Some(ParameterValue::Number(rate)) if rate > 0.0 && rate.is_finite() => {
                Ok(RateChoice::PerSecond(rate / seconds))
            }
            _ => Err(format!(
                "cannot parse rate '{text}': expected e.g. 500, 10k or 500/s (requests per second)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use speedwell_engine::execution::load::build_job;
    use speedwell_load::load::{
        BodyRule, ConnectionRules, HttpVersion, LoadConfig, LoadShare, RequestTimeouts,
        ServerAddress, SteadinessRule,
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
    fn rates_are_per_second_unless_they_say_otherwise() {
        let rate = |text: &str| text.parse::<RateChoice>();
        let per_second = |rate| Ok(RateChoice::PerSecond(rate));
        assert_eq!((rate("500"), rate("10k/s")), (per_second(500.0), per_second(10_000.0)));
        assert_eq!((rate("90/m"), rate("0.5")), (per_second(1.5), per_second(0.5)));
        for invalid in ["0", "-5", "fast", "5/d", "", "/s"] {
            assert!(rate(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn the_default_load_is_ten_clients_for_ten_seconds() {
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
    fn the_requested_time_does_not_include_the_warm_up() {
        let load = load("-t 5s -w 2s --timeout 0 --drain 1s");
        // The generator starts counting at the end of the warm-up.
        assert_eq!(load.stop.after_ns, Some(5_000_000_000));
        assert_eq!((load.warmup_ns, load.drain_ns), (2_000_000_000, 1_000_000_000));
        assert_eq!(load.rules.timeouts, RequestTimeouts::default());
        assert_eq!(super::tests::load("-n 1k").stop.after_ns, None);
    }

    #[test]
    fn a_load_ends_with_its_ramps_unless_a_rate_follows() {
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
    fn until_steady_accepts_a_tolerance_in_percent() {
        let within = |words: &str| load(words).steady.map(|SteadinessRule { within }| within);
        assert_eq!(within(""), None);
        assert_eq!(within("--until-steady"), Some(0.05));
        assert_eq!(within("--until-steady=2%"), Some(0.02));
    }

    #[test]
    fn clients_share_connections_with_several_streams() {
        let load = load("-c 25 --http2 --streams 10 --h2-table-size 4096");
        assert_eq!((load.connections, load.streams_per_connection), (3, 10));
        assert_eq!(load.http, HttpVersion::Two { table_bytes: 4096 });
    }

    #[test]
    fn load_processes_start_at_different_pinned_processors() {
        let arguments = "--threads 2 --clients 2 --pin 0-3";
        let processors_of = |index| part(arguments, LoadShare { index, count: 2 }).processors;
        assert_eq!((processors_of(0), processors_of(1)), (vec![0, 1, 2, 3], vec![2, 3, 0, 1]));
    }

    #[test]
    fn connection_rules_follow_the_options() {
        let rules = load("--no-keepalive --busy-poll --first-byte-timeout 1s").rules;
        assert_eq!((rules.max_requests, rules.busy_poll), (Some(1), true));
        assert_eq!(rules.max_delay_ns, None);
        assert_eq!(rules.timeouts.first_byte_ns, Some(1_000_000_000));
        let rules = load("--requests-per-connection 100 --connection-lifetime 1m").rules;
        assert_eq!(rules.max_requests, Some(100));
        assert_eq!(rules.lifetime_ns, Some(60_000_000_000));
        assert_eq!(rules.max_delay_ns, ConnectionRules::default().max_delay_ns);
    }

    #[test]
    fn success_rules_follow_the_expect_options() {
        let success =
            load("--expect-status 200,304 --expect-status 5xx --expect-length 12").success;
        assert_eq!(success.statuses, [200..=200, 304..=304, 500..=599]);
        assert_eq!(success.body, Some(BodyRule::Length(12)));
    }

    #[test]
    fn the_documentation_names_the_highest_concurrencies() {
        let collapse_spaces = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let eval = collapse_spaces(include_str!("../../../../docs/guide/eval.md"));
        let limit = format!(
            "`--concurrency-limit` is the highest number tried ({})",
            SearchArgs::MAX_WORKERS
        );
        assert!(eval.contains(&limit), "{limit}");
        let load = collapse_spaces(include_str!("../../../../docs/guide/load-search.md"));
        let limit = format!("up to `--concurrency-limit` ({})", SaturationRules::default().limit);
        assert!(load.contains(&limit), "{limit}");
    }

    #[test]
    fn a_concurrency_is_one_number_several_numbers_or_max() {
        assert_eq!("max".parse(), Ok(Concurrency::Max));
        assert_eq!("1k".parse(), Ok(Concurrency::Levels(vec![1000])));
        assert_eq!("1, 2,8".parse(), Ok(Concurrency::Levels(vec![1, 2, 8])));
        for invalid in ["", "0", "1,", "2,x", "most", "4,2,4", "1-8"] {
            assert!(invalid.parse::<Concurrency>().is_err(), "{invalid}");
        }
        assert_eq!("90/m".parse(), Ok(RateChoice::PerSecond(1.5)));
        assert_eq!("max".parse(), Ok(RateChoice::Max));
        assert!("maximum".parse::<RateChoice>().is_err());
    }

    #[test]
    fn every_round_has_every_address_in_an_order_set_by_the_seed() {
        let first = plan_turns(3, 20, 7);
        assert_eq!(first, plan_turns(3, 20, 7));
        assert_ne!(first, plan_turns(3, 20, 8));
        for (round, turns) in first.chunks(3).enumerate() {
            let mut urls: Vec<usize> = turns.iter().map(|turn| turn.url).collect();
            urls.sort_unstable();
            assert_eq!(urls, [0, 1, 2]);
            assert!(turns.iter().all(|turn| turn.round == round as u32));
        }
        let firsts: Vec<usize> = first.chunks(3).map(|round| round[0].url).collect();
        assert!((0..3).all(|url| firsts.contains(&url)), "{firsts:?}");
    }

    #[test]
    fn a_single_round_keeps_the_order_of_the_command_line() {
        let urls: Vec<usize> = plan_turns(4, 1, 99).iter().map(|turn| turn.url).collect();
        assert_eq!(urls, [0, 1, 2, 3]);
    }
}
