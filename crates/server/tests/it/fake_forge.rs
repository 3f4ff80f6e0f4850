//! A fake forge: keeps the comments and statuses of one pull request, in the formats of the APIs of
//! GitHub, GitLab and Gitea, and fails on request.

// Two test binaries use this module, and neither uses all of it.
#![allow(dead_code)]

use serde_json::{Value, json};
use speedwell_server::clients::forge::ForgeKind;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// How the next request fails.
#[derive(Debug, Clone)]
pub enum RequestFault {
    /// A status without a message.
    Status(u16),
    /// A status with the forge's message.
    Words(u16, &'static str),
    /// A status, with a Retry-After header in seconds.
    RetryAfter(u16, u32),
    /// No response.
    Close,
}

/// An existing comment.
#[derive(Debug, Clone)]
pub struct FakeComment {
    pub id: u64,
    pub author: String,
    pub body: String,
}

#[derive(Debug, Default)]
struct ForgeState {
    next: u64,
    comments: Vec<FakeComment>,
    statuses: Vec<Value>,
    faults: VecDeque<RequestFault>,
    refused: Option<u16>,
    refuses_comments_alone: bool,
    before_next: Option<String>,
    status_before_next: Option<Value>,
    redirect: Option<String>,
    always: Option<String>,
    is_job: bool,
    foreign_tokens: usize,
    requests: usize,
}

/// A forge at a local address, for the duration of the test.
pub struct FakeForge {
    pub forge: ForgeKind,
    pub address: String,
    state: Arc<Mutex<ForgeState>>,
}

struct FakeRequest {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
    body: Value,
}

impl FakeForge {
    /// Name of the token's user.
    pub const ME: &'static str = "measurer";

    pub fn start(forge: ForgeKind) -> FakeForge {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(Mutex::new(ForgeState::default()));
        let server_state = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                handle_connection(forge, &server_state, stream);
            }
        });
        FakeForge { forge, address: format!("http://{address}"), state }
    }

    /// Makes the token a CI job's token, which may not query its user.
    pub fn with_job_token(self) -> FakeForge {
        self.lock_state().is_job = true;
        self
    }

    fn lock_state(&self) -> MutexGuard<'_, ForgeState> {
        self.state.lock().expect("no thread of the forge fails")
    }

    pub fn add(&self, author: &str, body: &str) {
        self.lock_state().add(author, body);
    }

    pub fn comments(&self) -> Vec<FakeComment> {
        self.lock_state().comments.clone()
    }

    pub fn statuses(&self) -> Vec<Value> {
        self.lock_state().statuses.clone()
    }

    pub fn requests(&self) -> usize {
        self.lock_state().requests
    }

    /// Number of requests without our token.
    pub fn foreign_tokens(&self) -> usize {
        self.lock_state().foreign_tokens
    }

    pub fn fail_next(&self, fault: RequestFault) {
        self.lock_state().faults.push_back(fault);
    }

    pub fn refuse_writing(&self, status: u16) {
        self.lock_state().refused = Some(status);
    }

    /// Refuses comments but accepts statuses.
    pub fn refuse_comments(&self, status: u16) {
        let mut state = self.lock_state();
        (state.refused, state.refuses_comments_alone) = (Some(status), true);
    }

    pub fn allow_writing(&self) {
        self.lock_state().refused = None;
    }

    /// Makes another job of ours write this just before the next comment is written.
    pub fn write_before_the_next(&self, body: &str) {
        self.lock_state().before_next = Some(body.to_owned());
    }

    /// Makes another job of ours set this just before the next status is set.
    pub fn set_before_the_next(&self, status: Value) {
        self.lock_state().status_before_next = Some(status);
    }

    pub fn redirect_to(&self, address: &str) {
        self.lock_state().redirect = Some(address.to_owned());
    }

    pub fn answer_with(&self, text: &str) {
        self.lock_state().always = Some(text.to_owned());
    }
}

impl ForgeState {
    fn add(&mut self, author: &str, body: &str) -> u64 {
        self.next += 1;
        let id = 1000 + self.next;
        self.comments.push(FakeComment { id, author: author.to_owned(), body: body.to_owned() });
        id
    }
}

