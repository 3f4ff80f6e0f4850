//! Loads as they are carried out: how many, how fast, how long, over how many connections, and what
//! the other side saw of it.

use super::server::{Server, Then, carry_out, rows};
use speedwell_load::generator;
use speedwell_load::latency::{Achieved, Distribution, OpenVerdict};
use speedwell_load::load::{Address, BodyRule, Kind, Kinds, Load, Part, Rows, Success, Timeouts};
use speedwell_load::measured::{Latency, Measured};
use speedwell_load::pace::{Closed, Pace, Rate, Schedule, Spacing, Stage, Stop, Think};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MS: u64 = 1_000_000;

fn good() -> Server {
    Server::start(|mut asked| asked.answer("200 OK", "good"))
}

fn for_ms(load: Load, ms: u64) -> Load {
    Load {
        stop: Stop {
            after_requests: None,
            after_ns: Some(ms * MS),
        },
        ..load
    }
}

fn at_rate(load: Load, rate: f64, spacing: Spacing) -> Load {
    let stage = Stage::constant(Rate::per_second(rate).unwrap());
    Load {
        pace: Pace::Open(Schedule::new(vec![stage], spacing).unwrap()),
        most_connections: 100,
        ..load
    }
}

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

#[test]
fn several_kinds_of_requests_go_out_in_their_proportions_with_texts_filled_in() {
    let seen: Arc<Mutex<BTreeMap<String, u64>>> = Arc::default();
    let note = seen.clone();
    let server = Server::start(move |mut asked| {
        let line = asked.head.lines().next().unwrap_or_default().to_owned();
        let body = String::from_utf8_lossy(asked.body).into_owned();
        *note
            .lock()
            .unwrap()
            .entry(format!("{line} {body}"))
            .or_default() += 1;
        asked.answer("200 OK", "good")
    });
    let read = Kind {
        weight: 3,
        ..Kind::get("test", "/read/{{id}}")
    };
    let write = Kind {
        method: "POST".to_owned(),
        body: Some(b"name={{name}}".to_vec()),
        ..Kind::get("test", "/write")
    };
    let table = Rows {
        names: vec!["id".into(), "name".into()],
        values: vec![vec!["1".into(), "a".into()], vec!["2".into(), "bb".into()]],
    };
    let load = Load {
        kinds: Kinds::new(vec![read, write], table).unwrap(),
        ..server.load(1, 80)
    };
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 80)]);
    let seen: Vec<(String, u64)> = seen.lock().unwrap().clone().into_iter().collect();
    let expected = [
        ("GET /read/1 HTTP/1.1 ", 30),
        ("GET /read/2 HTTP/1.1 ", 30),
        ("POST /write HTTP/1.1 name=a", 10),
        ("POST /write HTTP/1.1 name=bb", 10),
    ];
    let expected = expected.map(|(line, count)| (line.to_owned(), count));
    assert_eq!(seen, expected);
}

#[test]
fn a_unix_socket_is_as_good_as_a_port() {
    let folder = std::env::temp_dir().join(format!("speedwell-load-{}", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&folder).unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while stream.read(&mut buffer).is_ok_and(|read| read > 0) {
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
                        .unwrap();
                }
            });
        }
    });
    let server = good();
    let mut load = server.load(2, 50);
    load.target.addresses = vec![Address::Unix(folder.clone())];
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 50)]);
    assert_eq!(server.seen(), 0);
    std::fs::remove_file(folder).unwrap();
}

#[test]
fn a_connection_is_given_up_after_its_requests_or_its_time() {
    let server = good();
    let mut load = server.load(1, 100);
    load.rules.most_requests = Some(7);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 100)]);
    assert_eq!(measured.account.books.connections.opened, 15);
    assert_eq!(measured.threads[0].most_requests, 7);

    let server = Server::start(|mut asked| {
        std::thread::sleep(Duration::from_millis(10));
        asked.answer("200 OK", "good")
    });
    let mut load = server.load(1, 20);
    load.rules.lifetime_ns = Some(45 * MS);
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 20)]);
    let opened = measured.account.books.connections.opened;
    assert!((3..=8).contains(&opened), "{opened}");
}

