//! Defines the specification of an HTTP load: target, pace, requests, connections, and success
//! criteria.
//!
//! A [`LoadSpec`] defines the options of `speedwell load`, with their help texts. Definition files
//! also describe loads in this form, and processes exchange it as JSON. [`LoadSpec::to_args`]
//! formats it as options. Each field has the long name of its option. A [`LoadSpec`] contains no
//! defaults: `engine/execution/load/mod.rs` supplies them.

use crate::parse::{self, duration_or_none, parse_duration, warmup_time};
use crate::{ParameterValue, ValueKind};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// One HTTP load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSpec {
    /// Target URL.
    #[arg(skip)]
    pub url: String,

    /// Requests in flight; with a rate, the initial number of connections.
    #[arg(skip)]
    pub concurrency: Option<u32>,
    /// Requests per second, independent of the server's responses.
    #[arg(skip)]
    pub rate: Option<f64>,
    /// Ramp the rate, e.g. 0-1000:30s, or hold it, e.g. 1000:1m
    ///
    /// Repeatable: ramps follow one another, then --rate applies, if given.
    #[arg(long, alias = "stage", value_name = "[N-]N:DUR", help_heading = "Pace")]
    pub ramp: Vec<RateStage>,
    /// Send at random times, as independent users do, instead of evenly
    #[arg(long, help_heading = "Pace")]
    pub poisson: bool,
    /// Pause of a client between a response and its next request
    ///
    /// 'DUR exp' draws the pauses from an exponential distribution.
    #[arg(long, value_name = "DUR[ exp]", help_heading = "Pace")]
    pub think: Option<ThinkPause>,
    /// Stop after N requests, not counting the warm-up
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count, help_heading = "Pace")]
    pub count: Option<u64>,
    /// Stop after this time [default: 10s without --count]
    ///
    /// The time starts after the warm-up.
    #[arg(
        short = 't',
        long,
        alias = "duration",
        value_name = "DUR",
        value_parser = parse::duration,
        help_heading = "Pace"
    )]
    #[serde(with = "duration_text")]
    pub time: Option<Duration>,
    /// Stop early, once throughput and latency are steady [default: 5]
    ///
    /// They are steady if neither throughput nor median latency changes by more than PCT from one second to the next.
    #[arg(
        long,
        value_name = "PCT",
        value_parser = parse::percentage,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        conflicts_with = "clients",
        help_heading = "Pace"
    )]
    pub until_steady: Option<f64>,
    /// Warm-up time, excluded from the results
    #[arg(short = 'w', long, value_name = "DUR", value_parser = warmup_time, help_heading = "Pace")]
    #[serde(with = "duration_text")]
    pub warmup: Option<Duration>,
    /// How long to wait for the last responses [default: as --timeout]
    #[arg(long, value_name = "DUR", value_parser = duration_or_none, help_heading = "Pace")]
    #[serde(with = "duration_text")]
    pub drain: Option<Duration>,

    /// Request method [default: GET; POST with a body]
    #[arg(short = 'X', long, alias = "method", value_name = "METHOD", help_heading = "Traffic")]
    pub request: Option<String>,
    /// Header field (repeatable)
    ///
    /// 'Name:' removes a default header field, 'Name;' sends an empty one.
    #[arg(short = 'H', long, value_name = "NAME: V", help_heading = "Traffic")]
    pub header: Vec<String>,
    /// Request body, sent as a form; '@FILE' reads it from a file
    #[arg(
        short = 'd',
        long,
        value_name = "TEXT|@FILE",
        conflicts_with = "body_file",
        help_heading = "Traffic"
    )]
    pub data: Option<String>,
    /// Request body from a file, without Content-Type
    #[arg(long, value_name = "FILE", help_heading = "Traffic")]
    pub body_file: Option<PathBuf>,
    /// User name and password for Basic authentication
    #[arg(short = 'u', long, value_name = "NAME:PASSWORD", help_heading = "Traffic")]
    pub user: Option<String>,
    /// Cookie (repeatable)
    #[arg(short = 'b', long, value_name = "NAME=VALUE", help_heading = "Traffic")]
    pub cookie: Vec<String>,
    /// User-Agent header [default: speedwell/VERSION]
    #[arg(short = 'A', long, value_name = "TEXT", help_heading = "Traffic")]
    pub user_agent: Option<String>,
    /// TOML file with several kinds of requests and their weights
    ///
    /// The path of a request in the file replaces the path of the URL.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["request", "data", "body_file", "location"],
        help_heading = "Traffic"
    )]
    pub requests: Option<PathBuf>,
    /// Table (.csv or .jsonl) whose rows replace '{{column}}'
    ///
    /// Paths, header fields and bodies may contain such placeholders.
    #[arg(long, value_name = "FILE", help_heading = "Traffic")]
    pub data_rows: Option<PathBuf>,
    /// Follow redirects before the load, and load the final URL
    #[arg(short = 'L', long, help_heading = "Traffic")]
    pub location: bool,
    /// Use HTTP/1.0
    #[arg(long = "http1.0", conflicts_with = "multiplexed", help_heading = "Traffic")]
    #[serde(rename = "http1.0")]
    pub http10: bool,
    /// Use HTTP/2
    ///
    /// Negotiated in TLS; without TLS, the load starts with HTTP/2 directly (prior knowledge).
    #[arg(long, group = "multiplexed", help_heading = "Traffic")]
    pub http2: bool,
    /// Use HTTP/3, if this program was built with it
    ///
    /// It needs the Cargo feature 'http3'.
    #[arg(long, group = "multiplexed", help_heading = "Traffic")]
    pub http3: bool,
    /// Size of the server's header compression table [default: 0]
    ///
    /// Browsers allow 65536 bytes.
    #[arg(long, value_name = "BYTES", requires = "http2", help_heading = "Traffic")]
    pub h2_table_size: Option<u32>,

    /// Status codes that count as success, e.g. 200,304 [default: 2xx]
    #[arg(
        long,
        value_name = "CODES",
        value_delimiter = ',',
        value_parser = parse_statuses,
        help_heading = "Success"
    )]
    #[serde(with = "status_texts")]
    pub expect_status: Vec<RangeInclusive<u16>>,
    /// Text that every body must contain
    #[arg(long, value_name = "TEXT", conflicts_with = "expect_length", help_heading = "Success")]
    pub expect_body: Option<String>,
    /// Length in bytes that every body must have
    #[arg(long, value_name = "BYTES", help_heading = "Success")]
    pub expect_length: Option<u64>,
    /// Do not send a test request before the load
    #[arg(long, conflicts_with = "location", help_heading = "Success")]
    pub no_verify: bool,

    /// Open a new connection for every request
    #[arg(
        long,
        conflicts_with_all = ["requests_per_connection", "pipeline", "streams"],
        help_heading = "Connections"
    )]
    pub no_keepalive: bool,
    /// Concurrent requests per connection [default: 1]
    ///
    /// Needs HTTP/2 or HTTP/3.
    #[arg(
        long,
        value_name = "N",
        value_parser = parse::count,
        requires = "multiplexed",
        help_heading = "Connections"
    )]
    pub streams: Option<u32>,
    /// Pipelined requests per HTTP/1.1 connection [default: 1]
    #[arg(
        long,
        value_name = "N",
        value_parser = parse::count,
        conflicts_with_all = ["multiplexed", "http10"],
        help_heading = "Connections"
    )]
    pub pipeline: Option<u32>,
    /// Close connections after N requests
    #[arg(long, value_name = "N", value_parser = parse::count, help_heading = "Connections")]
    pub requests_per_connection: Option<u32>,
    /// Close connections after this time
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Connections")]
    #[serde(with = "duration_text")]
    pub connection_lifetime: Option<Duration>,
    /// With --rate: maximum number of connections [default: 1000]
    #[arg(long, value_name = "N", value_parser = parse::count, help_heading = "Connections")]
    pub max_connections: Option<u32>,
    /// Time limit per request; 0 for none [default: 30s]
    #[arg(long, value_name = "DUR", value_parser = duration_or_none, help_heading = "Connections")]
    #[serde(with = "duration_text")]
    pub timeout: Option<Duration>,
    /// Time limit to connect, including TLS [default: as --timeout]
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Connections")]
    #[serde(with = "duration_text")]
    pub connect_timeout: Option<Duration>,
    /// Time limit until the first byte of a response
    #[arg(long, value_name = "DUR", value_parser = parse::duration, help_heading = "Connections")]
    #[serde(with = "duration_text")]
    pub first_byte_timeout: Option<Duration>,
    /// Retry a request if the server just closed its idle connection
    #[arg(long, help_heading = "Connections")]
    pub retry_stale_keepalive: bool,
    /// Connect to this Unix domain socket
    #[arg(
        long,
        value_name = "PATH",
        conflicts_with_all = ["connect_to", "resolve", "bind", "proxy"],
        help_heading = "Connections"
    )]
    pub unix_socket: Option<PathBuf>,
    /// Connect to HOST2:PORT2 instead of HOST1:PORT1 (repeatable)
    ///
    /// An empty HOST1 or PORT1 matches any value, an empty HOST2 or PORT2 changes nothing.
    #[arg(long, value_name = "HOST1:PORT1:HOST2:PORT2", help_heading = "Connections")]
    pub connect_to: Vec<String>,
    /// Use these addresses for a host instead of DNS (repeatable)
    #[arg(long, value_name = "HOST:PORT:ADDRESS[,ADDRESS...]", help_heading = "Connections")]
    pub resolve: Vec<String>,
    /// Connect from this local address
    #[arg(long, alias = "interface", value_name = "ADDRESS", help_heading = "Connections")]
    pub bind: Option<IpAddr>,
    /// Send requests through this HTTP proxy, without TLS
    #[arg(long, value_name = "URL", help_heading = "Connections")]
    pub proxy: Option<String>,

    /// Accept any certificate
    #[arg(short = 'k', long, help_heading = "TLS")]
    pub insecure: bool,
    /// Trust only the certificate authorities in this file (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = "TLS")]
    pub cacert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate (PEM) [default: in --cert]
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = "TLS")]
    pub key: Option<PathBuf>,
    /// Server name for the TLS handshake [default: the host]
    ///
    /// The certificate must match this name.
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    pub sni: Option<String>,

    /// Shell command that starts the server.
    #[arg(skip)]
    pub serve: Option<String>,
    /// Time limit until the server accepts connections.
    #[arg(skip)]
    #[serde(with = "duration_text")]
    pub serve_timeout: Option<Duration>,

    /// Threads per generator process [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count, help_heading = "Generator")]
    pub threads: Option<u32>,
    /// Generator processes whose results are added up [default: 1]
    #[arg(long, value_name = "N", value_parser = parse::count, help_heading = "Generator")]
    pub clients: Option<u32>,
    /// Processors for the threads of the generator.
    #[arg(skip)]
    pub pin: Option<String>,
    /// Run the generator with real-time priority (SCHED_FIFO)
    ///
    /// This needs permission.
    #[arg(long, help_heading = "Generator")]
    pub rt: bool,
    /// Busy-wait instead of sleeping, for more precise timing
    ///
    /// Each thread occupies a whole processor.
    #[arg(long, help_heading = "Generator")]
    pub busy_poll: bool,
    /// Read each response immediately, without waiting for others
    #[arg(long, help_heading = "Generator")]
    pub no_batching: bool,
    /// Load generator: the built-in one or another tool
    ///
    /// The output of the other tool is parsed.
    #[arg(
        long,
        value_name = "TOOL",
        default_value = "builtin",
        value_parser = client_parser(),
        help_heading = "Generator"
    )]
    pub client: LoadClient,

    /// File to which a row per request is written.
    #[arg(skip)]
    pub log_requests: Option<PathBuf>,
}

