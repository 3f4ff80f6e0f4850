//! Defines the specification of an HTTP load: target, pace, requests, connections, and success criteria.
//!
//! The command line and definition files fill a [`LoadSpec`], processes exchange it as JSON, and
//! [`LoadSpec::to_args`] formats it as options of `speedwell load`. Each field has the long name of
//! its option. A [`LoadSpec`] contains no defaults: `engine/execution/load/build.rs` supplies them.

use crate::{ParameterValue, ValueKind, parse_duration};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// One HTTP load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct LoadSpec {
    /// Target URL.
    pub url: String,
    /// The load generator.
    pub client: LoadClient,

    /// Requests in flight; with a rate, the initial number of connections.
    pub concurrency: Option<u32>,
    /// Requests per second, independent of the server's responses.
    pub rate: Option<f64>,
    /// Stages of changing or constant rate. After them, `rate` applies.
    pub ramp: Vec<RateStage>,
    /// Whether arrivals are random (Poisson).
    pub poisson: bool,
    /// Pause of a client between a response and its next request.
    pub think: Option<ThinkPause>,
    /// Number of requests after which the load ends.
    pub count: Option<u64>,
    /// Duration of the load.
    #[serde(with = "duration_text")]
    pub time: Option<Duration>,
    /// Ends the load once two consecutive seconds differ in throughput and in median latency by at
    /// most this percentage.
    pub until_steady: Option<f64>,
    /// Duration of the warm-up. Its requests are not counted.
    #[serde(with = "duration_text")]
    pub warmup: Option<Duration>,
    /// How long to wait for outstanding responses at the end.
    #[serde(with = "duration_text")]
    pub drain: Option<Duration>,

    /// The method.
    pub request: Option<String>,
    /// Header fields as curl takes them: `Name: value`, `Name:`, `Name;`.
    pub header: Vec<String>,
    /// The body, sent as a form; `@FILE` is the content of a file.
    pub data: Option<String>,
    /// The body from a file, without a Content-Type.
    pub body_file: Option<PathBuf>,
    /// Credentials, as `NAME:PASSWORD`.
    pub user: Option<String>,
    /// Cookies, each as `NAME=VALUE`.
    pub cookie: Vec<String>,
    /// The value of User-Agent.
    pub user_agent: Option<String>,
    /// A TOML file with requests of several kinds.
    pub requests: Option<PathBuf>,
    /// A table whose rows fill placeholders of requests.
    pub data_rows: Option<PathBuf>,
    /// Whether redirects are followed before the load.
    pub location: bool,
    /// Whether to use HTTP/1.0.
    #[serde(rename = "http1.0")]
    pub http10: bool,
    /// Whether to use HTTP/2.
    pub http2: bool,
    /// Whether to use HTTP/3.
    pub http3: bool,
    /// Maximum size of the header compression table that the server may use, in bytes.
    pub h2_table_size: Option<u32>,

    /// Statuses that count as success.
    #[serde(with = "status_texts")]
    pub expect_status: Vec<RangeInclusive<u16>>,
    /// Text that every body must contain.
    pub expect_body: Option<String>,
    /// Required length of every body in bytes.
    pub expect_length: Option<u64>,
    /// Whether to skip the probe request before the load.
    pub no_verify: bool,

    /// Whether to open a new connection for every request.
    pub no_keepalive: bool,
    /// Requests in flight on an HTTP/2 or HTTP/3 connection.
    pub streams: Option<u32>,
    /// Requests in flight on an HTTP/1.1 connection.
    pub pipeline: Option<u32>,
    /// Number of requests after which a connection is closed.
    pub requests_per_connection: Option<u32>,
    /// Age at which a connection is closed.
    #[serde(with = "duration_text")]
    pub connection_lifetime: Option<Duration>,
    /// Maximum number of connections of a load with a rate.
    pub max_connections: Option<u32>,
    /// Time limit of a request; zero for none.
    #[serde(with = "duration_text")]
    pub timeout: Option<Duration>,
    /// Time limit for connecting, including TLS.
    #[serde(with = "duration_text")]
    pub connect_timeout: Option<Duration>,
    /// Time limit until the first byte of a response.
    #[serde(with = "duration_text")]
    pub first_byte_timeout: Option<Duration>,
    /// Whether to retry a request if the server closed the idle connection just as the request was
    /// sent.
    pub retry_stale_keepalive: bool,
    /// The Unix domain socket to connect to.
    pub unix_socket: Option<PathBuf>,
    /// Redirections, each as `HOST1:PORT1:HOST2:PORT2`. The load connects to HOST2:PORT2 instead of
    /// HOST1:PORT1.
    pub connect_to: Vec<String>,
    /// Addresses to use for a host and a port, each as `HOST:PORT:ADDRESS[,ADDRESS...]`.
    pub resolve: Vec<String>,
    /// The local address.
    pub bind: Option<IpAddr>,
    /// The URL of a proxy.
    pub proxy: Option<String>,

    /// Whether to accept any certificate.
    pub insecure: bool,
    /// File of trusted certificate authorities.
    pub cacert: Option<PathBuf>,
    /// Client certificate.
    pub cert: Option<PathBuf>,
    /// Private key of the client certificate.
    pub key: Option<PathBuf>,
    /// Server name in the TLS handshake.
    pub sni: Option<String>,

    /// Shell command that starts the server.
    pub serve: Option<String>,
    /// Time limit until the server accepts connections.
    #[serde(with = "duration_text")]
    pub serve_timeout: Option<Duration>,

    /// Threads of a generator process.
    pub threads: Option<u32>,
    /// Generator processes.
    pub clients: Option<u32>,
    /// Processors for the threads of the generator.
    pub pin: Option<String>,
    /// Whether to run the generator with real-time priority.
    pub rt: bool,
    /// Whether the generator polls instead of sleeping.
    pub busy_poll: bool,
    /// Whether to read every response immediately, instead of several at a time.
    pub no_batching: bool,
    /// File to which a row per request is written.
    pub log_requests: Option<PathBuf>,
}

