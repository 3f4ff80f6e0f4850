//! A connection between the pushing program and a server that is cut after every number of bytes,
//! in either direction. Afterwards the outbox is complete and each session is stored once.

use super::back_ends::{StorePlace, on_both};
use super::project::TempProject;
use super::push::{core, lines, session, without_number};
use super::team_server::TeamServer;
use speedwell_model::Session;
use speedwell_store::{SessionFilter, Store};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

on_both! {
    a_line_that_is_cut_anywhere_neither_blocks_nor_loses_anything
    #[ignore = "after each byte: half a minute"]
    a_line_that_is_cut_after_each_byte_neither_blocks_nor_loses_anything
}

/// Number of proxies whose connections are cut: a server unavailable at one address is still tried
/// at the others.
const LINES: usize = 8;

/// Where a connection is cut: after this many bytes towards the server, or back.
#[derive(Clone, Copy)]
enum ConnectionCut {
    There(usize),
    Back(usize),
}

/// A proxy with a cut for each of its connections, until there are none left; then it forwards
/// everything.
struct CuttingProxy {
    address: String,
    cuts: Arc<Mutex<VecDeque<ConnectionCut>>>,
    /// Number of bytes forwarded in each direction.
    carried: Arc<[AtomicUsize; 2]>,
}

impl CuttingProxy {
    fn proxy_to(server: &TeamServer, cuts: VecDeque<ConnectionCut>) -> CuttingProxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let cuts = Arc::new(Mutex::new(cuts));
        let (there, left) = (server.address.clone(), cuts.clone());
        let carried: Arc<[AtomicUsize; 2]> = Arc::default();
        let counted = carried.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let cut = left.lock().unwrap().pop_front();
                // Fails when the test ends.
                let Ok(server) = TcpStream::connect(&there) else {
                    return;
                };
                let (there, counted) = (there.clone(), counted.clone());
                std::thread::spawn(move || {
                    forward_bytes([&client, &server], &there, cut, &counted)
                });
            }
        });
        CuttingProxy { address, cuts, carried }
    }

    fn url(&self) -> String {
        format!("http://{}/core", self.address)
    }

    fn cuts_left(&self) -> usize {
        self.cuts.lock().unwrap().len()
    }
}

/// Forwards bytes in both directions until the cut.
fn forward_bytes(
    [client, server]: [&TcpStream; 2],
    name: &str,
    cut: Option<ConnectionCut>,
    carried: &[AtomicUsize; 2],
) {
    let (there, back) = match cut {
        None => (usize::MAX, usize::MAX),
        Some(ConnectionCut::There(after)) => (after, usize::MAX),
        Some(ConnectionCut::Back(after)) => (usize::MAX, after),
    };
    let own = client.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            copy([server, client], back, ("", ""), &carried[1]);
            hang_up(client, server);
        });
        // The server responds only under its own name.
        if copy([client, server], there, (&own, name), &carried[0]) {
            hang_up(client, server);
        }
    });
}

fn hang_up(client: &TcpStream, server: &TcpStream) {
    for end in [client, server] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// Copies at most `most` bytes; returns whether that limit ended it. Replaces a name in the first
/// of them.
fn copy(
    [mut from, mut to]: [&TcpStream; 2],
    most: usize,
    (name, other): (&str, &str),
    carried: &AtomicUsize,
) -> bool {
    let (mut left, mut bytes) = (most, vec![0; 16 << 10]);
    while left > 0 {
        let read = from.read(&mut bytes).unwrap_or(0);
        if read == 0 {
            let _ = to.shutdown(Shutdown::Write);
            return false;
        }
        let mut part = bytes[..read].to_vec();
        let mut places = part.windows(name.len().max(1));
        if let Some(at) = places.position(|found| found == name.as_bytes()) {
            part.splice(at..at + name.len(), other.bytes());
        }
        part.truncate(left);
        left -= part.len();
        carried.fetch_add(part.len(), Ordering::SeqCst);
        if to.write_all(&part).is_err() {
            return false;
        }
    }
    true
}

/// Cuts at each multiple of a number of bytes of a request and of a response, divided among the
/// proxies.
fn cuts([request, answer]: [usize; 2], step: usize) -> [VecDeque<ConnectionCut>; LINES] {
    let there = (0..request).step_by(step).map(ConnectionCut::There);
    let back = (0..answer).step_by(step).map(ConnectionCut::Back);
    let mut dealt: [VecDeque<ConnectionCut>; LINES] = Default::default();
    for (at, cut) in there.chain(back).enumerate() {
        dealt[at % LINES].push_back(cut);
    }
    dealt
}

/// Sizes of the request that pushes this session, and of its response, in bytes.
fn sizes(server: &TeamServer, project: &TempProject, session: &Session) -> [usize; 2] {
    let line = CuttingProxy::proxy_to(server, VecDeque::new());
    std::fs::write(project.path("first.jsonl"), lines(session)).unwrap();
    let words = ["push", "first.jsonl", "--to", &line.url(), "-q"];
    server.run(project, &words).expect_status(0);
    line.carried.each_ref().map(|count| count.load(Ordering::SeqCst))
}

fn a_line_that_is_cut_anywhere_neither_blocks_nor_loses_anything(place: &StorePlace) {
    push_through_cuts(place, 31);
}

fn a_line_that_is_cut_after_each_byte_neither_blocks_nor_loses_anything(place: &StorePlace) {
    push_through_cuts(place, 1);
}

fn push_through_cuts(place: &StorePlace, step: usize) {
    let project = TempProject::new();
    let server = TeamServer::of(&project, place);
    let told: Vec<Session> = (0..3).map(|n| session(&format!("0197-c1e{n}"), 3)).collect();
    let planned = cuts(sizes(&server, &project, &told[0]), step);
    let all: usize = planned.iter().map(VecDeque::len).sum();
    let text = told[1..].iter().flat_map(lines).collect::<Vec<u8>>();
    std::fs::write(project.path("all.jsonl"), text).unwrap();
    project.run(&["import", "all.jsonl", "-q"]).expect_status(0);
    let lines = planned.map(|cuts| CuttingProxy::proxy_to(&server, cuts));
    let at_once = ["--wait", "1ms", "-q"];
    for line in &lines {
        let url = line.url();
        let words = [&["push", "@2", "@3", "--to", &url], &at_once[..]].concat();
        server.run(&project, &words).expect_status(2);
    }
    let mut rounds = 1;
    while server.run(&project, &[&["push"], &at_once[..]].concat()).status != 0 {
        rounds += 1;
        assert!(rounds <= all, "it does not come through");
    }
    let left: usize = lines.iter().map(CuttingProxy::cuts_left).sum();
    // Requests differ in length by a few bytes.
    assert!(left * 20 <= all, "{left} of {all} cuts met nobody");
    eprintln!("{} cuts in {rounds} rounds", all - left);
    let outbox = Store::open(&project.path(".speedwell/results.db")).unwrap();
    let outbox = outbox.list_uploads().unwrap();
    assert_eq!(outbox.len(), LINES * 2 + 1);
    assert!(outbox.iter().all(|item| item.sent_unix_ms.is_some()), "{outbox:?}");
    let there = core(place);
    assert_eq!(there.count_sessions(&SessionFilter::default()).unwrap(), told.len());
    for session in &told {
        assert_eq!(without_number(&there, &session.id), *session);
    }
}
