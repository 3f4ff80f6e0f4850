//! A headless browser, driven over the DevTools protocol
//! (<https://chromedevtools.github.io/devtools-protocol/>) by two pipes instead of a network port.
//!
//! Without Chromium, tests report that they are skipped. Start with [`BrowserPage::open`].

use super::harness_driver::{hand_over, pipe};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Names under which distributions install it; the fastest first.
const NAMES: [&str; 5] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// A name that the browser resolves to 127.0.0.1, as after DNS rebinding.
pub const REBOUND: &str = "rebound.example";
/// Whether an element is visible, as a function of scripts.
pub const SEEN: &str = "e => e.getClientRects().length > 0";
/// The names of the visible rows from top to bottom, as an expression of scripts.
pub const VISIBLE_ROWS: &str = "[...document.querySelectorAll('tr.row')]\
    .filter(r => r.getClientRects().length).map(r => r.querySelector('th').dataset.v)";
/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Shared by all pages of this test program, because starting it takes longer than showing a page.
/// It exits with the program, which closes its pipe.
static BROWSER: OnceLock<Option<HeadlessBrowser>> = OnceLock::new();

struct HeadlessBrowser {
    commands: Mutex<File>,
    next: AtomicU64,
    listeners: Mutex<MessageListeners>,
    _child: Child,
}

/// Recipients of messages.
#[derive(Default)]
struct MessageListeners {
    /// Responses to commands that are not about a page, by number.
    answers: HashMap<u64, Sender<Value>>,
    /// All messages about a page, by its session.
    pages: HashMap<String, Sender<Value>>,
}

/// A page with its own window, cookies and storage, and everything that the browser reported about
/// it.
pub struct BrowserPage {
    browser: &'static HeadlessBrowser,
    context: Value,
    messages: Receiver<Value>,
    session: String,
    /// Requested URLs, and complaints of scripts.
    pub requests: Vec<String>,
    pub complaints: Vec<String>,
    pub loads: usize,
}

/// Viewport of a page.
#[derive(Clone, Copy, Debug)]
pub struct ScreenSize {
    pub width: u32,
    pub dark: bool,
    pub scripts: bool,
}

impl Default for ScreenSize {
    fn default() -> ScreenSize {
        ScreenSize { width: 1280, dark: false, scripts: true }
    }
}

/// The machine's Chromium, if it has one.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
}

/// Creates a folder for a browser profile; removes those of test programs that have exited.
fn profile() -> PathBuf {
    let all = Path::new(env!("CARGO_TARGET_TMPDIR")).join("browsers");
    for old in fs::read_dir(&all).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(old.file_name()).exists() {
            let _ = fs::remove_dir_all(old.path());
        }
    }
    all.join(std::process::id().to_string())
}