fn handle_connection(forge: ForgeKind, state: &Mutex<ForgeState>, stream: TcpStream) {
    let Some(request) = read_request(&stream) else {
        return;
    };
    let mut state = state.lock().expect("no thread of the forge fails");
    state.requests += 1;
    let token = match forge {
        ForgeKind::GitHub => ("authorization", "Bearer secret"),
        ForgeKind::GitLab => ("private-token", "secret"),
        ForgeKind::Gitea => ("authorization", "token secret"),
    };
    let has_token = request.headers.iter().any(|(name, value)| (&**name, &**value) == token);
    state.foreign_tokens += usize::from(!has_token);
    if let Some(target) = &state.redirect {
        let header = format!("location: {target}{}\r\n", request.path);
        return write_response(&stream, 302, &header, "");
    }
    if let Some(text) = &state.always {
        return write_response(&stream, 200, "", text);
    }
    match state.faults.pop_front() {
        Some(RequestFault::Close) => {}
        Some(RequestFault::Status(status)) => write_response(&stream, status, "", ""),
        Some(RequestFault::Words(status, words)) => {
            write_response(&stream, status, "", &json!({ "message": words }).to_string());
        }
        Some(RequestFault::RetryAfter(status, seconds)) => {
            write_response(&stream, status, &format!("retry-after: {seconds}\r\n"), "");
        }
        None => {
            let (status, fields, body) = route_request(forge, &mut state, &request);
            write_response(&stream, status, &fields, &body);
        }
    }
}

fn route_request(
    forge: ForgeKind,
    state: &mut ForgeState,
    request: &FakeRequest,
) -> (u16, String, String) {
    let (api, comments, comment_prefix) = match forge {
        ForgeKind::GitHub => (
            "/api/v3",
            "/repos/owner/name/issues/12/comments",
            "/repos/owner/name/issues/comments/",
        ),
        ForgeKind::Gitea => (
            "/api/v1",
            "/repos/owner/name/issues/12/comments",
            "/repos/owner/name/issues/comments/",
        ),
        ForgeKind::GitLab => (
            "/api/v4",
            "/projects/owner%2Fname/merge_requests/12/notes",
            "/projects/owner%2Fname/merge_requests/12/notes/",
        ),
    };
    let json_response = |status, value: Value| (status, String::new(), value.to_string());
    let Some(path) = request.path.strip_prefix(api) else {
        return json_response(404, json!({"message": "no such path"}));
    };
    if request.method == "GET" && path == "/user" {
        return if state.is_job {
            json_response(403, json!({"message": "Resource not accessible by integration"}))
        } else {
            json_response(200, json!({ "login": FakeForge::ME, "username": FakeForge::ME }))
        };
    }
    if request.method == "GET" && path == comments {
        return list_comments(forge, state, &request.query);
    }
    if request.method == "GET" && path.ends_with("/statuses") {
        return list_statuses(forge, state, path);
    }
    let is_exempt = state.refuses_comments_alone && path.contains("/statuses/");
    if let Some(status) = state.refused.filter(|_| !is_exempt) {
        return json_response(status, json!({"message": "not for you"}));
    }
    apply_change(forge, state, request, path, [comments, comment_prefix])
}

/// The statuses of a commit, newest first, in the format of the forge.
fn list_statuses(forge: ForgeKind, state: &ForgeState, path: &str) -> (u16, String, String) {
    let is_for_commit = |status: &&Value| {
        let sha = status["sha"].as_str().unwrap_or_default();
        path.ends_with(&format!("/commits/{sha}/statuses"))
    };
    let statuses = state.statuses.iter().rev().filter(is_for_commit);
    let statuses = statuses.map(|status| {
        let mut status = status.clone();
        if forge != ForgeKind::GitHub {
            status["status"] = status["state"].take();
        }
        status
    });
    let body = Value::Array(statuses.collect()).to_string();
    (200, String::new(), body)
}