impl LoadSpec {
    /// Formats the load as arguments of `speedwell load`: the URL, then `--name=value` for every
    /// field that is set.
    pub fn to_args(&self) -> Vec<String> {
        let mut args = vec![self.url.clone()];
        args.extend(self.set_options().flat_map(|(name, value)| match value {
            Json::Bool(_) => vec![format!("--{name}")],
            Json::Array(values) => values.iter().map(|v| format_option(&name, v)).collect(),
            value => vec![format_option(&name, &value)],
        }));
        args
    }

    /// Long names of the options that are set.
    pub fn option_names(&self) -> Vec<String> {
        self.set_options().map(|(name, _)| name).collect()
    }

    fn set_options(&self) -> impl Iterator<Item = (String, Json)> {
        let nothing = LoadSpec { url: self.url.clone(), ..LoadSpec::default() };
        let (fields, defaults) = (to_json_fields(self), to_json_fields(&nothing));
        fields.into_iter().filter(move |(name, value)| defaults.get(name) != Some(value))
    }

    /// Applies `fill` to every string that may contain placeholders in a definition file: URL,
    /// server command, request, and expected body.
    #[must_use]
    pub fn fill_placeholders(mut self, fill: &dyn Fn(&str) -> String) -> LoadSpec {
        self.url = fill(&self.url);
        let strings = [&mut self.serve, &mut self.request, &mut self.data, &mut self.expect_body];
        strings.into_iter().flatten().chain(&mut self.header).for_each(|text| *text = fill(text));
        if let Some(file) = &mut self.body_file {
            *file = PathBuf::from(fill(&file.to_string_lossy()));
        }
        self
    }

