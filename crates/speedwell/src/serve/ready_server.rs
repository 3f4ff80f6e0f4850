//! Starts the dashboard: decides where it listens and who may access it. A background thread
//! computes what pages need of new sessions, so that no page has to wait for it.
//!
//! A dashboard can also be served while a command measures (`--dashboard`). It then stays up after
//! the command until a minute has passed without a viewer ([`DashboardThread`]).
//! `server::dashboard` builds the pages, and `server::http` enforces limits on requests. Start at
//! [`run`].

use crate::history::project::summarize_sessions;
use crate::options::{DashboardArgs, DatabaseArgs, LogFormat};
use crate::serve::{forge, lookups};
use crate::status::{self, CommandStatus};
use anyhow::{Result, anyhow, bail, ensure};
use speedwell_machine::process::{self, ProcessIdentity};
use speedwell_model::stored::SessionOverview;
use speedwell_server::dashboard::{AccessRules, SiteState, encode_segment, router};
use speedwell_server::http::blocking::lower_priority;
use speedwell_server::http::{
    AllowedHosts, BoundAddress, HttpServer, ListenAddress, RequestLog, ServerLimits, ServerOptions,
    ServerStopper, TlsIdentity, TrustedProxy,
};
use speedwell_store::{SessionFilter, Store};
use std::env;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Poll interval for interrupts, viewers and a pressed key.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between searches for the session that this process records.
const ANNOUNCE_INTERVAL: Duration = Duration::from_millis(250);

/// Maximum number of sessions to summarize before other writers get a turn.
const SESSIONS_PER_WRITE: usize = 20;
/// Interval between checks for sessions that did not arrive by upload.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Minimum pause between two preparations of pages, as a multiple of the time that the first took.
const MIN_PAUSE: u32 = 9;

/// Serves until interrupted.
///
/// # Errors
/// Fails if the store cannot be read, the server cannot listen on the address, or others could
/// reach the server unprotected.
pub fn run(args: &DashboardArgs) -> Result<CommandStatus> {
    let ready = ReadyServer::from_args(args)?;
    ready.announce_url(args.open, "until Ctrl-C");
    spawn_preparation(ready.site.clone(), ready.stopper.clone());
    forge::spawn_commenter(ready.site.clone(), ready.stopper.clone(), args.public_url.clone());
    process::install_handlers()?;
    let stopper = ready.stopper.clone();
    std::thread::spawn(move || {
        while !process::is_interrupt_requested() {
            std::thread::sleep(POLL_INTERVAL);
        }
        stopper.stop();
    });
    ready.server.run()?;
    Ok(CommandStatus::DONE)
}

