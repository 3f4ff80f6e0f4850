//! Searches by the whole program against a server of known capacity: four slots, each of which
//! takes 5 ms per response, so that throughput grows up to 4 concurrent requests and no further.

use super::busy::{ensure_holds, retry_busy};
use super::project::TempProject;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const PLACES: u32 = 4;
const WORK: Duration = Duration::from_millis(5);

/// Number of free slots, and who waits for one.
type FreeSlots = Arc<(Mutex<u32>, Condvar)>;

/// Starts the server and returns its address. It ends with the test program.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let free: FreeSlots = Arc::new((Mutex::new(PLACES), Condvar::new()));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let free = Arc::clone(&free);
            std::thread::spawn(move || serve(stream, &free));
        }
    });
    format!("http://{address}/")
}

/// Serves the requests of one connection, one at a time.
fn serve(mut stream: TcpStream, free: &FreeSlots) {
    let (count, changed) = &**free;
    let mut request = Vec::new();
    let mut bytes = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut bytes) {
        request.extend_from_slice(&bytes[..read]);
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        request.clear();
        let guard = changed.wait_while(count.lock().unwrap(), |free| *free == 0);
        *guard.unwrap() -= 1;
        std::thread::sleep(WORK);
        *count.lock().unwrap() += 1;
        changed.notify_one();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Runs a search that needs successful responses at each level; with such short loads a level may
/// end without one if other load delays the server or the generator.
fn try_search(project: &TempProject, words: &str) -> Result<Value, String> {
    let words: Vec<&str> = words.split_whitespace().collect();
    let answer = project.run(&words);
    ensure_holds(answer.status == 0, || format!("{answer:#?}"))?;
    serde_json::from_str(&answer.stdout).map_err(|error| format!("{error} in {answer:#?}"))
}

/// Runs a search that must succeed; returns its JSON.
fn json(project: &TempProject, words: &str) -> Value {
    let words: Vec<&str> = words.split_whitespace().collect();
    let answer = project.run(&words).expect_status(0);
    answer.json()
}

fn grew_up_to_the_slots(found: &Value) -> Result<(), String> {
    let levels = found["levels"].as_array().unwrap();
    let level = |at: usize| levels[at]["concurrency"].as_u64().unwrap();
    assert_eq!([level(0), level(1)], [1, 2]);
    let visits = levels.iter().map(|level| level["visits"].as_u64());
    assert!(visits.min().flatten() >= Some(3), "{levels:#?}");
    let scaling = &found["scaling"][0];
    let knee = scaling["concurrency"].as_u64().unwrap();
    let throughput = scaling["throughput"].as_f64().unwrap();
    let is_right = (3..=6).contains(&knee) && scaling["still_grows"] == false;
    // 4 slots of 5 ms serve at most 800 requests a second.
    assert!(throughput <= 810.0, "{throughput}");
    ensure_holds(is_right && throughput >= 300.0, || format!("{found:#}"))
}

#[test]
fn a_list_measures_its_levels_and_no_others() {
    let url = server();
    retry_busy(1, || levels_of_a_list(&url));
}

fn levels_of_a_list(url: &str) -> Result<(), String> {
    let project = TempProject::new();
    let found = try_search(
        &project,
        &format!("load {url} -c 1,2,8 -r 2 -t 100ms -w 0 --format json -o levels.svg"),
    )?;
    let levels: Vec<(u64, u64)> = found["levels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|level| {
            let number = |key: &str| level[key].as_u64().unwrap();
            (number("concurrency"), number("visits"))
        })
        .collect();
    ensure_holds(levels == [(1, 2), (2, 2), (8, 2)], || format!("{found:#}"))?;
    let refused = found["scaling"][0]["usl"]["refused"].as_str().unwrap();
    assert!(refused.starts_with("3 levels are too few"), "{refused}");
    assert!(project.path("levels.svg").exists());
    Ok(())
}

#[test]
fn options_that_contradict_a_search_are_refused() {
    let project = TempProject::new();
    let refused = [
        ("-c max --rate 100", "send requests on a schedule"),
        ("-c 1,2 --ramp 0-10:1s", "send requests on a schedule"),
        ("-c max -n 100", "--count has no effect"),
        ("-c 4 --patience 3", "hint: add -c max"),
        ("--rate max -c 1,2", "cannot be combined with several levels"),
        ("--rate max -r 3", "--runs has no effect"),
        ("--rate max --ramp 5:1s", "cannot be combined with --ramp"),
        ("-c max --client ab", "builtin client"),
        ("-c 2,2", "is given twice"),
        ("-c most", "or 'max'"),
        ("--squeeze -c 3", "cannot be used with"),
        ("-c max --threads 4 --concurrency-limit 2", "need at least 4"),
    ];
    for (words, why) in refused {
        let words = format!("load http://127.0.0.1:9/ {words}");
        let words: Vec<&str> = words.split_whitespace().collect();
        project.run(&words).expect_status(2).expect_stderr(&[why]);
    }
}

