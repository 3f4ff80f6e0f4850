//! Our counts compared with nginx's log and status page, in ten runs of each kind of load.

use super::server::{carry_out, load_to};
use speedwell_load::load::{HttpVersion, LoadConfig, RequestKind, RequestKinds};
use speedwell_load::pace::{ArrivalSpacing, PacingModel, RateSchedule, RequestRate, ScheduleStage};
use speedwell_model::load::outcomes::OutcomeCounts;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Nginx {
    child: Child,
    folder: PathBuf,
    plain: SocketAddr,
    two: SocketAddr,
}

impl Nginx {
    /// Returns `None` if nginx is not installed.
    fn start() -> Option<Nginx> {
        let folder = std::env::temp_dir().join(format!("speedwell-nginx-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (plain, two) = (free_port(), free_port());
        let dir = folder.display();
        let config = format!(
            "daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error;
             events {{ worker_connections 512; }}
             http {{
               log_format short '$status'; access_log {dir}/access short;
               client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy;
               fastcgi_temp_path {dir}/fastcgi; uwsgi_temp_path {dir}/uwsgi;
               scgi_temp_path {dir}/scgi;
               keepalive_requests 300;
               server {{ listen {plain}; location / {{ return 200 'hello'; }}
                        location /none {{ return 404; }}
                        location /status {{ stub_status; access_log off; }} }}
               server {{ listen {two} http2; location / {{ return 200 'hello'; }} }}
             }}"
        );
        std::fs::write(folder.join("nginx.conf"), config).unwrap();
        let child = Command::new("nginx")
            .arg("-c")
            .arg(folder.join("nginx.conf"))
            .arg("-p")
            .arg(&folder)
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let nginx = Nginx { child, folder, plain, two };
        for _ in 0..1500 {
            if TcpStream::connect(two).is_ok() {
                return Some(nginx);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("nginx does not listen");
    }

    /// Number of log lines by status.
    fn logged(&self) -> (u64, u64) {
        let log = std::fs::read_to_string(self.folder.join("access")).unwrap();
        let count = |status: &str| log.lines().filter(|line| *line == status).count() as u64;
        (count("200"), count("404"))
    }

    /// Counts log lines once there are at least `answers`. A line is written after its response was
    /// sent, possibly a while after we received it; lines for requests unknown to us get a moment,
    /// too.
    fn logged_at_least(&self, answers: u64) -> (u64, u64) {
        let give_up = Instant::now() + Duration::from_secs(20);
        let all = |(good, missing): (u64, u64)| good + missing;
        while all(self.logged()) < answers && Instant::now() < give_up {
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(60));
        self.logged()
    }

    /// Requests as counted by nginx, including this one.
    fn handled(&self) -> u64 {
        let mut socket = TcpStream::connect(self.plain).unwrap();
        socket.write_all(b"GET /status HTTP/1.0\r\n\r\n").unwrap();
        let mut page = String::new();
        socket.read_to_string(&mut page).unwrap();
        let line = page.lines().skip_while(|line| !line.contains("requests")).nth(1);
        line.unwrap().split_whitespace().nth(2).unwrap().parse().unwrap()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Let the worker exit gracefully with its master (SIGQUIT to our own child).
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn loads(nginx: &Nginx) -> Vec<LoadConfig> {
    let plain = |concurrency, requests| load_to(nginx.plain, concurrency, requests);
    let mut missing = plain(5, 700);
    missing.kinds = RequestKinds::single(RequestKind::get("test", "/none")).unwrap();
    let mut pipelined = plain(16, 3000);
    pipelined.streams_per_connection = 4;
    let mut fresh = plain(4, 500);
    fresh.rules.max_requests = Some(1);
    let mut timed = plain(10, 0);
    timed.stop.after_requests = None;
    timed.stop.after_ns = Some(300_000_000);
    let mut open = timed.clone();
    let stage = ScheduleStage::constant(RequestRate::per_second(1500.0).unwrap());
    open.pace = PacingModel::Open(
        RateSchedule::new(vec![stage], ArrivalSpacing::Poisson { seed: 1 }).unwrap(),
    );
    let two = |concurrency, capacity, requests| LoadConfig {
        http: HttpVersion::Two { table_bytes: 0 },
        streams_per_connection: capacity,
        ..load_to(nginx.two, concurrency, requests)
    };
    let threads = LoadConfig { threads: 2, ..plain(50, 5000) };
    let table = LoadConfig { http: HttpVersion::Two { table_bytes: 4096 }, ..two(20, 20, 2000) };
    vec![
        plain(1, 1000),
        plain(50, 5000),
        threads,
        missing,
        pipelined,
        fresh,
        timed,
        open,
        two(100, 20, 5000),
        table,
    ]
}

fn statuses(outcomes: &OutcomeCounts) -> (u64, u64) {
    (outcomes.codes.count_of(200), outcomes.codes.count_of(404))
}

/// Attempts for which no request was written, as by a late generator in an open load.
fn count_unsent(outcomes: &OutcomeCounts) -> u64 {
    let row = outcomes.rows().find(|row| row.name == "unsent");
    row.unwrap().count
}

#[test]
fn ten_loads_are_counted_as_nginx_counts_them() {
    let Some(nginx) = Nginx::start() else {
        eprintln!("skipped: nginx is not installed");
        return;
    };
    let (mut logged, mut handled) = (nginx.logged(), nginx.handled());
    for (at, load) in loads(&nginx).iter().enumerate() {
        let measured = carry_out(load);
        let outcomes = &measured.totals.outcomes;
        let rows = super::server::rows(&measured);
        let ours = statuses(outcomes);
        let now = nginx.logged_at_least(logged.0 + logged.1 + ours.0 + ours.1);
        let all = nginx.handled();
        let theirs = (now.0 - logged.0, now.1 - logged.1);
        assert_eq!(ours, theirs, "load {at}: {rows:?}");
        assert_eq!(all - handled - 1, ours.0 + ours.1, "load {at}");
        // Pipelined requests after the last response of a connection are lost.
        let unanswered = outcomes.attempts() - count_unsent(outcomes) - ours.0 - ours.1;
        assert!(unanswered == 0 || load.streams_per_connection > 1, "load {at}: {rows:?}");
        (logged, handled) = (now, all);
    }
}