    /// Reduces the load to a single request. wrk cannot stop after a number of requests, so its
    /// load is reduced to one second.
    #[must_use]
    pub fn single_request(self) -> LoadSpec {
        let ends_by_time = self.client == LoadClient::Wrk;
        LoadSpec {
            concurrency: Some(1),
            pipeline: None,
            rate: None,
            warmup: None,
            time: ends_by_time.then_some(Duration::from_secs(1)),
            count: (!ends_by_time).then_some(1),
            ..self
        }
    }

    /// Requests in flight on one connection.
    pub fn streams_per_connection(&self) -> u32 {
        self.streams.or(self.pipeline).unwrap_or(1)
    }

    /// Whether requests follow a schedule instead of waiting for responses (open load).
    pub fn is_open(&self) -> bool {
        self.rate.is_some() || !self.ramp.is_empty()
    }
}

/// Serializes the fields. Every field is a string, a number, a flag or a list of strings.
fn to_json_fields(spec: &LoadSpec) -> Map<String, Json> {
    match serde_json::to_value(spec) {
        Ok(Json::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn format_option(name: &str, value: &Json) -> String {
    match value {
        Json::String(text) => format!("--{name}={text}"),
        value => format!("--{name}={value}"),
    }
}

/// Programs that can generate a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadClient {
    /// Speedwell's own generator.
    #[default]
    Builtin,
    /// ApacheBench.
    Ab,
    /// wrk.
    Wrk,
    /// autocannon.
    Autocannon,
    /// h2load.
    H2load,
}

// The name of an external client is also the name of its program.
name_variants!(LoadClient: Builtin = "builtin", Ab = "ab", Wrk = "wrk", Autocannon = "autocannon",
    H2load = "h2load");

/// Parses the value of `--client`.
fn client_parser() -> impl TypedValueParser<Value = LoadClient> {
    PossibleValuesParser::new(LoadClient::ALL.map(LoadClient::name)).try_map(|name| {
        LoadClient::from_name(&name).ok_or_else(|| format!("unknown client '{name}'"))
    })
}

/// Parses a number of requests.
fn parse_count(text: &str) -> Result<u64, String> {
    parse::count(text).map(u64::from)
}

/// A stage of a load. The rate changes evenly from one value to another.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RateStage {
    /// Requests per second at the beginning of the stage.
    pub from: f64,
    /// Requests per second at the end of the stage.
    pub to: f64,
    /// Length of the stage.
    pub duration: Duration,
}

impl FromStr for RateStage {
    type Err = String;

    /// Parses `0-1000:30s` (a ramp) or `1000:1m` (a constant rate).
    fn from_str(text: &str) -> Result<RateStage, String> {
        let error = || format!("cannot parse stage '{text}': expected e.g. 0-1000:30s or 1000:1m");
        let (rates, length) = text.rsplit_once(':').ok_or_else(error)?;
        let (from, to) = rates.split_once('-').unwrap_or((rates, rates));
        let length = parse_duration(length).ok_or_else(|| {
            format!("cannot parse duration '{length}': expected e.g. 500ms, 3s or 2m")
        })?;
        Ok(RateStage {
            from: parse_number(from).ok_or_else(error)?,
            to: parse_number(to).ok_or_else(error)?,
            duration: length,
        })
    }
}

impl TryFrom<String> for RateStage {
    type Error = String;

    fn try_from(text: String) -> Result<RateStage, String> {
        text.parse()
    }
}

impl From<RateStage> for String {
    fn from(ramp: RateStage) -> String {
        format!("{}-{}:{}", ramp.from, ramp.to, duration_text::text_of(ramp.duration))
    }
}

/// A pause between a response and the next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ThinkPause {
    /// Length of the pause. For pauses of random length, the mean length.
    pub length: Duration,
    /// Whether the lengths of pauses are random, with an exponential distribution.
    pub is_random: bool,
}

