//! Closed loads as they are carried out: how many requests, how long, and what the other side saw.

use super::server::{Server, Then, carry_out, for_ms, good, rows};
use speedwell_load::generator;
use speedwell_load::load::{Load, Part};
use speedwell_load::measured::Measured;
use speedwell_load::pace::{Closed, Pace, Think};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MS: u64 = 1_000_000;

#[test]
fn as_many_requests_are_sent_as_asked_for_however_many_threads_send_them() {
    for threads in [1, 3] {
        let server = good();
        let load = Load {
            threads,
            ..server.load(5, 1234)
        };
        let measured = carry_out(&load);
        assert_eq!(rows(&measured), [("ok", 1234)]);
        assert_eq!(server.seen(), 1234);
        assert_eq!(measured.threads.len(), threads as usize);
        assert_eq!(measured.most_connections, 5);
        assert_eq!(measured.ok_in_time, 1234);
    }
}

#[test]
fn parts_of_a_load_add_up_to_the_whole() {
    let server = good();
    let part = |index| {
        let load = Load {
            part: Part { index, of: 3 },
            keeps_rows: true,
            ..server.load(7, 1000)
        };
        carry_out(&load)
    };
    let mut whole = part(0);
    whole.merge(part(1));
    whole.merge(part(2));
    assert_eq!(rows(&whole), [("ok", 1000)]);
    assert_eq!((server.seen(), whole.most_connections), (1000, 7));
    let mut numbers: Vec<u64> = whole.rows.iter().map(|row| row.index).collect();
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..1000));
    let text = serde_json::to_string(&whole).unwrap();
    let again: Measured = serde_json::from_str(&text).unwrap();
    assert_eq!(again, whole);
}

#[test]
fn a_load_by_time_ends_then_and_counts_only_what_came_in_time() {
    let server = good();
    let measured = carry_out(&for_ms(server.load(3, 0), 250));
    assert_eq!(measured.elapsed_ns, 250 * MS);
    let ok = measured.account.books.succeeded();
    assert_eq!(server.seen(), ok);
    assert!(measured.ok_in_time <= ok && measured.ok_in_time + 3 >= ok);
    let course: u64 = measured.timeline.ticks.iter().map(|tick| tick.ok).sum();
    assert_eq!(course, ok);
}

#[test]
fn what_is_under_way_at_the_end_is_in_flight_and_when_interrupted_cancelled() {
    let silent = || Server::start(|_| Then::Hold);
    let server = silent();
    let mut load = for_ms(server.load(3, 0), 120);
    load.drain_ns = 50 * MS;
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("in-flight", 3)]);
    assert!(measured.account.latency.service().count() == 0);

    let server = silent();
    let load = for_ms(server.load(3, 0), 60_000);
    let stop = Arc::new(AtomicBool::new(false));
    let later = stop.clone();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        later.store(true, Ordering::SeqCst);
    });
    let measured = generator::run(&load, &stop, &mut |_| {}).unwrap();
    stopper.join().unwrap();
    measured.account.books.balance().unwrap();
    assert_eq!(rows(&measured), [("cancelled", 3)]);
    assert!(measured.is_interrupted);
}

#[test]
fn the_warm_up_is_kept_apart() {
    let server = good();
    let load = Load {
        warmup_ns: 130 * MS,
        ..server.load(2, 500)
    };
    let measured = carry_out(&load);
    measured.warmup.books.balance().unwrap();
    assert_eq!(rows(&measured), [("ok", 500)]);
    let warm = measured.warmup.books.attempts();
    assert!(warm > 10, "{warm}");
    assert_eq!(server.seen(), 500 + warm);
    assert_eq!(measured.account.latency.service().count(), 500);
}

#[test]
fn clients_think_between_requests() {
    let server = good();
    let load = Load {
        pace: Pace::Closed(Closed::new(4, Think::Fixed(20 * MS)).unwrap()),
        ..for_ms(server.load(4, 0), 400)
    };
    let measured = carry_out(&load);
    // At most 400 / 20 rounds of four, and not far fewer.
    let ok = measured.account.books.succeeded();
    assert!((40..=84).contains(&ok), "{ok}");
}

#[test]
fn a_steady_load_ends_before_its_time_and_an_unsteady_one_does_not() {
    let steady = |handler: fn(super::server::Asked) -> Then, ms| {
        let server = Server::start(handler);
        let load = Load {
            steady: Some(speedwell_load::load::Steady { within: 0.2 }),
            ..for_ms(server.load(2, 0), ms)
        };
        carry_out(&load)
    };
    let even = steady(
        |mut asked| {
            std::thread::sleep(Duration::from_millis(4));
            asked.answer("200 OK", "good")
        },
        20_000,
    );
    let seconds = even.elapsed_ns as f64 / 1e9;
    assert!((2.0..15.0).contains(&seconds), "{seconds}");
    assert!(even.ok_in_time + 2 >= even.account.books.succeeded());
    let slowing = steady(
        |mut asked| {
            std::thread::sleep(Duration::from_micros(500 + 40 * asked.number.min(1000)));
            asked.answer("200 OK", "good")
        },
        2_500,
    );
    assert_eq!(slowing.elapsed_ns, 2_500_000_000);
}
