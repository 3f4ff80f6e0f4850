//! A team's server with a file or PostgreSQL, a low-level client, and a connection that breaks.

use super::back_ends::StorePlace;
use super::project::{self, TempProject};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Longer than any response takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that runs until the test ends or kills it.
pub struct TeamServer {
    child: Child,
    pub address: String,
    /// A token with all permissions.
    pub token: String,
}

#[derive(Debug)]
pub struct ServerAnswer {
    pub status: u16,
    pub body: Value,
}

impl TeamServer {
    /// Serves the tables of a place on a free port, with a project `core` and a token for
    /// everything.
    pub fn of(home: &TempProject, place: &StorePlace) -> TeamServer {
        let db = place.path();
        let db = db.to_str().unwrap();
        let made = home.run(&["serve", "project", "add", "core", "--db", db]);
        made.expect_status(0);
        let words = ["serve", "token", "add", "ci", "--scope", "admin", "--db", db];
        let token = home.run(&words).expect_status(0).stdout.trim().to_owned();
        let (child, address) = start(home, db, "0");
        TeamServer { child, address, token }
    }

    pub fn url(&self) -> String {
        format!("http://{}/core", self.address)
    }

    pub fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }

    /// A command of a user with the token, ready to run in a project.
    pub fn command(&self, home: &TempProject, words: &[&str]) -> Command {
        let mut command = home.command(words);
        command.env("SPEEDWELL_TOKEN", &self.token);
        command
    }

    /// Runs such a command.
    pub fn run(&self, home: &TempProject, words: &[&str]) -> project::CommandResult {
        project::CommandResult::from(self.command(home, words).output().unwrap())
    }

    /// Its peak memory so far, in kB.
    pub fn peak_kb(&self) -> i64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let figure = line.and_then(|line| line.split_whitespace().next());
        figure.and_then(|figure| figure.parse().ok()).unwrap()
    }

    /// Kills it without waiting.
    pub fn kill_without_waiting(&self) {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::KILL).unwrap();
    }

    /// Kills it and waits, as in a power failure.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to terminate, like an operator.
    pub fn terminate(&self) {
        rustix::process::kill_process(self.pid(), rustix::process::Signal::TERM).unwrap();
    }

    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Starts another process that serves the same store at another address.
    pub fn start_second(&self, home: &TempProject, place: &StorePlace) -> TeamServer {
        let db = place.path();
        let (child, address) = start(home, db.to_str().unwrap(), "0");
        TeamServer { child, address, token: self.token.clone() }
    }

    /// Serves the same store again, at the same address.
    pub fn start_again(&mut self, home: &TempProject, place: &StorePlace) {
        let port = self.address.rsplit(':').next().unwrap().to_owned();
        let db = place.path();
        (self.child, _) = start(home, db.to_str().unwrap(), &port);
    }

    /// Response to a request to `/api/v1/core/sessions/...`.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> ServerAnswer {
        let path = format!("/api/v1/core/sessions/{path}");
        self.try_ask(method, &path, &[], body).unwrap()
    }

    /// Response to any request with these header fields, empty ones omitted; an error if the
    /// connection breaks.
    pub fn try_ask(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<ServerAnswer> {
        let mut stream = self.send(method, path, fields, body)?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let text = String::from_utf8_lossy(&bytes);
        let broken = || std::io::Error::other("the answer breaks off");
        let (head, body) = text.split_once("\r\n\r\n").ok_or_else(broken)?;
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok(ServerAnswer {
            status: status.ok_or_else(broken)?,
            body: serde_json::from_str(body).unwrap_or(Value::String(body.to_owned())),
        })
    }

    /// Sends a request without reading the response.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<TcpStream> {
        let mut stream = self.send_head(method, path, fields, body.len())?;
        stream.write_all(body)?;
        Ok(stream)
    }

    /// Sends the head of a request whose body has this many bytes.
    pub fn send_head(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        length: usize,
    ) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n", self.address);
        if !fields.iter().any(|(name, _)| *name == "Authorization") {
            head += &format!("Authorization: Bearer {}\r\n", self.token);
        }
        for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Connection: close\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    }
}

fn start(home: &TempProject, db: &str, port: &str) -> (Child, String) {
    let mut command = home.command(&["serve", "--port", port, "--private", "--db", db]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    let address = said.split_once("http://");
    let (_, address) = address.unwrap_or_else(|| panic!("no address: {said}"));
    let address = address.split('/').next().unwrap().to_owned();
    // Keep reading, so that the pipe does not fill up.
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = stderr.read_to_end(&mut rest);
    });
    (child, address)
}

impl Drop for TeamServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl ServerAnswer {
    #[track_caller]
    pub fn expect(self, status: u16, state: &str) -> ServerAnswer {
        assert_eq!(self.status, status, "{self:#?}");
        assert_eq!(self.body["state"], state, "{self:#?}");
        self
    }

    #[track_caller]
    pub fn expect_rejected(self, status: u16, words: &str) -> ServerAnswer {
        assert_eq!(self.status, status, "{self:#?}");
        let error = self.body["error"].as_str().unwrap_or_default();
        assert!(error.contains(words), "no {words:?} in {self:#?}");
        self
    }
}

/// A proxy whose connections break after this many bytes towards the server, each time a few more,
/// until one holds.
pub struct BreakingLine {
    pub address: String,
    /// Number of broken connections.
    pub broken: Arc<AtomicU64>,
}

impl BreakingLine {
    pub fn proxy_to(server: &TeamServer, first: u64, more: u64) -> BreakingLine {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (there, broken) = (server.address.clone(), Arc::new(AtomicU64::new(0)));
        let counted = broken.clone();
        std::thread::spawn(move || {
            let mut limit = first;
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(&there) else {
                    continue;
                };
                if forward_bytes(&client, &server, &there, limit) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    limit += more;
                }
            }
        });
        BreakingLine { address, broken }
    }
}

/// Forwards bytes until the limit is reached, for which it returns true, or one side ends. Fixes
/// the host name, since the server responds only under its own.
fn forward_bytes(client: &TcpStream, server: &TcpStream, there: &str, limit: u64) -> bool {
    let answers = {
        let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Both);
        })
    };
    let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let own = client.local_addr().unwrap().to_string();
    let mut sent = 0;
    let mut bytes = vec![0; 16 << 10];
    let is_broken = loop {
        let Ok(read) = from.read(&mut bytes) else {
            break false;
        };
        if read == 0 {
            break false;
        }
        let mut part = bytes[..read].to_vec();
        let named = part.windows(own.len()).position(|found| found == own.as_bytes());
        if let Some(at) = named {
            part.splice(at..at + own.len(), there.bytes());
        }
        sent += read as u64;
        if sent > limit {
            break true;
        }
        if to.write_all(&part).is_err() {
            break false;
        }
    };
    let _ = server.shutdown(Shutdown::Both);
    if is_broken {
        let _ = client.shutdown(Shutdown::Both);
    }
    let _ = answers.join();
    is_broken
}
