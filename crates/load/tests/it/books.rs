//! Random loads: the books always add up, and never when a request is lost.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_load::books::{Books, Class};

/// What happened to a request in a made-up load.
#[derive(Debug, Clone, Copy)]
enum Event {
    Attempt,
    Ok(u16),
    Status(u16),
    Assertion(u16),
    Reset(u32),
    ResetHttp3(u64),
    Failed(Class),
    Cancelled,
    Unsent,
    Interim(u16),
    Retry,
    Connect { works: bool },
    Send { is_reused: bool },
    Bytes(u64),
}

fn enter(books: &mut Books, event: Event) {
    match event {
        Event::Attempt => books.attempt(),
        Event::Ok(code) => books.ok(code),
        Event::Status(code) => books.refused_status(code),
        Event::Assertion(code) => books.failed_assertion(code),
        Event::Reset(code) => books.reset_stream(code),
        Event::ResetHttp3(code) => books.reset_http3_stream(code),
        Event::Failed(class) => books.failed(class),
        Event::Cancelled => books.cancelled(),
        Event::Unsent => books.unsent(),
        Event::Interim(code) => books.interim(code),
        Event::Retry => books.retried(),
        Event::Connect { works } => {
            books.connections.attempt();
            match works {
                true => books.connections.opened(),
                false => books.connections.failed(),
            }
        }
        Event::Send { is_reused } => books.connections.send(is_reused),
        Event::Bytes(count) => {
            books.bytes.received += count;
            books.bytes.body += count / 2;
            books.bytes.sent += count / 3;
        }
    }
}

/// A load of some requests with every kind of end, and the requests still under way after it.
fn load(seed: u64) -> (Vec<Event>, u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = |below: u64| random.next_u64() % below;
    let has_codes = [Class::H2Reset, Class::H3Reset];
    let classes: Vec<Class> = Class::all()
        .filter(|class| !class.is_answered() && !has_codes.contains(class))
        .collect();
    let (mut events, mut in_flight) = (Vec::new(), 0);
    for _ in 0..50 + draw(300) {
        events.push(Event::Attempt);
        events.push(Event::Connect { works: draw(3) > 0 });
        events.push(Event::Send {
            is_reused: draw(2) > 0,
        });
        events.push(Event::Bytes(draw(5000)));
        match draw(10) {
            0 => in_flight += 1,
            1 => events.push(Event::Status(400 + draw(200) as u16)),
            2 => events.push(Event::Assertion(200)),
            3 => events.push(Event::Reset(draw(20) as u32)),
            4 => events.push(Event::Failed(classes[draw(classes.len() as u64) as usize])),
            5 => events.push(Event::Cancelled),
            6 => events.push(Event::Unsent),
            7 => events.push(Event::ResetHttp3(0x100 + draw(20))),
            8 => events.extend([Event::Retry, Event::Interim(103), Event::Ok(200)]),
            _ => events.push(Event::Ok(draw(1200) as u16)),
        }
    }
    (events, in_flight)
}

fn books_of(events: &[Event], in_flight: u64) -> Books {
    let mut books = Books::new();
    for event in events {
        enter(&mut books, *event);
    }
    books.close(in_flight);
    books
}

#[test]
fn every_load_balances() {
    for seed in 0..300 {
        let (events, in_flight) = load(seed);
        let books = books_of(&events, in_flight);
        assert_eq!(books.balance(), Ok(()), "seed {seed}");
        let rows: u64 = books.rows().map(|row| row.count).sum();
        assert_eq!(rows, books.attempts());
    }
}

#[test]
fn a_lost_event_is_found_whichever_it_is() {
    for seed in 0..20 {
        let (events, in_flight) = load(seed);
        for lost in 0..events.len() {
            let enters = matches!(
                events[lost],
                Event::Retry
                    | Event::Interim(_)
                    | Event::Connect { .. }
                    | Event::Send { .. }
                    | Event::Bytes(_)
            );
            // These are whole by themselves; only the beginning and the end of a request are two
            // events that must meet.
            if enters {
                continue;
            }
            let mut rest = events.clone();
            rest.remove(lost);
            let wrong = books_of(&rest, in_flight).balance().unwrap_err();
            assert_eq!(
                wrong[0].left.abs_diff(wrong[0].right),
                1,
                "{:?}",
                events[lost]
            );
        }
        assert!(books_of(&events, in_flight + 1).balance().is_err());
    }
}

#[test]
fn the_books_say_what_does_not_add_up() {
    let mut books = Books::new();
    (0..40).for_each(|_| books.attempt());
    (0..20).for_each(|_| books.ok(200));
    (0..19).for_each(|_| books.failed(Class::EofInBody));
    // A status that leaves by the wrong door has no code.
    books.failed(Class::Status);
    books.connections.attempt();
    let said: Vec<String> = books
        .balance()
        .unwrap_err()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said,
        [
            "whole answers are 21, but counted statuses are 20",
            "attempts to connect are 1, but connections accounted for are 0",
        ]
    );
    books.connections.failed();
    books.attempt();
    let said = books.balance().unwrap_err()[0].to_string();
    assert_eq!(
        said,
        "requests attempted are 41, but requests accounted for are 40"
    );
}

#[test]
fn merged_books_are_those_of_one_recording_in_any_grouping() {
    for seed in 0..50 {
        let (events, in_flight) = load(seed);
        let whole = books_of(&events, in_flight);
        let mut parts = [Books::new(), Books::new(), Books::new()];
        for (place, event) in events.iter().enumerate() {
            enter(&mut parts[place % 3], *event);
        }
        parts[1].close(in_flight);
        let [a, b, c] = parts;
        let sum = |left: &Books, right: &Books| {
            let mut sum = left.clone();
            sum.merge(right);
            sum
        };
        assert_eq!(sum(&sum(&a, &b), &c), whole);
        assert_eq!(sum(&a, &sum(&b, &c)), whole);
        assert_eq!(sum(&sum(&c, &a), &b), whole);
    }
}

#[test]
fn books_survive_a_file_and_refuse_unknown_classes() {
    for seed in 0..20 {
        let (events, in_flight) = load(seed);
        let books = books_of(&events, in_flight);
        let text = serde_json::to_string(&books).unwrap();
        assert_eq!(serde_json::from_str::<Books>(&text).unwrap(), books);
    }
    let mut books = Books::new();
    books.attempt();
    books.failed(Class::ResetInBody);
    let text = serde_json::to_string(&books).unwrap();
    assert!(text.contains(r#""errors":{"reset.in-body":1}"#), "{text}");
    let other = text.replace("reset.in-body", "reset.in-hand");
    let error = serde_json::from_str::<Books>(&other).unwrap_err();
    assert!(error.to_string().contains("'reset.in-hand'"), "{error}");
}

#[test]
fn statuses_are_counted_by_code_and_by_hundred() {
    let mut books = Books::new();
    for code in [200, 200, 204, 404, 503, 999, 42] {
        books.attempt();
        books.ok(code);
    }
    books.interim(103);
    let codes = books.codes();
    assert_eq!(
        (codes.of(200), codes.of_hundred(2), codes.of_hundred(5)),
        (2, 3, 1)
    );
    assert_eq!((codes.of(103), books.interim_codes().of(103)), (0, 1));
    assert_eq!((codes.outside(), codes.total()), (1, 7));
    assert_eq!(books.balance(), Ok(()));
    // Interim answers are those below 200; anything else was an answer.
    books.interim(200);
    assert!(books.balance().is_err());
}