/// Creates, edits or removes a comment, or sets a status.
fn apply_change(
    forge: ForgeKind,
    state: &mut ForgeState,
    request: &FakeRequest,
    path: &str,
    [comments, one]: [&str; 2],
) -> (u16, String, String) {
    let json_response = |status, value: Value| (status, String::new(), value.to_string());
    let edit = if forge == ForgeKind::GitLab { "PUT" } else { "PATCH" };
    let id: Option<u64> = path.strip_prefix(one).and_then(|id| id.parse().ok());
    let text = request.body["body"].as_str();
    match (&*request.method, id) {
        ("POST", _) if path == comments => {
            let writer = match forge {
                _ if !state.is_job => FakeForge::ME,
                ForgeKind::GitHub => "github-actions[bot]",
                ForgeKind::GitLab | ForgeKind::Gitea => "gitea-actions",
            };
            if let Some(earlier) = state.before_next.take() {
                state.add(writer, &earlier);
            }
            let id = state.add(writer, text.expect("a comment has a text"));
            json_response(201, json!({ "id": id }))
        }
        ("POST", _) if path.contains("/statuses/") => {
            let earlier = state.status_before_next.take();
            for mut status in earlier.into_iter().chain([request.body.clone()]) {
                status["sha"] = json!(path.rsplit('/').next());
                state.statuses.push(status);
            }
            json_response(201, json!({}))
        }
        (method, Some(id)) if method == edit => {
            let comment = state.comments.iter_mut().find(|comment| comment.id == id);
            let Some(comment) = comment else {
                return json_response(404, json!({"message": "gone"}));
            };
            comment.body = text.expect("a comment has a text").to_owned();
            json_response(200, json!({ "id": id }))
        }
        ("DELETE", Some(id)) => {
            state.comments.retain(|comment| comment.id != id);
            (204, String::new(), String::new())
        }
        _ => json_response(405, json!({"message": "no such method"})),
    }
}

/// A page of the comments; Gitea does not split them into pages.
fn list_comments(forge: ForgeKind, state: &ForgeState, query: &str) -> (u16, String, String) {
    let number = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(parameter, _)| *parameter == name).and_then(|(_, value)| value.parse().ok())
    };
    let (size, page): (usize, usize) = match forge {
        ForgeKind::Gitea => (usize::MAX, 1),
        _ => (number("per_page").unwrap_or(30), number("page").unwrap_or(1)),
    };
    let first = size.saturating_mul(page - 1).min(state.comments.len());
    let last = first.saturating_add(size).min(state.comments.len());
    let has_more = last < state.comments.len();
    let entries = state.comments[first..last].iter().map(|comment| match forge {
        ForgeKind::GitLab => json!({"id": comment.id, "body": comment.body, "system": false, "author": {"username": comment.author}}),
        ForgeKind::Gitea => json!({"id": comment.id, "body": comment.body, "user": {"login": comment.author}}),
        ForgeKind::GitHub => {
            let kind = if comment.author.ends_with("[bot]") { "Bot" } else { "User" };
            json!({"id": comment.id, "body": comment.body, "user": {"login": comment.author, "type": kind}})
        }
    });
    let body = Value::Array(entries.collect()).to_string();
    let fields = match forge {
        ForgeKind::GitHub if has_more => {
            "link: <https://x/y?page=9>; rel=\"next\", <https://x/z>; rel=\"last\"\r\n".to_owned()
        }
        ForgeKind::GitLab if has_more => format!("x-next-page: {}\r\n", page + 1),
        ForgeKind::GitLab => "x-next-page: \r\n".to_owned(),
        _ => String::new(),
    };
    (200, fields, body)
}

fn read_request(stream: &TcpStream) -> Option<FakeRequest> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut parts = line.split_whitespace();
    let (method, target) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: u64 = length.map_or(0, |(_, value)| value.parse().expect("a number"));
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    Some(FakeRequest {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    })
}

fn write_response(mut stream: &TcpStream, status: u16, fields: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n{fields}\r\n",
        body.len()
    );
    // The client may have disconnected.
    let _ = stream.write_all((head + body).as_bytes());
}
