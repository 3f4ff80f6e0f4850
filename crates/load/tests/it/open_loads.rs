//! Open loads as they are carried out: a rate that is kept, stalls that are told, connections that grow.

use super::server::{Server, carry_out, for_ms, good, rows};
use speedwell_load::latency::{Achieved, OpenVerdict};
use speedwell_load::load::Load;
use speedwell_load::measured::Latency;
use speedwell_load::pace::{Pace, Rate, Schedule, Spacing, Stage};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn at_rate(load: Load, rate: f64, spacing: Spacing) -> Load {
    let stage = Stage::constant(Rate::per_second(rate).unwrap());
    Load {
        pace: Pace::Open(Schedule::new(vec![stage], spacing).unwrap()),
        most_connections: 100,
        ..load
    }
}

#[test]
fn a_constant_rate_is_kept_and_the_last_request_is_as_punctual_as_the_first() {
    let server = good();
    let load = at_rate(for_ms(server.load(4, 0), 1000), 2000.0, Spacing::Even);
    let measured = carry_out(&load);
    let books = &measured.account.books;
    assert_eq!(books.attempts(), 2000);
    assert_eq!(server.seen(), books.succeeded());
    assert_eq!(measured.elapsed_ns, 1000 * MS);
}

#[test]
fn random_arrivals_come_as_often_as_asked_for() {
    let server = good();
    let load = at_rate(
        for_ms(server.load(4, 0), 500),
        2000.0,
        Spacing::Poisson { seed: 3 },
    );
    let measured = carry_out(&load);
    // 1000 expected, with a standard deviation of 32.
    let attempts = measured.account.books.attempts();
    assert!((872..=1128).contains(&attempts), "{attempts}");
}

#[test]
fn a_stall_of_the_server_is_in_the_response_time_and_not_in_the_service_time() {
    let began = Instant::now();
    let server = Server::start(move |mut asked| {
        // One stall of 300 ms, in which nobody is served.
        let at = began.elapsed();
        let stall = Duration::from_millis(400)..Duration::from_millis(700);
        if stall.contains(&at) {
            std::thread::sleep(stall.end - at);
        }
        asked.answer("200 OK", "good")
    });
    let mut load = at_rate(for_ms(server.load(2, 0), 1500), 1000.0, Spacing::Even);
    load.most_connections = 2;
    let measured = carry_out(&load);
    let Latency::Open(latency) = &measured.account.latency else {
        panic!("an open load has open latencies")
    };
    assert_eq!(rows(&measured), [("ok", 1500)]);
    let all = latency.requests.all();
    // 300 of 1500 requests were due in the stall, and waited up to 300 ms for its end: of all, a
    // tenth waited longer than 150 ms.
    let response = all.response.quantile(900_000).unwrap().ns;
    assert!((130 * MS..190 * MS).contains(&response), "{response}");
    // Only the two that were on their way met the stall itself.
    let service = all.sent.service.quantile(900_000).unwrap().ns;
    assert!(service < 20 * MS, "{service}");
    // The connections were busy: that is not the generator's own fault.
    let verdict = OpenVerdict::of(
        latency,
        Achieved {
            due: 1500,
            sent: 1500,
        },
    );
    assert!(!verdict.is_generator_limited(), "{verdict:?}");
    assert!(measured.reached_most_connections);
}

#[test]
fn connections_grow_with_the_load_up_to_the_limit() {
    let slow = || {
        Server::start(|mut asked| {
            std::thread::sleep(Duration::from_millis(50));
            asked.answer("200 OK", "good")
        })
    };
    let server = slow();
    let load = at_rate(for_ms(server.load(1, 0), 500), 200.0, Spacing::Even);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 100)]);
    // 200/s of 50 ms each are ten at once.
    assert!((10..=40).contains(&measured.most_connections));
    assert!(!measured.reached_most_connections);

    let server = slow();
    let mut load = at_rate(for_ms(server.load(1, 0), 500), 200.0, Spacing::Even);
    load.most_connections = 2;
    let measured = carry_out(&load);
    assert!(measured.reached_most_connections);
    assert_eq!(measured.most_connections, 2);
    let books = &measured.account.books;
    // Two connections do 40/s: the rest was due and never sent.
    let unsent = rows(&measured)
        .iter()
        .find(|row| row.0 == "unsent")
        .unwrap()
        .1;
    assert_eq!(books.attempts(), 100);
    assert!((70..=85).contains(&unsent), "{unsent}");
    let Latency::Open(latency) = &measured.account.latency else {
        panic!("an open load has open latencies")
    };
    assert_eq!(latency.requests.all().response.count(), 100);
}
