//! A load from the command line of a developer: `load URL-HOST:PORT PATH CONCURRENCY SECONDS [RATE]`.

use speedwell_load::generator::{probe, run};
use speedwell_load::load::*;
use speedwell_load::pace::*;
use std::sync::atomic::AtomicBool;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let address = args[1].parse()?;
    let concurrency: u32 = args[3].parse()?;
    let seconds: f64 = args[4].parse()?;
    let rate: f64 = args.get(5).map_or(Ok(0.0), |rate| rate.parse())?;
    let pace = match rate > 0.0 {
        false => Pace::Closed(Closed::new(concurrency, Think::None)?),
        true => Pace::Open(Schedule::new(
            vec![Stage::constant(Rate::per_second(rate)?)],
            Spacing::Even,
        )?),
    };
    let env = |name: &str| std::env::var(name).ok();
    let load = Load {
        target: Target {
            host: "127.0.0.1".into(),
            port: 80,
            addresses: vec![Address::Internet(address)],
            local: None,
            tls: env("TLS").map(|_| TlsOptions {
                trust: Trust::Anyone,
                ..TlsOptions::default()
            }),
        },
        kinds: Kinds::one(Kind::get(&args[1], &args[2]))?,
        http: match env("H2") {
            Some(_) => Http::Two { table_bytes: 0 },
            None => Http::One,
        },
        pace,
        connections: concurrency,
        most_connections: 1000,
        lanes: env("LANES").map_or(1, |n| n.parse().unwrap()),
        stop: Stop {
            after_requests: None,
            after_ns: Some((seconds * 1e9) as u64),
        },
        warmup_ns: 0,
        drain_ns: 2_000_000_000,
        rules: ConnectionRules {
            batching: match env("LINGER").map(|l| l.parse::<u64>().unwrap()) {
                Some(0) => Batching::Off,
                Some(n) => Batching::Adaptive { most_ns: n * 1000 },
                None => Batching::Adaptive { most_ns: 100_000 },
            },
            most_requests: env("PER").map(|n| n.parse().unwrap()),
            ..ConnectionRules::default()
        },
        success: Success::default(),
        threads: 1,
        processors: vec![],
        part: Part::WHOLE,
        keeps_rows: false,
    };
    let stop = AtomicBool::new(false);
    let probe = probe(&load, &stop)?;
    if env("V").is_some() {
        println!("{probe:?}");
    }
    let m = run(&load, &stop, &mut |p| {
        if std::env::var("V").is_ok() {
            eprintln!("{} {:?}", p.at_ns, p.tick)
        }
    })?;
    println!(
        "{:.1} req/s, elapsed {:.3}",
        m.throughput().unwrap_or(0.0),
        m.elapsed_ns as f64 / 1e9
    );
    for row in m.account.books.rows().filter(|row| row.count > 0) {
        println!("  {} {}", row.name, row.count);
    }
    println!(
        "  attempted {} balance {:?}",
        m.account.books.attempts(),
        m.account.books.balance()
    );
    println!(
        "  {:?} {:?}",
        m.account.books.connections, m.account.books.bytes
    );
    let service = m.account.latency.service();
    for q in service.quantiles(&[500_000, 900_000, 990_000, 999_000]) {
        print!(" {:?}", q.map(|q| q.ns / 1000));
    }
    println!(" us");
    if let speedwell_load::measured::Latency::Open(open) = &m.account.latency {
        let r = open.requests.all().response;
        println!(
            "response {:?}",
            r.quantiles(&[500_000, 950_000, 990_000, 1_000_000])
                .iter()
                .map(|q| q.unwrap().ns / 1000)
                .collect::<Vec<_>>()
        );
        println!(
            "lag {:?} own {:?}",
            open.lag.quantile(990_000),
            open.own_lag.quantile(990_000)
        );
    }
    let t = &m.threads[0];
    println!(
        "{:?} cpu/req {:.3} us calls/req {:.3}",
        t,
        t.cpu_ns as f64 / m.ok_in_time as f64 / 1e3,
        t.system_calls as f64 / m.ok_in_time as f64
    );
    Ok(())
}
