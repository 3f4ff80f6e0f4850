//! Round trip of load options: `parse(to_args(spec)) == spec` for random combinations.

use super::LoadArgs;
use clap::Parser;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_xoshiro::Xoshiro256PlusPlus;
use speedwell_model::load::spec::{LoadClient, LoadSpec, RateStage, ThinkPause};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Parser)]
struct RoundTripCli {
    #[command(flatten)]
    load: LoadArgs,
}

/// Generates random option values; each option is present half of the time.
struct OptionGenerator(Xoshiro256PlusPlus);

impl OptionGenerator {
    fn flag(&mut self) -> bool {
        self.0.random()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut OptionGenerator) -> T) -> Option<T> {
        self.flag().then(|| value(self))
    }

    fn list<T>(&mut self, value: impl Fn(&mut OptionGenerator) -> T) -> Vec<T> {
        let count = self.0.random_range(0..3);
        (0..count).map(|_| value(self)).collect()
    }

    fn count(&mut self) -> u32 {
        self.0.random_range(1..4_000_000_000)
    }

    /// A number of any magnitude, with a fraction.
    fn number(&mut self) -> f64 {
        let exponent = self.0.random_range(-9..10);
        self.0.random_range(0.1..10.0) * 10f64.powi(exponent)
    }

    /// A number of nanoseconds, or a whole number of some larger unit.
    fn time(&mut self) -> Duration {
        let unit_ns =
            *[1, 1_000, 1_000_000, 1_000_000_000, 60_000_000_000].choose(&mut self.0).unwrap();
        Duration::from_nanos(unit_ns * self.0.random_range(1..2_000))
    }

    fn time_or_none(&mut self) -> Duration {
        self.maybe(OptionGenerator::time).unwrap_or_default()
    }

    /// Text with characters that are special to a shell or in option values, and with others.
    fn text(&mut self) -> String {
        let characters: Vec<char> = "aZ0-=,:;@%{}\"'\\ \t\n$#/é界\u{1f600}".chars().collect();
        let count = self.0.random_range(0..12);
        (0..count).map(|_| characters.choose(&mut self.0).unwrap()).collect()
    }

    fn path(&mut self) -> PathBuf {
        PathBuf::from(format!("-{}", self.text()))
    }

    fn ramp(&mut self) -> RateStage {
        let [from, to] = [self.number(), self.number()];
        RateStage { from, to, duration: self.time() }
    }

    fn pause(&mut self) -> ThinkPause {
        ThinkPause { length: self.time(), is_random: self.flag() }
    }

    /// A load whose options do not exclude each other.
    fn load(&mut self) -> LoadSpec {
        let (has_request_file, is_verified) = (self.flag(), self.flag());
        LoadSpec {
            url: format!("http://127.0.0.1/{}", self.text()),
            client: *LoadClient::ALL.choose(&mut self.0).unwrap(),
            concurrency: self.maybe(OptionGenerator::count),
            rate: self.maybe(OptionGenerator::number),
            ramp: self.list(OptionGenerator::ramp),
            poisson: self.flag(),
            think: self.maybe(OptionGenerator::pause),
            count: self.maybe(OptionGenerator::count).map(u64::from),
            time: self.maybe(OptionGenerator::time),
            warmup: self.maybe(OptionGenerator::time_or_none),
            drain: self.maybe(OptionGenerator::time_or_none),
            request: self.maybe(OptionGenerator::text).filter(|_| !has_request_file),
            data: self.maybe(OptionGenerator::text).filter(|_| !has_request_file),
            requests: has_request_file.then(|| self.path()),
            location: !has_request_file && is_verified && self.flag(),
            no_verify: !is_verified,
            header: self.list(OptionGenerator::text),
            user: self.maybe(OptionGenerator::text),
            cookie: self.list(OptionGenerator::text),
            user_agent: self.maybe(OptionGenerator::text),
            data_rows: self.maybe(OptionGenerator::path),
            expect_status: self.list(|generator| {
                let first = generator.0.random_range(200..1000);
                first..=generator.0.random_range(first..1000)
            }),
            expect_body: self.maybe(OptionGenerator::text),
            timeout: self.maybe(OptionGenerator::time_or_none),
            connect_timeout: self.maybe(OptionGenerator::time),
            first_byte_timeout: self.maybe(OptionGenerator::time),
            retry_stale_keepalive: self.flag(),
            log_requests: self.maybe(OptionGenerator::path),
            ..self.transport()
        }
    }

    /// The part of the load with most of the mutually exclusive options.
    fn transport(&mut self) -> LoadSpec {
        let (http, steady, has_unix_socket) = (self.0.random_range(0..4), self.flag(), self.flag());
        let is_multiplexed = http >= 2;
        let no_keepalive = self.flag();
        let (cert, serve) = (self.maybe(OptionGenerator::path), self.maybe(OptionGenerator::text));
        let insecure = self.flag();
        LoadSpec {
            http10: http == 1,
            http2: http == 2,
            http3: http == 3,
            h2_table_size: self.maybe(OptionGenerator::count).filter(|_| http == 2),
            no_keepalive,
            streams: self.maybe(OptionGenerator::count).filter(|_| is_multiplexed && !no_keepalive),
            pipeline: self.maybe(OptionGenerator::count).filter(|_| http == 0 && !no_keepalive),
            requests_per_connection: self.maybe(OptionGenerator::count).filter(|_| !no_keepalive),
            connection_lifetime: self.maybe(OptionGenerator::time),
            max_connections: self.maybe(OptionGenerator::count),
            until_steady: self.maybe(OptionGenerator::number).filter(|_| steady),
            clients: self.maybe(OptionGenerator::count).filter(|_| !steady),
            unix_socket: has_unix_socket.then(|| self.path()),
            connect_to: if has_unix_socket { Vec::new() } else { self.list(OptionGenerator::text) },
            resolve: if has_unix_socket { Vec::new() } else { self.list(OptionGenerator::text) },
            bind: (!has_unix_socket).then(|| self.0.random::<u128>().to_ne_bytes().into()),
            proxy: self.maybe(OptionGenerator::text).filter(|_| !has_unix_socket),
            insecure,
            cacert: self.maybe(OptionGenerator::path).filter(|_| !insecure),
            key: self.maybe(OptionGenerator::path).filter(|_| cert.is_some()),
            cert,
            sni: self.maybe(OptionGenerator::text),
            expect_length: self.maybe(|generator| generator.0.random()),
            serve_timeout: self.maybe(OptionGenerator::time).filter(|_| serve.is_some()),
            serve,
            threads: self.maybe(OptionGenerator::count),
            pin: self.maybe(|generator| generator.0.random_range(0..64).to_string()),
            rt: self.flag(),
            busy_poll: self.flag(),
            no_batching: self.flag(),
            ..LoadSpec::default()
        }
    }
}

#[test]
fn load_arguments_survive_a_round_trip_through_the_parser() {
    let mut generator = OptionGenerator(Xoshiro256PlusPlus::seed_from_u64(13));
    for _ in 0..300 {
        let mut spec = generator.load();
        spec.expect_body = spec.expect_body.filter(|_| spec.expect_length.is_none());
        // A body from a file instead of one from the command line.
        if spec.data.is_none() && spec.requests.is_none() {
            spec.body_file = generator.maybe(OptionGenerator::path);
        }
        let args = spec.to_args();
        let arguments = ["load".to_owned()].into_iter().chain(args.clone());
        match RoundTripCli::try_parse_from(arguments) {
            Ok(parsed) => assert_eq!(parsed.load.load_spec(0), spec, "{args:?}"),
            Err(refusal) => panic!("{args:?}\n{refusal}"),
        }
    }
}