impl FromStr for ThinkPause {
    type Err = String;

    /// Parses `100ms`, or `'100ms exp'` for random pauses with this mean.
    fn from_str(text: &str) -> Result<ThinkPause, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (parsed, is_random) = match words[..] {
            [length] => (parse_duration(length), false),
            [length, "exp"] => (parse_duration(length), true),
            _ => (None, false),
        };
        let length = parsed.ok_or_else(|| {
            format!("cannot parse pause '{text}': expected e.g. 100ms or '100ms exp'")
        })?;
        Ok(ThinkPause { length, is_random })
    }
}

impl TryFrom<String> for ThinkPause {
    type Error = String;

    fn try_from(text: String) -> Result<ThinkPause, String> {
        text.parse()
    }
}

impl From<ThinkPause> for String {
    fn from(pause: ThinkPause) -> String {
        let random = if pause.is_random { " exp" } else { "" };
        format!("{}{random}", duration_text::text_of(pause.length))
    }
}

/// Parses a non-negative number: `10k`, `2M`, `1e6`, `0.5`.
fn parse_number(text: &str) -> Option<f64> {
    let number = ParameterValue::parse(text.trim(), ValueKind::Number)?.as_number();
    number.filter(|number| *number >= 0.0 && number.is_finite())
}

/// Parses a status or a range of statuses: `304`, `200-299`, `2xx`.
///
/// # Errors
/// Returns an error with an example for anything else.
pub fn parse_statuses(text: &str) -> Result<RangeInclusive<u16>, String> {
    let error = || format!("cannot parse status '{text}': expected e.g. 304, 200-299 or 2xx");
    let code = |text: &str| match text.trim().parse::<u16>() {
        Ok(code) if (200..1000).contains(&code) => Ok(code),
        _ => Err(error()),
    };
    if let Some(hundreds) = text.strip_suffix("xx") {
        let first = code(&format!("{hundreds}00"))?;
        return Ok(first..=first + 99);
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = code(first)?..=code(last)?;
    if range.is_empty() { Err(error()) } else { Ok(range) }
}

/// Formats a status or a range of statuses as [`parse_statuses`] reads it: `304`, `200-299`.
pub fn format_statuses(range: &RangeInclusive<u16>) -> String {
    match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

/// Serializes durations in the format of [`parse_duration`], to the nanosecond.
mod duration_text {
    use super::parse_duration;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::time::Duration;

    pub(super) fn text_of(time: Duration) -> String {
        let ns = time.as_nanos();
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let exact = units.iter().find(|(unit_ns, _)| ns.is_multiple_of(*unit_ns));
        exact.map_or_else(|| format!("{ns}ns"), |(unit_ns, unit)| format!("{}{unit}", ns / unit_ns))
    }

    pub(super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            Some(time) => serializer.serialize_str(&text_of(*time)),
            None => serializer.serialize_none(),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        let parsed = text.map(|text| match text.as_str() {
            "0s" => Ok(Duration::ZERO),
            text => parse_duration(text)
                .ok_or_else(|| D::Error::custom(format!("cannot parse duration '{text}'"))),
        });
        parsed.transpose()
    }
}

/// Serializes status ranges in the format of [`parse_statuses`].
mod status_texts {
    use super::{format_statuses, parse_statuses};
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use std::ops::RangeInclusive;

    pub(super) fn serialize<S: Serializer>(
        ranges: &[RangeInclusive<u16>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ranges.iter().map(format_statuses))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<RangeInclusive<u16>>, D::Error> {
        let strings = Vec::<String>::deserialize(deserializer)?;
        let ranges = strings.iter().map(|text| parse_statuses(text));
        ranges.map(|range| range.map_err(D::Error::custom)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_spec_survives_a_round_trip_through_json() {
        let spec = LoadSpec {
            url: "http://h/".to_owned(),
            client: LoadClient::Wrk,
            rate: Some(0.1),
            ramp: vec!["0-1k:30s".parse().unwrap(), "200:1500ms".parse().unwrap()],
            think: Some("100us exp".parse().unwrap()),
            time: Some(Duration::from_nanos(123_456_789)),
            timeout: Some(Duration::ZERO),
            header: vec!["A: 1".to_owned(), "B;".to_owned()],
            expect_status: vec![200..=299, 304..=304],
            http10: true,
            bind: Some("::1".parse().unwrap()),
            ..LoadSpec::default()
        };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<LoadSpec>(&text).unwrap(), spec);
    }

    #[test]
    fn load_options_are_written_as_command_line_arguments() {
        let spec = LoadSpec {
            url: "http://h/".to_owned(),
            client: LoadClient::Ab,
            concurrency: Some(5),
            rate: Some(1000.0),
            time: Some(Duration::from_secs(90)),
            header: vec!["A: 1".to_owned(), "B: 2".to_owned()],
            http10: true,
            expect_status: vec![200..=200, 500..=599],
            ..LoadSpec::default()
        };
        assert_eq!(
            spec.to_args(),
            [
                "http://h/",
                "--concurrency=5",
                "--rate=1000.0",
                "--time=90s",
                "--header=A: 1",
                "--header=B: 2",
                "--http1.0",
                "--expect-status=200",
                "--expect-status=500-599",
                "--client=ab",
            ]
        );
        assert_eq!(
            LoadSpec::default().option_names(),
            Vec::<String>::new(),
            "what is not given is not written"
        );
    }

    #[test]
    fn a_rate_stage_is_a_range_or_a_constant_rate() {
        let seconds = Duration::from_secs(30);
        let stage = |from, to| RateStage { from, to, duration: seconds };
        assert_eq!("0-1k:30s".parse(), Ok(stage(0.0, 1000.0)));
        assert_eq!("200:30".parse(), Ok(stage(200.0, 200.0)));
        for invalid in ["1000", "a-b:3s", "0-10:", ":3s", "1-2-3:4s"] {
            assert!(invalid.parse::<RateStage>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn pauses_are_fixed_or_random() {
        let is_random = |text: &str| text.parse::<ThinkPause>().map(|pause| pause.is_random);
        assert_eq!((is_random("5ms"), is_random("5ms exp")), (Ok(false), Ok(true)));
        for invalid in ["5ms norm", "", "0", "5ms exp twice"] {
            assert!(is_random(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn statuses_are_single_codes_or_ranges() {
        assert_eq!(parse_statuses("304"), Ok(304..=304));
        assert_eq!(parse_statuses("2xx"), Ok(200..=299));
        assert_eq!(parse_statuses("200-206"), Ok(200..=206));
        for invalid in ["", "99", "100", "300-200", "xx", "20x", "1000"] {
            assert!(parse_statuses(invalid).is_err(), "{invalid}");
        }
    }
}