#[test]
fn a_load_at_a_rate_and_a_search_cannot_be_compared() {
    let url = server();
    let project = TempProject::new();
    // The search tries 200 on its way, so the two have a case in common.
    for words in ["--rate 200 -n 10", "--rate max -t 50ms -w 0s"] {
        let words = format!("load {url} {words} --seed 1");
        let answer = project.run(&words.split_whitespace().collect::<Vec<_>>());
        assert_eq!(answer.status, 0, "{answer:#?}");
    }
    let answer = project.run(&["compare", "@prev", "@latest"]).expect_status(2);
    let told = "cannot compare different kinds of load: '@prev' is a load at the rate 200/s, '@latest' is a search or list of";
    assert!(answer.stderr.contains(told), "{answer:#?}");
}

/// These pass beside each other, but not beside tests that compute.
mod mostly_waits {
    use super::*;

    #[test]
    fn throughput_stops_growing_at_the_slots_of_the_server() {
        let url = server();
        let words = format!(
            "load {url} -c max -t 200ms -w 50ms --concurrency-limit 32 --seed 1 --format json"
        );
        // A busy machine makes sleeps longer, which can blur the difference of one slot.
        retry_busy(2, || {
            let project = TempProject::new();
            let found = try_search(&project, &words)?;
            // Every visit is stored as a run of its own case, and the stored visits give the same
            // answer.
            project
                .run(&["report", "--x-axis", "concurrency"])
                .expect_status(0)
                .expect_stdout(&["throughput in 1/s by concurrency"]);
            let again = json(&project, "report --format json");
            assert_eq!(again["scaling"], found["scaling"]);
            grew_up_to_the_slots(&found)
        });
    }

    #[test]
    fn the_highest_rate_is_what_the_server_can_serve() {
        let project = TempProject::new();
        let url = server();
        let words = format!("load {url} --rate max -t 300ms -w 50ms --format json");
        // Other tests may keep the machine so busy for a while that the generator is late at every
        // rate.
        retry_busy(2, || {
            let found = try_search(&project, &words)?["highest_rate"].clone();
            let of = |key: &str| found[key].as_f64().ok_or(format!("{found:#}"));
            let (kept, missed) = (of("kept")?, of("missed")?);
            // 4 slots of 5 ms serve at most 800 requests a second.
            assert!(kept <= 820.0, "{kept}");
            ensure_holds(kept >= 5.0 && kept < missed && missed <= kept * 2.0, || {
                format!("{kept} {missed}")
            })
        });
        let words = format!("load {url} --rate max -t 200ms -w 0 --fail-on p50>1ms --format json");
        retry_busy(2, || {
            let impossible = try_search(&project, &words)?;
            // No response takes less than 5 ms, so no rate meets this limit.
            assert_eq!(impossible["highest_rate"]["kept"], Value::Null);
            let rows = impossible["rates"].as_array().unwrap();
            let is_why = |row: &Value| row["outcome"] == "--fail-on 'p50>1ms'";
            ensure_holds(rows.iter().any(is_why), || format!("{rows:#?}"))
        });
    }

    #[test]
    fn failures_of_an_overloaded_server_end_the_search() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let under_way = Arc::new(Mutex::new(0));
            for mut stream in listener.incoming().flatten() {
                let under_way = Arc::clone(&under_way);
                std::thread::spawn(move || {
                    let mut bytes = [0; 4096];
                    while let Ok(1..) = stream.read(&mut bytes) {
                        let at_once = {
                            let mut count = under_way.lock().unwrap();
                            *count += 1;
                            *count
                        };
                        std::thread::sleep(Duration::from_millis(3));
                        *under_way.lock().unwrap() -= 1;
                        let status = if at_once > 3 { "503 Busy" } else { "200 OK" };
                        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok");
                        if stream.write_all(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        retry_busy(1, || {
            let words = format!("load {url} -c max -t 150ms -w 50ms --format json");
            let found = try_search(&TempProject::new(), &words)?;
            let warnings = found["warnings"].to_string();
            let levels = found["levels"].as_array().unwrap();
            let highest = levels.last().unwrap();
            let is_right = warnings.contains("with 4 requests in flight")
                && highest["concurrency"] == 4
                && highest["verdict"] == "failed"
                && found["scaling"][0]["concurrency"].as_u64() <= Some(3);
            ensure_holds(is_right, || format!("{found:#}"))
        });
    }
}