impl LoadSpec {
    /// Formats the load as arguments of `speedwell load`: the URL, then `--name=value` for every field that is set.
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
        for text in strings.into_iter().flatten().chain(&mut self.header) {
            *text = fill(text);
        }
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

impl LoadClient {
    /// All clients by name. The name of an external client is also the name of its program.
    pub const NAMES: [(&str, LoadClient); 5] = [
        ("builtin", LoadClient::Builtin),
        ("ab", LoadClient::Ab),
        ("wrk", LoadClient::Wrk),
        ("autocannon", LoadClient::Autocannon),
        ("h2load", LoadClient::H2load),
    ];

    /// The name of the client.
    pub fn name(self) -> &'static str {
        let found = LoadClient::NAMES.iter().find(|(_, client)| *client == self);
        found.map_or("", |(name, _)| name)
    }
}

impl FromStr for LoadClient {
    type Err = String;

    fn from_str(text: &str) -> Result<LoadClient, String> {
        let found = LoadClient::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, client)| *client).ok_or_else(|| format!("unknown client '{text}'"))
    }
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
        let mut words = text.split_whitespace();
        let length = words.next().and_then(parse_duration);
        let is_random = match (words.next(), words.next()) {
            (None, _) => Some(false),
            (Some("exp"), None) => Some(true),
            _ => None,
        };
        length
            .zip(is_random)
            .map(|(length, is_random)| ThinkPause { length, is_random })
            .ok_or_else(|| {
                format!("cannot parse pause '{text}': expected e.g. 100ms or '100ms exp'")
            })
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
    match ParameterValue::parse(text.trim(), ValueKind::Number) {
        Some(ParameterValue::Number(n)) if n >= 0.0 && n.is_finite() => Some(n),
        _ => None,
    }
}

/// Parses a positive rate per second: `500`, `10k`, `0.5`, `500/s`, `90/m`.
///
/// # Errors
/// Returns an error with an example for anything else.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let (figure, seconds) = match text.rsplit_once('/') {
        None => (text, 1.0),
        Some((figure, "s")) => (figure, 1.0),
        Some((figure, "m" | "min")) => (figure, 60.0),
        Some((figure, "h")) => (figure, 3600.0),
        Some(_) => ("", 1.0),
    };
    match parse_number(figure) {
        Some(rate) if rate > 0.0 => Ok(rate / seconds),
        _ => Err(format!(
            "cannot parse rate '{text}': expected e.g. 500, 10k or 500/s (requests per second)"
        )),
    }
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
    if range.is_empty() {
        return Err(error());
    }
    Ok(range)
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
        match exact {
            Some((unit_ns, unit)) => format!("{}{unit}", ns / unit_ns),
            None => format!("{ns}ns"),
        }
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
    use super::parse_statuses;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use std::ops::RangeInclusive;

    pub(super) fn serialize<S: Serializer>(
        ranges: &[RangeInclusive<u16>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let strings: Vec<String> = ranges.iter().map(text).collect();
        strings.serialize(serializer)
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
    fn a_load_is_the_same_after_a_journey_as_json() {
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
    fn options_are_written_as_they_are_typed() {
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
                "--client=ab",
                "--concurrency=5",
                "--rate=1000.0",
                "--time=90s",
                "--header=A: 1",
                "--header=B: 2",
                "--http1.0",
                "--expect-status=200",
                "--expect-status=500-599",
            ]
        );
        assert_eq!(
            LoadSpec::default().option_names(),
            Vec::<String>::new(),
            "what is not given is not written"
        );
    }

    #[test]
    fn rates_are_per_second_unless_they_say_otherwise() {
        assert_eq!((parse_rate("500"), parse_rate("10k/s")), (Ok(500.0), Ok(10_000.0)));
        assert_eq!((parse_rate("90/m"), parse_rate("0.5")), (Ok(1.5), Ok(0.5)));
        for invalid in ["0", "-5", "fast", "5/d", "", "/s"] {
            assert!(parse_rate(invalid).is_err(), "{invalid}");
        }
    }

    #[test]
    fn stages_rise_or_stay() {
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
    fn statuses_are_single_or_ranges() {
        assert_eq!(parse_statuses("304"), Ok(304..=304));
        assert_eq!(parse_statuses("2xx"), Ok(200..=299));
        assert_eq!(parse_statuses("200-206"), Ok(200..=206));
        for invalid in ["", "99", "100", "300-200", "xx", "20x", "1000"] {
            assert!(parse_statuses(invalid).is_err(), "{invalid}");
        }
    }
}
