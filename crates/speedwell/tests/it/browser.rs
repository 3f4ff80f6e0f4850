//! A browser without a window, driven over the DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>) by two pipes instead of a network port.
//!
//! Tests whose machine has no Chromium say that they are skipped. Start with [`Page::open`].

use super::harness_driver::{hand_over, pipe};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Names under which distributions install it.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page in a browser of its own, and everything that the browser said about it.
pub struct Page {
    child: Child,
    commands: File,
    messages: Receiver<Value>,
    session: String,
    next: u64,
    /// Addresses that were asked for, and complaints of scripts.
    pub requests: Vec<String>,
    pub complaints: Vec<String>,
    /// How many pages were complete so far.
    pub loads: usize,
    // Removed only after the browser has ended.
    _profile: tempfile::TempDir,
}

/// How a page is to be shown.
#[derive(Clone, Copy)]
pub struct Screen {
    pub width: u32,
    pub dark: bool,
    pub scripts: bool,
}

impl Default for Screen {
    fn default() -> Screen {
        Screen {
            width: 1280,
            dark: false,
            scripts: true,
        }
    }
}

/// The machine's Chromium, if it has one.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        eprintln!("skipped: there is no Chromium in PATH");
    }
    found
}

impl Page {
    /// Shows the page in a file and waits until it is complete; `None` without a browser.
    pub fn open(file: &Path, screen: Screen) -> Option<Page> {
        Page::at(&format!("file://{}", file.display()), screen)
    }

    /// Shows the page at an address, likewise.
    pub fn at(address: &str, screen: Screen) -> Option<Page> {
        let mut page = Page::start(&program()?);
        let target = page.browser("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = page.browser("Target.attachToTarget", attach);
        page.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.send(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({"width": screen.width, "height": 900, "deviceScaleFactor": 1,
            "mobile": screen.width < 600});
        page.send("Emulation.setDeviceMetricsOverride", size);
        page.send(
            "Emulation.setScriptExecutionDisabled",
            json!({"value": !screen.scripts}),
        );
        page.media("screen", screen.dark);
        page.go(address);
        Some(page)
    }

    /// Goes to another page and waits until it is complete.
    pub fn go(&mut self, address: &str) {
        let before = self.loads;
        self.send("Page.navigate", json!({"url": address}));
        self.wait_for_load(before);
    }

    /// Waits until another page is complete than there were.
    pub fn wait_for_load(&mut self, before: usize) {
        if self.loads == before {
            self.until(|message| message["method"] == "Page.loadEventFired");
        }
    }

    fn start(program: &Path) -> Page {
        let profile = tempfile::tempdir().unwrap();
        let (to_browser, commands) = pipe();
        let (answers, from_browser) = pipe();
        let mut command = Command::new(program);
        // Nothing but our own file is shown, and as root there is no sandbox.
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--remote-debugging-pipe", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        hand_over(&mut command, [(to_browser, 3), (from_browser, 4)]);
        let child = command.spawn().unwrap();
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(File::from(answers)).split(0) {
                let Ok(bytes) = message else { return };
                let value = serde_json::from_slice(&bytes).unwrap();
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        Page {
            child,
            commands: File::from(commands),
            messages,
            session: String::new(),
            next: 0,
            requests: Vec::new(),
            complaints: Vec::new(),
            loads: 0,
            _profile: profile,
        }
    }

    /// Sends a command to the page and returns its result.
    pub fn send(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        self.ask(json!({"method": method, "params": params, "sessionId": session}))
    }

    fn browser(&mut self, method: &str, params: Value) -> Value {
        self.ask(json!({"method": method, "params": params}))
    }

    fn ask(&mut self, mut command: Value) -> Value {
        self.next += 1;
        let id = self.next;
        command["id"] = json!(id);
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        let answer = self.until(|message| message["id"] == id);
        assert!(answer["error"].is_null(), "{command}: {answer}");
        answer["result"].clone()
    }

    fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("an answer in time");
            self.note(&message);
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Keeps what is worth a complaint.
    fn note(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loads += 1,
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                // What is inside of the page is not fetched.
                if !url.starts_with("data:") && !url.starts_with("blob:") {
                    self.requests.push(url.to_owned());
                }
            }
            "Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded" => {
                self.complaints.push(params.to_string());
            }
            _ => {}
        }
    }

    /// Chooses the medium and the theme of the system.
    pub fn media(&mut self, media: &str, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.send(
            "Emulation.setEmulatedMedia",
            json!({"media": media, "features": features}),
        );
    }

    /// The value of a JavaScript expression; a promise is waited for.
    #[track_caller]
    pub fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.send("Runtime.evaluate", params);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true: a browser hears of another medium, or has scrolled, when it gets to it.
    #[track_caller]
    pub fn wait_until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.value(expression) != true {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks with the mouse into the middle of the first element that matches.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let place = self.value(&format!(
            "(() => {{ const e = document.querySelector({}); \
             e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const r = e.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        for kind in ["mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": place[0], "y": place[1], "button": "left",
                "clickCount": 1});
            self.send("Input.dispatchMouseEvent", event);
        }
    }

    /// Presses a key on the element that has the focus.
    pub fn press(&mut self, key: &str, text: &str, code: u32) {
        let event = |kind: &str| {
            json!({"type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code})
        };
        self.send("Input.dispatchKeyEvent", event("keyDown"));
        self.send("Input.dispatchKeyEvent", event("keyUp"));
    }

    /// Types text into the element that has the focus.
    pub fn write(&mut self, text: &str) {
        self.send("Input.insertText", json!({"text": text}));
    }
}

impl Drop for Page {
    /// Lets the browser end by itself: one that is killed leaves processes that write into its profile
    /// while that is removed.
    fn drop(&mut self) {
        let _ = self
            .commands
            .write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        let end = Instant::now() + Duration::from_secs(10);
        while Instant::now() < end && !matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
