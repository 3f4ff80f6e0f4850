//! Random loads: counts always balance, and never if a request is lost.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use speedwell_model::load::outcomes::{ErrorClass, OutcomeCounts};

/// An event in a simulated load.
#[derive(Debug, Clone, Copy)]
enum Event {
    Attempt,
    Ok(u16),
    Status(u16),
    Assertion(u16),
    Reset(u32),
    ResetHttp3(u64),
    Failed(ErrorClass),
    Cancelled,
    Unsent,
    Interim(u16),
    Retry,
    Connect { works: bool },
    Send { is_reused: bool },
    Bytes(u64),
}

fn enter(outcomes: &mut OutcomeCounts, event: Event) {
    match event {
        Event::Attempt => outcomes.count_attempt(),
        Event::Ok(code) => outcomes.count_ok(code),
        Event::Status(code) => outcomes.count_failed_response(ErrorClass::Status, code),
        Event::Assertion(code) => outcomes.count_failed_response(ErrorClass::Assertion, code),
        Event::Reset(code) => outcomes.count_reset_stream(code),
        Event::ResetHttp3(code) => outcomes.count_reset_http3_stream(code),
        Event::Failed(class) => outcomes.count_failed(class),
        Event::Cancelled => outcomes.cancelled += 1,
        Event::Unsent => outcomes.unsent += 1,
        Event::Interim(code) => outcomes.interim_codes.count_status(code),
        Event::Retry => outcomes.retries += 1,
        Event::Connect { works } => {
            outcomes.connections.tried += 1;
            if works { outcomes.connections.opened += 1 } else { outcomes.connections.failed += 1 }
        }
        Event::Send { is_reused } => outcomes.connections.count_send(is_reused),
        Event::Bytes(count) => {
            outcomes.bytes.received += count;
            outcomes.bytes.body += count / 2;
            outcomes.bytes.sent += count / 3;
        }
    }
}

/// Events of a load whose requests end in every way, and the number still in flight.
fn load(seed: u64) -> (Vec<Event>, u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut draw = |below: u64| random.next_u64() % below;
    let has_codes = [ErrorClass::H2Reset, ErrorClass::H3Reset];
    let classes: Vec<ErrorClass> = ErrorClass::all_classes()
        .filter(|class| !class.has_response() && !has_codes.contains(class))
        .collect();
    let (mut events, mut in_flight) = (Vec::new(), 0);
    for _ in 0..50 + draw(300) {
        events.push(Event::Attempt);
        events.push(Event::Connect { works: draw(3) > 0 });
        events.push(Event::Send { is_reused: draw(2) > 0 });
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

fn outcomes_of(events: &[Event], in_flight: u64) -> OutcomeCounts {
    let mut outcomes = OutcomeCounts::default();
    for event in events {
        enter(&mut outcomes, *event);
    }
    outcomes.in_flight = in_flight;
    outcomes
}

#[test]
fn every_load_balances() {
    for seed in 0..300 {
        let (events, in_flight) = load(seed);
        let outcomes = outcomes_of(&events, in_flight);
        assert_eq!(outcomes.check_balance(), Ok(()), "seed {seed}");
        let rows: u64 = outcomes.rows().map(|row| row.count).sum();
        assert_eq!(rows, outcomes.attempts());
    }
}

#[test]
fn any_single_lost_event_is_detected() {
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
            // These are complete on their own; only the start and the end of a request are two
            // events that must match.
            if enters {
                continue;
            }
            let mut rest = events.clone();
            rest.remove(lost);
            let wrong = outcomes_of(&rest, in_flight).check_balance().unwrap_err();
            assert_eq!(wrong[0].left.abs_diff(wrong[0].right), 1, "{:?}", events[lost]);
        }
        assert!(outcomes_of(&events, in_flight + 1).check_balance().is_err());
    }
}

#[test]
fn count_mismatches_are_reported_with_both_counts() {
    let mut outcomes = OutcomeCounts::default();
    (0..40).for_each(|_| outcomes.count_attempt());
    (0..20).for_each(|_| outcomes.count_ok(200));
    (0..19).for_each(|_| outcomes.count_failed(ErrorClass::EofInBody));
    // A failed status that is counted without its code.
    outcomes.count_failed(ErrorClass::Status);
    outcomes.connections.tried += 1;
    let messages: Vec<String> =
        outcomes.check_balance().unwrap_err().iter().map(ToString::to_string).collect();
    assert_eq!(
        messages,
        [
            "count mismatch: 21 complete responses, 20 counted statuses",
            "count mismatch: 1 attempts to connect, 0 connections accounted for",
        ]
    );
    outcomes.connections.failed += 1;
    outcomes.count_attempt();
    let message = outcomes.check_balance().unwrap_err()[0].to_string();
    assert_eq!(message, "count mismatch: 41 requests attempted, 40 requests accounted for");
}

#[test]
fn merged_outcomes_equal_a_single_recording_in_any_grouping() {
    for seed in 0..50 {
        let (events, in_flight) = load(seed);
        let whole = outcomes_of(&events, in_flight);
        let mut parts =
            [OutcomeCounts::default(), OutcomeCounts::default(), OutcomeCounts::default()];
        for (place, event) in events.iter().enumerate() {
            enter(&mut parts[place % 3], *event);
        }
        parts[1].in_flight = in_flight;
        let [a, b, c] = parts;
        let sum = |left: &OutcomeCounts, right: &OutcomeCounts| {
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
fn outcomes_survive_a_file_and_refuse_unknown_classes() {
    for seed in 0..20 {
        let (events, in_flight) = load(seed);
        let outcomes = outcomes_of(&events, in_flight);
        let text = serde_json::to_string(&outcomes).unwrap();
        assert_eq!(serde_json::from_str::<OutcomeCounts>(&text).unwrap(), outcomes);
    }
    let mut outcomes = OutcomeCounts::default();
    outcomes.count_attempt();
    outcomes.count_failed(ErrorClass::ResetInBody);
    let text = serde_json::to_string(&outcomes).unwrap();
    assert!(text.contains(r#""errors":{"reset.in-body":1}"#), "{text}");
    let other = text.replace("reset.in-body", "reset.in-hand");
    let error = serde_json::from_str::<OutcomeCounts>(&other).unwrap_err();
    assert!(error.to_string().contains("'reset.in-hand'"), "{error}");
}

#[test]
fn statuses_are_counted_by_code_and_by_class() {
    let mut outcomes = OutcomeCounts::default();
    for code in [200, 200, 204, 404, 503, 999, 42] {
        outcomes.count_attempt();
        outcomes.count_ok(code);
    }
    outcomes.interim_codes.count_status(103);
    let codes = &outcomes.codes;
    assert_eq!((codes.count_of(200), codes.class_count(2), codes.class_count(5)), (2, 3, 1));
    assert_eq!((codes.count_of(103), outcomes.interim_codes.count_of(103)), (0, 1));
    assert_eq!((codes.outside, codes.total()), (1, 7));
    assert_eq!(outcomes.check_balance(), Ok(()));
    // Interim responses have codes below 200.
    outcomes.interim_codes.count_status(200);
    assert!(outcomes.check_balance().is_err());
}
