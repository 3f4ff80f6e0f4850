//! A dashboard of a store under test, in this process.

use super::served::{TestConnection, TestResponse, local_options};
use speedwell_analysis::AnalysisSettings;
use speedwell_analysis::history::ProjectHistory;
use speedwell_formats::json_lines;
use speedwell_model::Session;
use speedwell_model::stored::{StoredToken, TokenScope};
use speedwell_server::dashboard::{AccessRules, CommandLookups, PlanSummary, SiteState, router};
use speedwell_server::http::token::AccessToken;
use speedwell_server::http::{BoundAddress, HttpServer, ServerStopper};
use speedwell_store::Store;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Lookups that need neither a repository nor options. Nothing can be compared, and there is no
/// history.
const LOOKUPS: CommandLookups = CommandLookups {
    session: |store, reference| store.resolve_reference(&reference.parse()?),
    sources: |_, _| anyhow::bail!("there is nothing to compare"),
    settings: |_| Ok(AnalysisSettings::default()),
    mark_known: |_, _, _| {},
    gate: |_, _, _| anyhow::bail!("there is nothing to compare"),
    planned: |_, _| Ok(PlanSummary::default()),
    summarize: |_| Ok(0),
    history: |_, _, _| Ok(ProjectHistory::default()),
};

/// Everyone may read, nobody may write.
pub const OPEN: AccessRules =
    AccessRules { allows_anonymous_reads: true, has_key: false, has_tls: false };
/// Nobody may do anything without a token.
pub const PRIVATE: AccessRules = AccessRules { allows_anonymous_reads: false, ..OPEN };

/// Server of a store on a thread of this process, stopped on drop. Its first project is `demo`.
pub struct TestSite {
    pub site: Arc<SiteState>,
    pub path: PathBuf,
    address: SocketAddr,
    stopper: ServerStopper,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

impl TestSite {
    /// Serves a store with what `fill` adds.
    pub fn start(rules: AccessRules, fill: impl FnOnce(&mut Store)) -> TestSite {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("demo.db");
        fill(&mut Store::open(&path).unwrap());
        let options = local_options();
        let stopper = options.stopper.clone();
        let site = Arc::new(SiteState::new(&path, LOOKUPS, rules, &stopper).unwrap());
        let server = HttpServer::bind(options, router(site.clone())).unwrap();
        let BoundAddress::Tcp(address) = server.addresses()[0].clone() else {
            panic!("not a TCP socket");
        };
        let thread = Some(std::thread::spawn(move || server.run().unwrap()));
        TestSite { site, path, address, stopper, thread, _folder: folder }
    }

    /// Opens a connection and sends a request with these header fields.
    pub fn send(
        &self,
        request: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> TestConnection<TcpStream> {
        let mut head = format!("{request} HTTP/1.1\r\nHost: {}\r\n", self.address);
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        let mut connection = TestConnection::new(TcpStream::connect(self.address).unwrap());
        connection.send(head);
        connection.send(body);
        connection
    }

    /// Sends a request such as `GET /demo/`, and reads the response.
    pub fn request(&self, request: &str, fields: &[(&str, &str)], body: &[u8]) -> TestResponse {
        let mut connection = self.send(request, fields, body);
        if request.starts_with("HEAD ") {
            connection.read_head().unwrap()
        } else {
            connection.read_response()
        }
    }

    pub fn get(&self, path: &str) -> TestResponse {
        self.request(&format!("GET {path}"), &[], b"")
    }

    /// Sends a request with a token.
    pub fn with_token(&self, request: &str, token: &AccessToken, body: &[u8]) -> TestResponse {
        let bearer = format!("Bearer {}", token.expose());
        self.request(request, &[("Authorization", &bearer)], body)
    }
}

impl Drop for TestSite {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Stores a token for all projects.
pub fn add_token(store: &mut Store, name: &str, scope: TokenScope) -> AccessToken {
    let token = AccessToken::new().unwrap();
    let stored = StoredToken {
        id: token.id().to_owned(),
        digest: token.digest().as_bytes().to_vec(),
        name: name.to_owned(),
        scopes: vec![scope],
        project: None,
        branches: None,
        machines: None,
        created_unix_ms: 0,
        expires_unix_ms: None,
        used_unix_ms: None,
        revoked_unix_ms: None,
    };
    store.add_token(&stored).unwrap();
    token
}

/// A session that another tool measured.
pub fn imported_session() -> Session {
    let lines = include_str!("../../../speedwell/tests/golden/json-lines/timeit.jsonl");
    json_lines::read(lines).unwrap().remove(0)
}
