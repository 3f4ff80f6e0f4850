//! A server in this process, to which fuzz targets send requests. It serves the pages and the API
//! of a store with one session. A response must never be an internal error.

use speedwell_analysis::AnalysisSettings;
use speedwell_analysis::history::ProjectHistory;
use speedwell_formats::json_lines;
use speedwell_model::stored::{StoredToken, TokenScope};
use speedwell_server::dashboard::{
    AccessRules, CommandLookups, ComparisonSource, PlanSummary, SiteState, router,
};
use speedwell_server::http::token::AccessToken;
use speedwell_server::http::{
    BoundAddress, HttpServer, ListenAddress, ServerOptions, ServerStopper,
};
use speedwell_store::Store;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The only session of the store.
const SESSION: &str = include_str!("../../crates/speedwell/tests/golden/json-lines/timeit.jsonl");

/// A running server.
pub struct FuzzServer {
    pub address: SocketAddr,
    /// Token with all permissions.
    pub token: String,
    /// Name of the project.
    pub project: String,
}

/// Returns the server; the first call starts it.
pub fn fuzz_server() -> &'static FuzzServer {
    static SERVER: OnceLock<FuzzServer> = OnceLock::new();
    SERVER.get_or_init(start)
}

/// Lookups that need neither a repository nor options.
const LOOKUPS: CommandLookups = CommandLookups {
    session: |store, reference| store.resolve_reference(&reference.parse()?),
    sources: |store, words| words.iter().map(|word| read_source(store, word)).collect(),
    settings: |_| Ok(AnalysisSettings::default()),
    mark_known: |_, _, _| {},
    gate: |_, _, _| anyhow::bail!("there are no gates here"),
    planned: |_, _| Ok(PlanSummary::default()),
    summarize: |_| Ok(0),
    history: |_, _, _| Ok(ProjectHistory::default()),
};

fn read_source(store: &Store, reference: &str) -> anyhow::Result<ComparisonSource> {
    let number = store.resolve_reference(&reference.parse()?)?;
    Ok(ComparisonSource {
        label: reference.to_owned(),
        session: store.load_session(number)?,
        variant: None,
        resolved_as: None,
    })
}

fn start() -> FuzzServer {
    let folder = std::env::temp_dir().join(format!("speedwell-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("fuzz.db");
    let token = AccessToken::new().expect("random bytes");
    fill_store(&path, &token).expect("a store");
    let stopper = ServerStopper::new();
    let rules = AccessRules { allows_anonymous_reads: true, has_key: false, has_tls: false };
    let site = Arc::new(SiteState::new(&path, LOOKUPS, rules, &stopper).expect("a site"));
    let project = site.first.name.clone();
    let options = ServerOptions {
        listen: vec![ListenAddress::Loopback { first: 0, last: 0 }],
        stopper,
        ..ServerOptions::default()
    };
    let server = HttpServer::bind(options, router(site)).expect("a port");
    let BoundAddress::Tcp(address) = server.addresses()[0].clone() else {
        unreachable!("the server listens on loopback")
    };
    std::thread::spawn(move || server.run().expect("a running server"));
    FuzzServer { address, token: token.expose().to_owned(), project }
}

fn fill_store(path: &Path, token: &AccessToken) -> anyhow::Result<()> {
    let mut store = Store::open(path)?;
    for session in json_lines::read(SESSION)? {
        store.insert_session(&session)?;
    }
    store.add_token(&StoredToken {
        id: token.id().to_owned(),
        digest: token.digest().as_bytes().to_vec(),
        name: "fuzz".into(),
        scopes: vec![TokenScope::Admin],
        project: None,
        branches: None,
        machines: None,
        created_unix_ms: 0,
        expires_unix_ms: None,
        used_unix_ms: None,
        revoked_unix_ms: None,
    })
}

/// Sends a complete request, which must ask to close the connection, and returns the status of the
/// response.
///
/// # Panics
/// Panics on an internal error of the server, or if there is no response.
pub fn status_of(request: &[u8]) -> u16 {
    status_if_any(request).expect("a response")
}

/// Sends bytes, in which a request may end early, and returns the status of the first response;
/// `None` if the server closes the connection without one.
///
/// # Panics
/// Panics on an internal error of the server.
pub fn status_if_any(bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(fuzz_server().address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    // The server may close the connection before the end of the bytes. The writing side stays open,
    // because the server drops the request of a client that closes it.
    let _ = stream.write_all(bytes);
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response);
    parse_status(&response)
}

fn parse_status(response: &[u8]) -> Option<u16> {
    let line = response.strip_prefix(b"HTTP/1.1 ")?;
    let status = std::str::from_utf8(&line[..3]).ok()?.parse().ok()?;
    // The store is neither full nor unreachable here, so that 503 and 507 are errors, too.
    let is_internal_error = status >= 500 && ![501, 505].contains(&status);
    assert!(!is_internal_error, "{}", String::from_utf8_lossy(response));
    Some(status)
}

/// Escapes everything except letters, digits, `&` and `=` for an address.
pub fn escape_query(bytes: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'&' | b'=' => char::from(*byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    bytes.iter().map(escape).collect()
}
