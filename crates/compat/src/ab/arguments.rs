//! The command line of ab.
//!
//! Decides its grammar, which is that of getopt: letters may be clustered (`-kq`) and values attached
//! (`-n100`). Unlike in the original, options may also follow the address. It must not know what an
//! option does to a load. Start at [`Asked::parse`].

mod read;

use std::net::IpAddr;
use std::path::PathBuf;

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// The usage.
    Help,
    /// The version.
    Version,
    /// A test.
    Test(Box<Request>),
}

/// What is sent as a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upload {
    /// The method, unless `-m` names another.
    pub method: &'static str,
    /// The file.
    pub file: PathBuf,
}

/// The order of the rows of `-g`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    /// As the requests began.
    #[default]
    Start,
    /// From the fastest to the slowest, as the original sorts.
    Total,
}

/// A version of TLS that `-f` can insist on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2 and nothing else.
    V12,
    /// TLS 1.3 and nothing else.
    V13,
}

/// Attributes of the HTML table and its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Of the table: `-x`.
    pub table: String,
    /// Of rows: `-y`.
    pub row: String,
    /// Of cells: `-z`.
    pub cell: String,
}

impl Default for Attributes {
    fn default() -> Attributes {
        Attributes {
            table: String::new(),
            row: String::new(),
            cell: "bgcolor=white".to_owned(),
        }
    }
}

/// How TLS is spoken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Security {
    /// `--insecure`.
    pub trusts_anyone: bool,
    /// `-E`.
    pub identity: Option<PathBuf>,
    /// `-f`.
    pub version: Option<TlsVersion>,
}

/// What the report shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// `-v`.
    pub verbosity: u32,
    /// Not `-q`.
    pub progress: bool,
    /// Not `-d`.
    pub percentages: bool,
    /// Not `-S`.
    pub spread: bool,
    /// `-l`.
    pub varying: bool,
    /// `--ab-lengths`.
    pub counts_lengths: bool,
    /// `-w`, or any of its attributes.
    pub html: Option<Attributes>,
    /// `-e`.
    pub csv: Option<PathBuf>,
    /// `-g`.
    pub tsv: Option<PathBuf>,
    /// `--sort`.
    pub sort: Sort,
}

/// A test.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The address, as typed.
    pub url: String,
    /// `-n`; absent with `-t` alone.
    pub requests: Option<u64>,
    /// `-c`.
    pub concurrency: u32,
    /// `-t`, in seconds.
    pub time_s: Option<f64>,
    /// `-s`, in seconds.
    pub timeout_s: f64,
    /// `-b` was given.
    pub sets_window: bool,
    /// `-B`.
    pub local: Option<IpAddr>,
    /// `-p` or `-u`.
    pub upload: Option<Upload>,
    /// `-T`.
    pub content_type: String,
    /// `-m`, or HEAD for `-i`.
    pub method: Option<String>,
    /// `-C`, each `name=value`.
    pub cookies: Vec<String>,
    /// `-H`, split at the colon.
    pub headers: Vec<(String, String)>,
    /// `-A`.
    pub credentials: Option<String>,
    /// `-P`.
    pub proxy_credentials: Option<String>,
    /// `-X`, as typed.
    pub proxy: Option<String>,
    /// `-k`.
    pub keeps_alive: bool,
    /// `-r`.
    pub goes_on: bool,
    /// `--http1.0`.
    pub is_http10: bool,
    /// `--verify`: every body contains it.
    pub verify: Option<String>,
    /// TLS.
    pub security: Security,
    /// The report.
    pub shown: Shown,
}

impl Default for Request {
    fn default() -> Request {
        Request {
            url: String::new(),
            requests: None,
            concurrency: 1,
            time_s: None,
            timeout_s: 30.0,
            sets_window: false,
            local: None,
            upload: None,
            content_type: "text/plain".to_owned(),
            method: None,
            cookies: Vec::new(),
            headers: Vec::new(),
            credentials: None,
            proxy_credentials: None,
            proxy: None,
            keeps_alive: false,
            goes_on: false,
            is_http10: false,
            verify: None,
            security: Security::default(),
            shown: Shown {
                verbosity: 0,
                progress: true,
                percentages: true,
                spread: true,
                varying: false,
                counts_lengths: false,
                html: None,
                csv: None,
                tsv: None,
                sort: Sort::Start,
            },
        }
    }
}

impl Asked {
    /// Reads a command line.
    ///
    /// # Errors
    /// It is none of ab; a fragment of a sentence says why.
    pub fn parse(arguments: &[String]) -> Result<Asked, String> {
        read::read(arguments)
    }
}

impl Request {
    /// Whether bodies are uploaded, so that the original tells how much was sent.
    pub fn is_upload(&self) -> bool {
        self.upload.is_some()
    }

    /// The method of every request.
    pub fn method(&self) -> &str {
        let uploaded = self.upload.as_ref().map(|upload| upload.method);
        self.method.as_deref().or(uploaded).unwrap_or("GET")
    }
}
