//! A server of this process that fuzz targets send requests to: the gate, the pages and the API, over a store with a session in
//! it. What comes out must be an answer of the server or nothing, never a mistake of ours.

use speedwell_analysis::Settings;
use speedwell_report::html::Assets;
use speedwell_formats::json_lines;
use speedwell_store::{Reference, Scope, Store, StoredToken};
use speedwell_server::http::token::Token;
use speedwell_server::http::{Address, Listen, Options, Server, Stopper};
use speedwell_server::dashboard::{Lookups, Planned, Rules, Site, Source};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A session to look at.
const SESSION: &str = include_str!("../../crates/speedwell/tests/golden/json-lines/timeit.jsonl");

/// Where the server is, and a token that may do everything.
pub struct Served {
    pub address: SocketAddr,
    pub token: String,
    pub project: String,
}

/// The server, which is started by the first who asks.
pub fn served() -> &'static Served {
    static SERVED: OnceLock<Served> = OnceLock::new();
    SERVED.get_or_init(start)
}

const LOOKUPS: Lookups = Lookups {
    session: |store, word| store.find(&word.parse()?),
    sources: |store, words| words.iter().map(|word| source(store, word)).collect(),
    settings: |_| Ok(Settings::default()),
    planned: |_, _| Ok(Planned::default()),
    history: |_, _| anyhow::bail!("there is no history here"),
};

fn source(store: &Store, word: &str) -> anyhow::Result<Source> {
    let reference: Reference = word.parse()?;
    Ok(Source {
        label: word.to_owned(),
        session: store.session(store.find(&reference)?)?,
        variant: None,
        taken_for: None,
    })
}

fn start() -> Served {
    let folder = std::env::temp_dir().join(format!("speedwell-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("fuzz.db");
    let token = Token::new().expect("random bytes");
    fill(&path, &token).expect("a store");
    let stopper = Stopper::new();
    let rules = Rules {
        reads_freely: true,
        has_key: false,
        has_tls: false,
    };
    let assets = Assets {
        style: "/s".into(),
        early_script: "/e".into(),
        script: "/j".into(),
    };
    let site = Site::new(&path, LOOKUPS, assets, rules, &stopper).expect("threads");
    let project = site.first.name.clone();
    let site = Arc::new(site);
    let router = speedwell_server::dashboard::router(site.clone());
    let router = router.merge(speedwell_server::dashboard::api(site).expect("threads"));
    let options = Options {
        listen: vec![Listen::Loopback { first: 0, last: 0 }],
        stopper,
        ..Options::default()
    };
    let server = Server::bind(options, router).expect("a port");
    let Address::Tcp(address) = server.addresses()[0].clone() else {
        unreachable!("it is no path")
    };
    std::thread::spawn(move || server.run().expect("it runs"));
    Served {
        address,
        token: token.expose().to_owned(),
        project,
    }
}

fn fill(path: &Path, token: &Token) -> anyhow::Result<()> {
    let mut store = Store::open(path)?;
    for session in json_lines::read(SESSION)? {
        store.insert(&session)?;
    }
    store.add_token(&StoredToken {
        id: token.id().to_owned(),
        digest: token.digest().as_bytes().to_vec(),
        name: "fuzz".into(),
        scopes: vec![Scope::Admin],
        project: None,
        branches: None,
        machines: None,
        created_unix_ms: 0,
        expires_unix_ms: None,
        used_unix_ms: None,
        revoked_unix_ms: None,
    })
}

/// The status of the answer to a whole request that asks for the connection's end.
///
/// # Panics
/// The server made a mistake, or does not answer.
pub fn status_of(request: &[u8]) -> u16 {
    status_if_any(request).expect("an answer")
}

/// The status of the answer to bytes in which a request may end early; nothing where the server hangs up without one.
///
/// # Panics
/// The server made a mistake.
pub fn status_if_any(bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(served().address).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time");
    // It may have had enough before the end. The writing side stays open: a client who closes it counts as gone.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    status_in(&answer)
}

fn status_in(answer: &[u8]) -> Option<u16> {
    let line = answer.strip_prefix(b"HTTP/1.1 ")?;
    let status = std::str::from_utf8(&line[..3]).ok()?.parse().ok()?;
    // What is away or full is no mistake, and neither happens here.
    assert!(
        status < 500 || status == 501 || status == 505,
        "{}",
        String::from_utf8_lossy(answer)
    );
    Some(status)
}

/// `text` with all but letters and digits escaped.
pub fn escaped(bytes: &[u8]) -> String {
    bytes
        .iter()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'&' | b'=' => char::from(*byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
