//! `speedwell serve` for a project, and a minimal HTTP client.

use super::project::TempProject;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longer than any page takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running dashboard; dropping it stops it.
pub struct TestDashboard {
    child: Child,
    /// Reads its stderr until it exits.
    reader: Option<JoinHandle<String>>,
    pub address: String,
    /// The one-time login path; empty if none is printed.
    pub key: String,
}

#[derive(Debug)]
pub struct HttpReply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl TestDashboard {
    /// Serves the project on a free port.
    pub fn of(project: &TempProject) -> TestDashboard {
        TestDashboard::with(project, &["--port", "0"])
    }

    pub fn with(project: &TempProject, options: &[&str]) -> TestDashboard {
        TestDashboard::of_command(project.command(&[&["serve"], options].concat()), options)
    }

    /// Starts a server command.
    pub fn of_command(mut command: Command, options: &[&str]) -> TestDashboard {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        let place = said.split_once("listening on ");
        let place = place.or_else(|| said.split_once("http://"));
        let (_, address) = place.unwrap_or_else(|| panic!("no address: {said}"));
        let address = address.split(['/', ',']).next().unwrap().to_owned();
        // The key, if any, is in the next line.
        if !options.contains(&"--public-url") {
            stderr.read_line(&mut said).unwrap();
        }
        let key = said.split_once("/login?key=").map(|(_, key)| {
            let key = key.split_whitespace().next().unwrap();
            format!("/login?key={key}")
        });
        // Keep reading, so that the pipe does not fill up.
        let reader = std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = stderr.read_to_end(&mut rest);
            String::from_utf8_lossy(&rest).into_owned()
        });
        TestDashboard { child, reader: Some(reader), address, key: key.unwrap_or_default() }
    }

    /// Sends a request with additional header fields and a form.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        form: &str,
    ) -> HttpReply {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !fields.iter().any(|(name, _)| *name == "Host") {
            head += &format!("Host: {}\r\n", self.address);
        }
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("Content-Length: {}\r\n\r\n{form}", form.len());
        stream.write_all(head.as_bytes()).unwrap();
        read_reply(stream)
    }

    pub fn with_token(&self, path: &str, token: &str) -> HttpReply {
        let bearer = format!("Bearer {token}");
        self.request("GET", path, &[("Authorization", &bearer)], "")
    }

    /// Opens a connection and sends a request with this request line and host.
    pub fn send(&self, method: &str, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .unwrap();
        stream
    }

    /// Sends a request and reads the response.
    pub fn ask(&self, method: &str, path: &str, host: &str) -> HttpReply {
        read_reply(self.send(method, path, host))
    }

    pub fn get(&self, path: &str) -> HttpReply {
        self.ask("GET", path, &self.address)
    }

    /// Gets a page, following one redirect.
    pub fn follow(&self, path: &str) -> HttpReply {
        let reply = self.get(path);
        match reply.field("location") {
            Some(elsewhere) => self.get(&elsewhere),
            None => reply,
        }
    }

    /// Gets a page, following one redirect, and retries as instructed by the server while it is
    /// busy or computing.
    pub fn get_when_ready(&self, path: &str) -> HttpReply {
        retry_until_ready(|| self.follow(path))
    }

    /// Like [`TestDashboard::get_when_ready`], with additional header fields and without following
    /// redirects.
    pub fn get_when_ready_with(&self, path: &str, fields: &[(&str, &str)]) -> HttpReply {
        retry_until_ready(|| self.request("GET", path, fields, ""))
    }

    /// The name of the project in addresses.
    pub fn project(&self) -> String {
        let overview: serde_json::Value =
            serde_json::from_str(&self.get("/index.json").body).unwrap();
        overview["projects"][0]["project"].as_str().unwrap().to_owned()
    }

    /// Interrupts it like Ctrl-C, and waits for its status.
    pub fn interrupt(mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::INT);
        self.child.wait().unwrap().code()
    }

    /// Interrupts it; returns all output after start-up.
    pub fn log(mut self) -> String {
        self.signal(rustix::process::Signal::INT);
        self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap()
    }

    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

/// Retries as instructed by the server until there is a page.
fn retry_until_ready(ask: impl Fn() -> HttpReply) -> HttpReply {
    loop {
        let reply = ask();
        let Some(seconds) = reply.field("retry-after").filter(|_| reply.status == 503) else {
            return reply;
        };
        std::thread::sleep(Duration::from_secs(seconds.parse().unwrap()));
    }
}

fn read_reply(mut stream: TcpStream) -> HttpReply {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    HttpReply { status, head: head.to_owned(), body: body.to_owned() }
}

impl Drop for TestDashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl HttpReply {
    pub fn field(&self, name: &str) -> Option<String> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = fields.find(|(known, _)| known.eq_ignore_ascii_case(name))?;
        Some(found.1.trim().to_owned())
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, status: u16, texts: &[&str]) -> HttpReply {
        assert_eq!(self.status, status, "{self:#?}");
        for text in texts {
            assert!(self.body.contains(text), "no {text:?} in {self:#?}");
        }
        self
    }
}
