//! Tests against nghttpd, the server of nghttp2, over TCP.

use super::frames::parse;
use speedwell_load::http1::RequestParts;
use speedwell_load::http2::hpack::FieldList;
use speedwell_load::http2::{Http2Connection, Http2Event, Http2Request, Http2Settings, UrlScheme};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Server {
    child: Child,
    stream: TcpStream,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts nghttpd in this folder and connects; `None` if it is not installed.
fn server(folder: &std::path::Path) -> Option<Server> {
    // A port that was free a moment ago.
    let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
    let mut command = Command::new("nghttpd");
    command
        .args(["--no-tls", "--address=127.0.0.1", "--htdocs"])
        .arg(folder)
        .arg("--echo-upload")
        .arg(port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let start = Instant::now();
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            return Some(Server { child, stream });
        }
        if start.elapsed() > Duration::from_secs(30) {
            let _ = child.kill();
            panic!("nghttpd does not listen");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn nghttpd_answers_files_and_uploads() {
    let folder = std::env::temp_dir().join(format!("speedwell-nghttpd-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("a.txt"), vec![b'a'; 70_000]).unwrap();
    let Some(mut server) = server(&folder) else {
        eprintln!("skipped: nghttpd is not installed");
        return;
    };
    for table_size in [0, 4096] {
        let settings = Http2Settings { table_size, ..Http2Settings::default() };
        exchange(&mut server.stream, &settings);
        let port = server.stream.peer_addr().unwrap();
        server.stream = TcpStream::connect(port).unwrap();
    }
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Sends 150 requests on one connection: for a file, a missing file, and an upload that is echoed.
fn exchange(stream: &mut TcpStream, settings: &Http2Settings) {
    let body = vec![b'u'; 90_000];
    let request = |method, target, body| {
        let parts =
            RequestParts { method, target, host: "localhost", body, ..RequestParts::default() };
        Http2Request::new(&parts, UrlScheme::Http).unwrap()
    };
    let requests = [
        request("GET", "/a.txt", None),
        request("GET", "/none", None),
        request("POST", "/echo", Some(&body[..])),
    ];
    let mut connection = Http2Connection::new(settings);
    let (mut next, mut ended) = (0, Vec::new());
    let mut servers = 0;
    let mut buffer = [0; 10_000];
    while ended.len() < 150 {
        while next < 150 && connection.capacity() > 0 {
            assert!(connection.open_stream(&requests[next as usize % 3], next));
            next += 1;
        }
        while !connection.output().is_empty() {
            let sent = stream.write(connection.output()).unwrap();
            connection.mark_sent(sent);
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "{:?}", parse(connection.output()));
        let on = &mut |event: Http2Event| match event {
            Http2Event::Ended { token, summary } => ended.push((token, summary)),
            Http2Event::Failed { token, why } => panic!("{token}: {why:?}"),
            Http2Event::Head { block, .. } => {
                let mut memory = FieldList::default();
                let mut fields = block.decode_fields(&mut memory).unwrap().iter();
                let (_, server) = fields.find(|(name, _)| *name == b"server").unwrap();
                servers += u32::from(server.starts_with(b"nghttpd"));
            }
            _ => {}
        };
        connection.feed(&buffer[..read], on).unwrap();
    }
    assert_eq!(servers, 150);
    for (token, summary) in ended {
        let (status, bytes) =
            [(200, 70_000), (404, summary.body_bytes), (200, 90_000)][token as usize % 3];
        assert_eq!((summary.status, summary.body_bytes), (status, bytes));
    }
}