impl HeadlessBrowser {
    fn shared() -> Option<&'static HeadlessBrowser> {
        let browser =
            BROWSER.get_or_init(|| program().map(|program| HeadlessBrowser::start(&program)));
        if browser.is_none() {
            eprintln!("skipped: there is no Chromium in PATH");
        }
        browser.as_ref()
    }

    fn start(program: &Path) -> HeadlessBrowser {
        let (to_browser, commands) = pipe();
        let (answers, from_browser) = pipe();
        let mut command = Command::new(program);
        // Only our own files are shown, and as root there is no sandbox. Background pages must not
        // be throttled.
        command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--remote-debugging-pipe", "--no-first-run"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-background-timer-throttling",
                "--disable-backgrounding-occluded-windows",
                "--disable-renderer-backgrounding",
            ])
            // A foreign name that resolves to this machine.
            .arg(format!("--host-resolver-rules=MAP {REBOUND} 127.0.0.1"))
            .arg(format!("--user-data-dir={}", profile().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        hand_over(&mut command, [(to_browser, 3), (from_browser, 4)]);
        let child = command.spawn().unwrap();
        std::thread::spawn(move || {
            let messages = BufReader::new(File::from(answers)).split(0);
            for bytes in messages.map_while(Result::ok) {
                let message = serde_json::from_slice(&bytes).unwrap();
                // Its first message is a response to a command, so BROWSER is set by then.
                if let Some(Some(browser)) = BROWSER.get() {
                    browser.dispatch_message(message);
                }
            }
        });
        HeadlessBrowser {
            commands: Mutex::new(File::from(commands)),
            next: AtomicU64::new(1),
            listeners: Mutex::default(),
            _child: child,
        }
    }

    /// Dispatches a message to its recipient; messages for closed pages are dropped.
    fn dispatch_message(&self, message: Value) {
        let mut listeners = self.listeners.lock().unwrap();
        let of_page = message["sessionId"].as_str();
        let listener = match (of_page, message["id"].as_u64()) {
            (Some(session), _) => listeners.pages.get(session).cloned(),
            (None, Some(id)) => listeners.answers.remove(&id),
            (None, None) => None,
        };
        if let Some(listener) = listener {
            let _ = listener.send(message);
        }
    }

    /// Sends a command and returns its number.
    fn send(&self, mut command: Value, listener: Option<Sender<Value>>) -> u64 {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        command["id"] = json!(id);
        if let Some(listener) = listener {
            self.listeners.lock().unwrap().answers.insert(id, listener);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.lock().unwrap().write_all(&bytes).unwrap();
        id
    }

    /// Sends a command that is not about a page and returns its result.
    fn ask(&self, method: &str, params: Value) -> Value {
        let (sender, answers) = channel();
        self.send(json!({"method": method, "params": params}), Some(sender));
        let answer = answers.recv_timeout(PATIENCE).expect("an answer in time");
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Opens a new window, without a size yet.
    fn open(&'static self) -> BrowserPage {
        let context = self.ask("Target.createBrowserContext", json!({}))["browserContextId"].take();
        let blank = json!({"url": "about:blank", "browserContextId": context});
        let target = self.ask("Target.createTarget", blank);
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.ask("Target.attachToTarget", attach);
        let session = attached["sessionId"].as_str().unwrap().to_owned();
        let (sender, messages) = channel();
        let mut listeners = self.listeners.lock().unwrap();
        listeners.pages.insert(session.clone(), sender);
        drop(listeners);
        BrowserPage {
            browser: self,
            context,
            messages,
            session,
            requests: Vec::new(),
            complaints: Vec::new(),
            loads: 0,
        }
    }
}

impl BrowserPage {
    /// Shows the page in a file and waits until it is loaded; `None` without a browser.
    pub fn open(file: &Path, screen: ScreenSize) -> Option<BrowserPage> {
        BrowserPage::at(&format!("file://{}", file.display()), screen)
    }

    /// Shows the page at a URL and waits until it is loaded; `None` without a browser.
    pub fn at(address: &str, screen: ScreenSize) -> Option<BrowserPage> {
        let mut page = HeadlessBrowser::shared()?.open();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.send(&format!("{domain}.enable"), json!({}));
        }
        let size = json!({"width": screen.width, "height": 900, "deviceScaleFactor": 1,
            "mobile": screen.width < 600});
        page.send("Emulation.setDeviceMetricsOverride", size);
        // Every page behaves as if it had the focus.
        page.send("Emulation.setFocusEmulationEnabled", json!({"enabled": true}));
        page.scripts(screen.scripts);
        page.emulate_media("screen", screen.dark);
        page.navigate_to(address);
        Some(page)
    }

    pub fn scripts(&mut self, are_on: bool) {
        let how = json!({"value": !are_on});
        self.send("Emulation.setScriptExecutionDisabled", how);
    }

    /// Navigates to another page and waits until it is loaded.
    pub fn navigate_to(&mut self, address: &str) {
        let before = self.loads;
        self.send("Page.navigate", json!({"url": address}));
        self.wait_for_load(before);
    }

    /// Waits until more than `before` pages have loaded.
    pub fn wait_for_load(&mut self, before: usize) {
        if self.loads == before {
            self.wait_for_message(|message| message["method"] == "Page.loadEventFired");
        }
    }

    /// Goes back to the previous page and waits until it is complete. It may come from the browser's
    /// cache: that is not a load.
    #[track_caller]
    pub fn go_back_to(&mut self, address: &str) {
        // Deferred until after the response, which unloading the page would prevent.
        self.evaluate_script("void setTimeout(() => history.back())");
        self.wait_until(&format!("location.href === {}", json!(address)));
        self.wait_until("document.readyState === 'complete'");
    }

    /// Sends a command to the page and returns its result.
    pub fn send(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn answer(&mut self, method: &str, params: Value) -> Value {
        let command = json!({"method": method, "params": params, "sessionId": self.session});
        let id = self.browser.send(command, None);
        self.wait_for_message(|message| message["id"] == id)
    }

    fn wait_for_message(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).expect("an answer in time");
            self.record_message(&message);
            if wanted(&message) {
                return message;
            }
        }
    }

    /// Records requests and complaints.
    fn record_message(&mut self, message: &Value) {
        let params = &message["params"];
        match message["method"].as_str().unwrap_or_default() {
            "Page.loadEventFired" => self.loads += 1,
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                // Content inside the page is not fetched.
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

    /// Emulates a medium and a color scheme.
    pub fn emulate_media(&mut self, media: &str, dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.send("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    /// Evaluates a JavaScript expression, awaiting promises.
    #[track_caller]
    pub fn evaluate_script(&mut self, expression: &str) -> Value {
        let value = self.evaluate_unless_replaced(expression);
        value.unwrap_or_else(|| panic!("the page was left: {expression}"))
    }

    /// Like [`BrowserPage::evaluate_script`]; `None` if the page is replaced meanwhile.
    #[track_caller]
    fn evaluate_unless_replaced(&mut self, expression: &str) -> Option<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.answer("Runtime.evaluate", params);
        if answer["error"]["message"] == "Inspected target navigated or closed" {
            return None;
        }
        let result = &answer["result"];
        assert!(
            answer["error"].is_null() && result["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        Some(result["result"]["value"].clone())
    }

    /// Waits until an expression is true: a browser applies a change of medium, or of scrolling,
    /// asynchronously.
    #[track_caller]
    pub fn wait_until(&mut self, expression: &str) {
        let end = Instant::now() + PATIENCE;
        while self.evaluate_unless_replaced(expression) != Some(Value::Bool(true)) {
            assert!(Instant::now() < end, "never true: {expression}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until a text is on the page.
    #[track_caller]
    pub fn wait_for_text(&mut self, text: &str) {
        self.wait_until(&format!("document.body?.textContent.includes({})", json!(text)));
    }

    /// Waits until the page is the one at a path.
    #[track_caller]
    pub fn wait_for_path(&mut self, path: &str) {
        self.wait_until(&format!("location.pathname === {}", json!(path)));
    }

    /// Checks that a page fits a screen of this width.
    #[track_caller]
    pub fn expect_fit(&mut self, width: u32, page: &str) {
        let (wide, _) = self.size();
        assert!(wide <= u64::from(width), "{page} is {wide} wide");
    }

    /// Width and height of the whole page, in pixels; works without scripts.
    pub fn size(&mut self) -> (u64, u64) {
        let size = self.send("Page.getLayoutMetrics", json!({}))["cssContentSize"].take();
        let side = |name: &str| size[name].as_f64().unwrap().ceil() as u64;
        (side("width"), side("height"))
    }

    /// Takes a PNG screenshot of its upper part.
    pub fn picture(&mut self, width: u32, height: u64) -> Vec<u8> {
        let clip = json!({"x": 0, "y": 0, "width": width, "height": height, "scale": 1});
        let wanted = json!({"format": "png", "captureBeyondViewport": true, "clip": clip});
        let taken = self.send("Page.captureScreenshot", wanted);
        decode_base64(taken["data"].as_str().unwrap())
    }

    /// Clicks into the middle of the first matching element.
    #[track_caller]
    pub fn click(&mut self, selector: &str) {
        let place = self.evaluate_script(&format!(
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

    /// Clicks a link or a button and waits until the page that it leads to is loaded.
    #[track_caller]
    pub fn click_and_load(&mut self, selector: &str) {
        let before = self.loads;
        self.click(selector);
        self.wait_for_load(before);
    }

    /// Presses a key on the focused element.
    pub fn press(&mut self, key: &str, text: &str, code: u32) {
        let event = |kind: &str| {
            json!({"type": kind, "key": key, "code": key, "text": text,
                "windowsVirtualKeyCode": code})
        };
        self.send("Input.dispatchKeyEvent", event("keyDown"));
        self.send("Input.dispatchKeyEvent", event("keyUp"));
    }

    /// Types text into the focused element.
    pub fn write(&mut self, text: &str) {
        self.send("Input.insertText", json!({"text": text}));
    }
}

/// Decodes base64 (RFC 4648, section 4).
fn decode_base64(text: &str) -> Vec<u8> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').collect();
    let mut bytes = Vec::new();
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0_u32, |bits, digit| bits << 6 | u32::from(value(*digit)));
        let bits = bits << (6 * (4 - four.len()));
        bytes.extend_from_slice(&bits.to_be_bytes()[1..four.len()]);
    }
    bytes
}

impl Drop for BrowserPage {
    /// The window of a failed test stays open: the connection may be the reason for the failure.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut listeners = self.browser.listeners.lock().unwrap();
        listeners.pages.remove(&self.session);
        drop(listeners);
        let context = json!({"browserContextId": self.context});
        let command = json!({"method": "Target.disposeBrowserContext", "params": context});
        self.browser.send(command, None);
    }
}