#[test]
fn pipelined_requests_are_answered_in_order_and_a_close_loses_none() {
    let server = good();
    let load = Load {
        lanes: 4,
        ..server.load(8, 400)
    };
    let measured = carry_out(&load);
    assert_eq!(rows(&measured), [("ok", 400)]);
    assert_eq!((server.seen(), measured.most_connections), (400, 2));

    // Every tenth answer closes its connection; what was sent behind it is not lost.
    let server = Server::start(|mut asked| match asked.number % 10 {
        9 => {
            asked.say("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            std::thread::sleep(Duration::from_millis(2));
            Then::Close
        }
        _ => asked.answer("200 OK", "good"),
    });
    let load = Load {
        lanes: 4,
        ..server.load(4, 100)
    };
    let measured = carry_out(&load);
    let books = &measured.account.books;
    assert_eq!(books.attempts(), 100);
    let stale = books.errors(speedwell_load::books::Class::EofStale);
    assert_eq!(books.succeeded() + stale, 100, "{:?}", rows(&measured));
    assert_eq!(server.seen(), books.succeeded());
    assert!(stale > 0);
}

#[test]
fn a_body_is_held_against_its_rule() {
    let odd = || {
        Server::start(|mut asked| match asked.number % 2 {
            0 => asked.answer("200 OK", "the good one"),
            _ => asked.answer("200 OK", "bad"),
        })
    };
    for rule in [BodyRule::Contains(b"good".to_vec()), BodyRule::Length(12)] {
        let server = odd();
        let load = Load {
            success: Success {
                body: Some(rule),
                ..Success::default()
            },
            ..server.load(2, 40)
        };
        let measured = carry_out(&load);
        assert_eq!(rows(&measured), [("ok", 20), ("assertion", 20)]);
    }
    let server = Server::start(|mut asked| asked.answer("302 Found", ""));
    let load = Load {
        success: Success {
            statuses: vec![200..=299, 302..=302],
            body: None,
        },
        ..server.load(2, 10)
    };
    assert_eq!(rows(&carry_out(&load)), [("ok", 10)]);
}

#[test]
fn a_request_before_the_load_tells_what_the_server_is() {
    let server = Server::start(|mut asked| {
        asked.say("HTTP/1.1 404 Not Found\r\nServer: tiny\r\nContent-Type: text/plain\r\n");
        asked.say("Content-Length: 5\r\n\r\nnope\n");
        Then::Keep
    });
    let stop = AtomicBool::new(false);
    let probe = generator::probe(&server.load(3, 100), &stop).unwrap();
    assert_eq!((probe.status, probe.is_success), (404, false));
    assert_eq!(probe.server.as_deref(), Some("tiny"));
    assert_eq!(probe.content_type.as_deref(), Some("text/plain"));
    assert_eq!(
        (probe.body.as_slice(), probe.body_bytes),
        (&b"nope\n"[..], 5)
    );
    assert!(probe.is_reusable && probe.tls.is_none());
    assert_eq!(server.seen(), 1);

    let deaf = Server::start(|_| Then::Hold);
    let mut load = deaf.load(1, 1);
    load.rules.timeouts = Timeouts {
        total_ns: Some(60 * MS),
        ..Timeouts::default()
    };
    let error = generator::probe(&load, &stop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the whole answer took longer than the limit"
    );
}

#[test]
fn times_agree_with_a_log_that_the_server_keeps() {
    // The server takes a different time for each request and writes down how long it was.
    let log: Arc<Mutex<Vec<u64>>> = Arc::default();
    let note = log.clone();
    let turn = AtomicU64::new(0);
    let server = Server::start(move |mut asked| {
        let began = Instant::now();
        let turn = turn.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(500 + (turn * 7919) % 4000));
        note.lock().unwrap().push(began.elapsed().as_nanos() as u64);
        asked.answer("200 OK", "good")
    });
    let load = Load {
        keeps_rows: true,
        ..server.load(4, 600)
    };
    let measured = carry_out(&load);
    let mut served = log.lock().unwrap().clone();
    let mut taken: Vec<u64> = measured
        .rows
        .iter()
        .map(|row| row.end_ns - row.sent_ns.unwrap())
        .collect();
    served.sort_unstable();
    taken.sort_unstable();
    assert_eq!(served.len(), taken.len());
    // No request is quicker than its server, and the k-th quickest no quicker than the k-th.
    assert!(
        served
            .iter()
            .zip(&taken)
            .all(|(served, taken)| served <= taken)
    );
    // The histogram tells the percentiles of these very times to a thousandth.
    let service: &Distribution<_> = measured.account.latency.service();
    for ppm in [10_000, 250_000, 500_000, 900_000, 990_000, 1_000_000] {
        let rank = (600 * u64::from(ppm)).div_ceil(1_000_000) as usize;
        let (exact, told) = (taken[rank - 1], service.quantile(ppm).unwrap().ns);
        assert!(
            told >= exact && told - exact <= exact / 1000 + 1,
            "{ppm}: {exact} {told}"
        );
    }
}
