//! `speedwell serve` over a project, and a client that knows just enough of HTTP.

use super::project::Project;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Longer than any page takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A dashboard that is being served; it ends with the test.
pub struct Dashboard {
    child: Child,
    pub address: String,
}

/// What it answered.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Dashboard {
    /// Serves the project on a free port.
    pub fn of(project: &Project) -> Dashboard {
        let mut command = project.command(&["serve", "--port", "0"]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut said).unwrap();
        let address = said
            .split_once("http://")
            .unwrap_or_else(|| panic!("no address: {said}"))
            .1;
        let address = address.split_once('/').unwrap().0.to_owned();
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = stderr.read_to_end(&mut rest);
        });
        Dashboard { child, address }
    }

    /// A connection over which a request with these lines was sent.
    pub fn send(&self, method: &str, path: &str, host: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        stream
    }

    /// The answer to a request.
    pub fn ask(&self, method: &str, path: &str, host: &str) -> Reply {
        let mut bytes = Vec::new();
        self.send(method, path, host)
            .read_to_end(&mut bytes)
            .unwrap();
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").expect("a whole head");
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply {
            status,
            head: head.to_lowercase(),
            body: body.to_owned(),
        }
    }

    /// The page at a path.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &self.address)
    }

    /// The page at a path, or at the one that this leads to.
    pub fn follow(&self, path: &str) -> Reply {
        let reply = self.get(path);
        match reply.field("location") {
            Some(elsewhere) => self.get(&elsewhere),
            None => reply,
        }
    }

    /// The name of the project in addresses.
    pub fn project(&self) -> String {
        let overview: serde_json::Value =
            serde_json::from_str(&self.get("/index.json").body).unwrap();
        overview["projects"][0]["project"]
            .as_str()
            .unwrap()
            .to_owned()
    }

    /// Interrupts it as Ctrl-C does, and waits for its status.
    pub fn interrupt(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Reply {
    /// A field of the head.
    pub fn field(&self, name: &str) -> Option<String> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = fields.find(|(known, _)| *known == name)?;
        Some(found.1.trim().to_owned())
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    #[track_caller]
    pub fn expect(self, status: u16, texts: &[&str]) -> Reply {
        assert_eq!(self.status, status, "{self:#?}");
        for text in texts {
            assert!(self.body.contains(text), "no {text:?} in {self:#?}");
        }
        self
    }
}