/// Starts a thread that prepares pages for new sessions until the server stops: it summarizes these
/// sessions and searches for changes. The thread retries after a failure and does not report it,
/// because the dashboard's pages show store errors.
fn spawn_preparation(site: Arc<SiteState>, stopper: ServerStopper) {
    std::thread::spawn(move || {
        lower_priority();
        while !stopper.is_stopped() {
            let (begun, uploads) = (Instant::now(), site.upload_count());
            let stores = site.store_paths().unwrap_or_default();
            let remaining: usize =
                stores.iter().map(|path| summarize_store(path).unwrap_or(0)).sum();
            if remaining > 0 {
                continue;
            }
            site.prepare_pages();
            // However many sessions arrive, most of a processor stays free.
            let (worked, ended) = (begun.elapsed(), Instant::now());
            let is_due = || {
                let has_news = site.upload_count() != uploads;
                let pause = if has_news { Duration::ZERO } else { CHECK_INTERVAL };
                ended.elapsed() >= pause.max(worked * MIN_PAUSE)
            };
            while !stopper.is_stopped() && !is_due() {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
    });
}

/// Summarizes some sessions of a store; returns how many remain. Does nothing while a session is
/// being measured, because the work would disturb that measurement.
fn summarize_store(path: &Path) -> Result<usize> {
    if !Store::exists(path) {
        return Ok(0);
    }
    let store = Store::open_to_view(path)?;
    let is_measuring = store.running_sessions(1)?.iter().any(|session| !session.is_killed);
    if is_measuring || store.find_sessions_without_points()?.is_empty() {
        return Ok(0);
    }
    drop(store);
    summarize_sessions(&mut Store::open(path)?, SESSIONS_PER_WRITE)
}

/// A server that listens, but responds to nothing until it is run.
struct ReadyServer {
    server: HttpServer,
    site: Arc<SiteState>,
    stopper: ServerStopper,
    path: PathBuf,
    url: String,
    /// Note that messages append to `url`, such as `, listening on 0.0.0.0:443,`. Empty if `url`
    /// already contains the listening address.
    behind: String,
}

impl ReadyServer {
    /// # Errors
    /// Fails under the same conditions as [`run`].
    fn from_args(args: &DashboardArgs) -> Result<ReadyServer> {
        let path = args.store.database_path()?;
        if Store::exists(&path) {
            // Open the store once, to report a broken store now instead of on every page, and to
            // migrate an old store.
            Store::open_to_read(&path)?;
        }
        let listen_plan = ListenPlan::from_args(args)?;
        let stopper = ServerStopper::default();
        let rules = AccessRules {
            allows_anonymous_reads: listen_plan.is_local && !args.private,
            has_key: listen_plan.is_local,
            has_tls: args.cert.is_some() || args.behind_proxy.is_some(),
        };
        let site = Arc::new(SiteState::new(&path, lookups::LOOKUPS, rules, &stopper)?);
        let options = ServerOptions {
            has_token: listen_plan.is_local || has_token(&path)?,
            stopper: stopper.clone(),
            ..listen_plan.server_options(args)?
        };
        ensure!(
            options.has_token || args.behind_proxy.is_none(),
            "other people could reach this server through the proxy, but there is no token yet\n{}",
            add_token_hint(&path)
        );
        let server = HttpServer::bind(options, router(site.clone()))
            .map_err(|error| to_user_error(&error, &path))?;
        Ok(ReadyServer {
            url: listen_plan.user_url(server.addresses()),
            behind: listen_plan.listen_note(server.addresses()),
            server,
            site,
            stopper,
            path,
        })
    }

    /// Prints the URL, and opens it in a browser if requested.
    fn announce_url(&self, opens: bool, until: &str) {
        let ReadyServer { url, behind, .. } = self;
        status::print_note(&format!(
            "the dashboard of {} is at {url}{behind} {until}",
            display_store(&self.path)
        ));
        let key = self.site.access.startup_key();
        match (key.map(|key| format!("{url}login?key={key}")), opens) {
            (Some(address), false) => status::print_note(&format!(
                "to log in with write access, open {address} (works once)"
            )),
            (address, true) => open_browser(address.as_deref().unwrap_or(url), url),
            (None, false) => {}
        }
    }
}

/// Returns the path or URL of a store for display. Leaves out the query of a URL.
fn display_store(path: &Path) -> String {
    match Store::server_address(path) {
        Some(address) => format!("'{}'", address.split('?').next().unwrap_or_default()),
        None => format!("'{}'", path.display()),
    }
}

fn has_token(path: &Path) -> Result<bool> {
    let now = process::unix_time_ms();
    Ok(Store::open_to_read(path)?.list_tokens()?.iter().any(|token| token.is_valid(now)))
}

fn add_token_hint(path: &Path) -> String {
    let db = display_store(path);
    format!("hint: speedwell serve token add NAME --scope admin --db {db}")
}

fn to_user_error(error: &speedwell_server::http::Error, path: &Path) -> anyhow::Error {
    use speedwell_server::http::Error;
    match error {
        Error::PortsInUse(..) => anyhow!("{error}\nhint: choose another port with --port PORT"),
        Error::Exposed(_) => anyhow!(
            "{error}\n{}, then serve with --cert FILE --key FILE or --behind-proxy ADDRESS",
            add_token_hint(path)
        ),
        _ => anyhow!("{error}\nhint: choose another address with --bind ADDRESS:PORT"),
    }
}

/// Where to listen, and who can connect.
struct ListenPlan {
    listen: ListenAddress,
    proxy: Option<TrustedProxy>,
    /// Whether only users of this machine can connect: the listening address is local, and no proxy
    /// forwards requests from other machines.
    is_local: bool,
    public: Option<String>,
}

impl ListenPlan {
    /// # Errors
    /// Fails if options conflict, or an address is invalid.
    fn from_args(args: &DashboardArgs) -> Result<ListenPlan> {
        let listen = match args.bind.as_deref() {
            None => {
                let (first, last) = args.port.map_or((7600, 7609), |port| (port, port));
                ListenAddress::Loopback { first, last }
            }
            Some(address_text) => match address_text.strip_prefix("unix:") {
                Some(path) => ListenAddress::Unix(path.into()),
                None => ListenAddress::Address(address_text.parse().map_err(|_| {
                    anyhow!(
                        "cannot parse listen address '{address_text}'\n\
                         hint: write it as 0.0.0.0:443, [::]:443 or unix:/run/speedwell.socket"
                    )
                })?),
            },
        };
        let is_loopback = match &listen {
            ListenAddress::Address(address) => address.ip().to_canonical().is_loopback(),
            ListenAddress::Loopback { .. } | ListenAddress::Unix(_) => true,
        };
        let is_local = is_loopback && args.behind_proxy.is_none();
        if let Some(url) = args.public_url.as_deref().filter(|_| is_local) {
            reject_public_name(url, &listen)?;
        }
        ensure!(
            is_local || args.public_url.is_some(),
            "a server that other machines can reach needs a public URL\n\
             hint: --public-url https://perf.example"
        );
        let parse = |address: &str| parse_proxy(address, &listen, is_loopback);
        let proxy = args.behind_proxy.as_deref().map(parse).transpose()?;
        Ok(ListenPlan { listen, proxy, is_local, public: args.public_url.clone() })
    }

    /// # Errors
    /// Fails if the certificate or its key cannot be read, or an address is invalid.
    fn server_options(&self, args: &DashboardArgs) -> Result<ServerOptions> {
        let tls = match (&args.cert, &args.key) {
            (Some(cert), Some(key)) => Some(TlsIdentity::from_files(cert, key)?),
            _ => None,
        };
        let hosts = match &self.public {
            Some(url) => AllowedHosts::public(url)?,
            None => AllowedHosts::local(),
        };
        let log = match (args.log, self.is_local) {
            (Some(LogFormat::Off), _) | (None, true) => RequestLog::default(),
            (Some(LogFormat::Text), _) | (None, false) => RequestLog::stderr(),
            (Some(LogFormat::Json), _) => RequestLog::stderr().as_json(),
        };
        let mut limits = ServerLimits::default();
        if let Some(connections) = args.connections_per_address.map(usize::from) {
            limits.connections_per_address = connections;
            limits.connections = limits.connections.max(connections + limits.connections_logged_in);
        }
        Ok(ServerOptions {
            listen: vec![self.listen.clone()],
            limits,
            hosts,
            tls,
            proxy: self.proxy,
            log,
            ..ServerOptions::default()
        })
    }

    /// Describes the listening address, if it differs from the URL for users.
    fn listen_note(&self, addresses: &[BoundAddress]) -> String {
        match (addresses.first(), &self.public) {
            (Some(BoundAddress::Tcp(address)), Some(_)) => format!(", listening on {address},"),
            (Some(BoundAddress::Unix(path)), Some(_)) => {
                format!(", listening on '{}',", path.display())
            }
            _ => String::new(),
        }
    }

    /// Returns the URL for users, with a trailing slash.
    fn user_url(&self, addresses: &[BoundAddress]) -> String {
        if let Some(url) = &self.public {
            return format!("{}/", url.trim_end_matches('/'));
        }
        match addresses.first() {
            Some(BoundAddress::Tcp(address)) => format!("http://{address}/"),
            Some(BoundAddress::Unix(path)) => format!("unix:{}:http://localhost/", path.display()),
            None => String::new(),
        }
    }
}

/// Rejects a public URL that names another machine. The server treats everyone who connects as a
/// user of this machine. If a proxy made it reachable under that name, every visitor would be
/// treated as such a user.
fn reject_public_name(url: &str, listen: &ListenAddress) -> Result<()> {
    let hosts = AllowedHosts::public(url)?;
    let Some(name) = hosts.public_name() else { return Ok(()) };
    let proxy = if matches!(listen, ListenAddress::Unix(_)) { "unix" } else { "127.0.0.1" };
    bail!(
        "'{name}' is a public name, but this server treats everyone who can connect as a user of this machine\n\
         hint: --behind-proxy {proxy} if a TLS proxy forwards connections to it; without one: \
         --bind 0.0.0.0:443 --cert FILE --key FILE"
    )
}

/// Parses the trusted proxy.
///
/// # Errors
/// Fails if the text is not the address of one machine, or if a proxy at that address cannot
/// connect to the listening address.
fn parse_proxy(proxy: &str, listen: &ListenAddress, is_loopback: bool) -> Result<TrustedProxy> {
    let is_socket = matches!(listen, ListenAddress::Unix(_));
    if proxy == "unix" {
        ensure!(
            is_socket,
            "--behind-proxy unix works only if the server listens on a Unix socket\n\
             hint: --bind unix:/run/speedwell.socket, or give the proxy's address to --behind-proxy"
        );
        return Ok(TrustedProxy::Unix);
    }
    let address: IpAddr = proxy.parse().map_err(|_| {
        anyhow!("cannot parse proxy address '{proxy}'\nhint: write it as 10.0.0.7, or 'unix' for a Unix socket")
    })?;
    let address = address.to_canonical();
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    ensure!(
        !(address.is_unspecified() || address.is_multicast() || is_broadcast),
        "'{proxy}' is not the address of a single machine\n\
         hint: give the address that the proxy connects from, e.g. --behind-proxy 10.0.0.7"
    );
    ensure!(
        !is_socket,
        "a proxy at '{proxy}' cannot connect to a Unix socket\nhint: --behind-proxy unix"
    );
    ensure!(
        !is_loopback || address.is_loopback(),
        "a proxy at '{proxy}' cannot connect to this machine's own addresses\n\
         hint: --bind ADDRESS:PORT with an address that it can reach, or --behind-proxy 127.0.0.1"
    );
    Ok(TrustedProxy::Address(address))
}

/// Opens an address in the user's browser; `url` is the same address without the login key.
fn open_browser(address: &str, url: &str) {
    if !start_browser(address) {
        status::print_warning(&format!(
            "Cannot open a browser, because {} is missing; the address is {url}.",
            browser_program().to_string_lossy()
        ));
    }
}

/// Returns the program that opens addresses: the first one in `BROWSER`, or the system's default.
fn browser_program() -> OsString {
    let system_program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let chosen = env::var("BROWSER").unwrap_or_default();
    let first = chosen.split(':').next().unwrap_or_default();
    OsString::from(if first.is_empty() { system_program } else { first })
}

/// Starts the browser, without waiting for it. Returns whether it was started.
fn start_browser(address: &str) -> bool {
    let mut command = Command::new(browser_program());
    command.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}

/// Whether a browser would appear in front of the user: standard output is a terminal on a machine
/// with a display, and this is not a CI job.
fn has_user_at_display() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let has_display = cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY");
    std::io::stdout().is_terminal() && has_display && !is_set("CI")
}

/// Prints the address of the page of this measurement, and opens it if a user can see it. A failure
/// to start the browser is not reported, because the address is printed.
fn announce_page(address: &str) {
    status::print_note(&format!("watch the measurement at {address}"));
    if has_user_at_display() {
        start_browser(address);
    }
}

/// Waits until this process records a session, and announces its page. Gives up when the server
/// stops. `site_url` ends with a slash.
fn announce_session(site: &SiteState, path: &Path, stopper: &ServerStopper, site_url: &str) {
    while !stopper.is_stopped() {
        if let Some(id) = find_own_session(path) {
            let project = &site.first.name;
            announce_page(&format!("{site_url}{project}/sessions/{}/live", encode_segment(&id)));
            return;
        }
        std::thread::sleep(ANNOUNCE_INTERVAL);
    }
}

/// Returns the id of the session that this process records. Errors count as "not yet": the
/// measurement itself reports a store that cannot be read.
fn find_own_session(path: &Path) -> Option<String> {
    if !Store::exists(path) {
        return None;
    }
    let store = Store::open_to_view(path).ok()?;
    let own_process = Some(ProcessIdentity::current_process());
    let is_own = |session: &SessionOverview| {
        store.recording_process(session.number).is_ok_and(|recorder| recorder == own_process)
    };
    // A resumed session may be an old one, and a short session may have ended already.
    let running = store.running_sessions(MAX_SEARCHED_SESSIONS).ok()?;
    let newest = store.select_sessions(&SessionFilter::default(), MAX_SEARCHED_SESSIONS).ok()?;
    running.into_iter().chain(newest).find(is_own).map(|session| session.id)
}

/// Maximum number of sessions of each kind among which this process looks for its own.
const MAX_SEARCHED_SESSIONS: usize = 10;

/// How long the dashboard stays up after the last viewer has left.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A dashboard served by its own thread.
pub struct DashboardThread {
    site: Arc<SiteState>,
    stopper: ServerStopper,
    thread: Option<JoinHandle<()>>,
}

impl DashboardThread {
    /// Serves the store at a path to users of this machine. Announces the page of the session that
    /// this process records or, if it records none, the page of running loads.
    ///
    /// # Errors
    /// Fails if the store cannot be read, or no port is free.
    pub fn start(path: &Path, records_session: bool) -> Result<DashboardThread> {
        let args = DashboardArgs {
            store: DatabaseArgs { db: Some(path.to_owned()) },
            ..DashboardArgs::default()
        };
        let ready = ReadyServer::from_args(&args)?;
        ready.announce_url(false, "while measuring");
        let ReadyServer { server, site, stopper, url, path, .. } = ready;
        if records_session {
            let (site, stopper) = (site.clone(), stopper.clone());
            std::thread::spawn(move || announce_session(&site, &path, &stopper, &url));
        } else {
            announce_page(&format!("{url}{}/live", site.first.name));
        }
        let thread = std::thread::spawn(move || {
            if let Err(error) = server.run() {
                status::print_warning(&format!("The dashboard stopped: {error}."));
            }
        });
        Ok(DashboardThread { site, stopper, thread: Some(thread) })
    }

    /// Keeps serving until the user presses Enter or Ctrl-C, or until a minute has passed without a
    /// viewer. Returns immediately if there is no terminal and no one has opened the dashboard.
    pub fn wait_for_viewers(self) {
        let has_terminal = std::io::stdin().is_terminal();
        if !has_terminal && !self.site.has_responded() {
            return;
        }
        status::print_note(
            "the dashboard stays up until you press Enter, or until a minute after the last viewer leaves",
        );
        let has_ended = Arc::new(AtomicBool::new(false));
        if has_terminal {
            let has_ended = has_ended.clone();
            std::thread::spawn(move || {
                let _ = std::io::stdin().read_line(&mut String::new());
                has_ended.store(true, Ordering::Relaxed);
            });
        }
        let mut last_seen = Instant::now();
        while !has_ended.load(Ordering::Relaxed)
            && !process::is_interrupt_requested()
            && last_seen.elapsed() < IDLE_TIMEOUT
        {
            if self.site.count_viewers() > 0 {
                last_seen = Instant::now();
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for DashboardThread {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
