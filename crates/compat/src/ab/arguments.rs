//! Parses the command line of ab.
//!
//! Follows the rules of getopt: letters may be clustered (`-kq`) and values attached (`-n100`).
//! Unlike in ab itself, options may also follow the URL. This module only stores the values of
//! options; other modules act on them. Start at [`AbCommand::parse`].

use crate::console::{self, ArgumentError};
use std::net::IpAddr;
use std::path::PathBuf;

/// Name of the tool in messages.
pub const TOOL: &str = "ab";

/// Parsed command line.
#[derive(Debug, Clone, PartialEq)]
pub enum AbCommand {
    Help,
    Version,
    Test(Box<AbRequest>),
}

/// Request body to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestBody {
    /// HTTP method, unless `-m` names another method.
    pub method: &'static str,
    /// File that holds the body.
    pub file: PathBuf,
}

/// HTML attributes of the report's table, its rows and its cells (`-w`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HtmlAttributes {
    /// `-x`: attributes of the table.
    pub table: String,
    /// `-y`: attributes of rows.
    pub row: String,
    /// `-z`: attributes of cells.
    pub cell: String,
}

/// Options of a test.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AbRequest {
    pub url: String,
    /// `-n`; `None` if only `-t` is given.
    pub requests: Option<u64>,
    /// `-c`.
    pub concurrency: u32,
    /// `-t`, in seconds.
    pub time_s: Option<f64>,
    /// `-s`, in seconds.
    pub timeout_s: f64,
    /// Whether `-b` was given.
    pub sets_window: bool,
    /// `-B`.
    pub local: Option<IpAddr>,
    /// `-p` or `-u`.
    pub upload: Option<RequestBody>,
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
    pub continues_on_errors: bool,
    /// `--http1.0`.
    pub is_http10: bool,
    /// `--verify`: string that every body must contain.
    pub verify: Option<String>,
    /// `--insecure`.
    pub trusts_anyone: bool,
    /// `-E`.
    pub identity: Option<PathBuf>,
    /// `-f`: the only accepted version, as the TLS library spells it (`TLSv1.3`); `None` for any.
    pub tls_version: Option<&'static str>,
    /// `-v`.
    pub verbosity: u32,
    /// `-q`.
    pub hides_progress: bool,
    /// `-d`.
    pub hides_percentages: bool,
    /// `-S`.
    pub hides_spread: bool,
    /// `-l`: the length of responses is expected to vary.
    pub varying: bool,
    /// `--ab-lengths`: the report also says how many responses ab would count as failed because of
    /// their length.
    pub counts_lengths: bool,
    /// Attributes of the HTML table, if `-w`, `-x`, `-y` or `-z` is given.
    pub html: Option<HtmlAttributes>,
    /// `-e`.
    pub csv: Option<PathBuf>,
    /// `-g`.
    pub tsv: Option<PathBuf>,
    /// `--sort ttime`: the rows that `-g` writes go from the fastest to the slowest, as in ab,
    /// instead of by start of the request.
    pub sorts_by_total: bool,
}

impl AbRequest {
    /// Returns the defaults, without a URL.
    pub fn with_defaults() -> AbRequest {
        AbRequest {
            concurrency: 1,
            timeout_s: 30.0,
            content_type: "text/plain".to_owned(),
            ..AbRequest::default()
        }
    }

    /// Requests an HTML table; returns its attributes, which are at first those of ab.
    fn html_attributes(&mut self) -> &mut HtmlAttributes {
        let cell = "bgcolor=white".to_owned();
        self.html.get_or_insert_with(|| HtmlAttributes { cell, ..HtmlAttributes::default() })
    }

    /// Returns the method of every request.
    pub fn method(&self) -> &str {
        let uploaded = self.upload.as_ref().map(|upload| upload.method);
        self.method.as_deref().or(uploaded).unwrap_or("GET")
    }
}

/// All options, as [`console::find_option`] reads them. ab itself has no long options.
const OPTIONS: &str = "-l -r -k -V -h -w -i -I -d -S -q --help --http1.0 --insecure --ab-lengths \
                       -n= -c= -t= -s= -b= -T= -p= -u= -v= -x= -y= -z= -C= -H= -P= -A= -g= -X= -e= \
                       -B= -m= -Z= -f= -E= --sort= --verify=";

impl AbCommand {
    /// Parses a command line.
    ///
    /// # Errors
    /// Fails if the command line is invalid; the error is a sentence fragment that states the
    /// reason.
    pub fn parse(arguments: &[String]) -> Result<AbCommand, String> {
        let parsed = console::parse_getopt(arguments, |name| {
            console::find_option(OPTIONS, |option| option == name)
        })
        .map_err(explain_error)?;
        let mut request = AbRequest::with_defaults();
        for (name, value) in parsed.options {
            match (name, value) {
                ("-h" | "--help", _) => return Ok(AbCommand::Help),
                ("-V", _) => return Ok(AbCommand::Version),
                (_, None) => set_flag(&mut request, name)?,
                (_, Some(value)) => set_value(&mut request, name, value)?,
            }
        }
        match parsed.others.as_slice() {
            [url] => request.url = (*url).to_owned(),
            [] => return Err("wrong number of arguments: missing URL".to_owned()),
            [_, second, ..] => {
                return Err(format!(
                    "wrong number of arguments: expected one URL, found a second one, '{second}'"
                ));
            }
        }
        check_request(&mut request)?;
        Ok(AbCommand::Test(Box::new(request)))
    }
}

fn explain_error(error: ArgumentError<'_>) -> String {
    match error {
        ArgumentError::UnknownLetter(letter, _) => format!("illegal option -- {letter}"),
        ArgumentError::NeedsValue(name) => {
            format!("option requires an argument -- {}", name.trim_start_matches('-'))
        }
        ArgumentError::TakesNoValue(name) => format!("'{name}' takes no value"),
        ArgumentError::UnknownName(name) => {
            let is_similar = |option: &&str| {
                option.starts_with("--") && strsim::damerau_levenshtein(option, name) <= 2
            };
            let similar = console::first_names(OPTIONS).find(is_similar);
            let hint = similar.map(|option| format!("\nhint: did you mean '{option}'?"));
            format!("unknown option '{name}'{}", hint.unwrap_or_default())
        }
    }
}

fn set_flag(request: &mut AbRequest, name: &str) -> Result<(), String> {
    match name {
        "-l" => request.varying = true,
        "-d" => request.hides_percentages = true,
        "-S" => request.hides_spread = true,
        "-q" => request.hides_progress = true,
        "-w" => {
            request.html_attributes();
        }
        "-r" => request.continues_on_errors = true,
        "-k" => request.keeps_alive = true,
        "-i" => request.method = Some("HEAD".to_owned()),
        "--http1.0" => request.is_http10 = true,
        "--insecure" => request.trusts_anyone = true,
        "--ab-lengths" => request.counts_lengths = true,
        _ => {
            return Err("'-I' is not supported: the TLS handshake always includes the server name"
                .to_owned());
        }
    }
    Ok(())
}

fn set_value(request: &mut AbRequest, name: &str, value: &str) -> Result<(), String> {
    match name {
        "-n" => request.requests = Some(parse_count(name, value, "requests")?),
        "-c" => {
            let count = parse_count(name, value, "concurrent requests")?;
            let unsupported =
                || format!("'-c {value}' is more than the supported number of connections");
            request.concurrency = u32::try_from(count).map_err(|_| unsupported())?;
        }
        "-t" => request.time_s = Some(parse_seconds(name, value)?),
        "-s" => request.timeout_s = parse_seconds(name, value)?,
        "-b" => {
            parse_count(name, value, "bytes")?;
            request.sets_window = true;
        }
        "-v" => {
            let level = value.parse();
            request.verbosity = level.map_err(|_| format!("'-v' needs a number, not '{value}'"))?;
        }
        "-B" => {
            let address = value.trim_matches(['[', ']']).parse();
            request.local =
                Some(address.map_err(|_| format!("'-B' needs an IP address, not '{value}'"))?);
        }
        "-p" => set_upload(request, "POST", value)?,
        "-u" => set_upload(request, "PUT", value)?,
        "-T" => request.content_type = value.to_owned(),
        "-m" => request.method = Some(value.to_owned()),
        "-C" => request.cookies.push(value.to_owned()),
        "-H" => request.headers.push(parse_header(value)?),
        "-A" => request.credentials = Some(value.to_owned()),
        "-P" => request.proxy_credentials = Some(value.to_owned()),
        "-X" => request.proxy = Some(value.to_owned()),
        "-e" => request.csv = Some(value.into()),
        "-g" => request.tsv = Some(value.into()),
        "-x" => request.html_attributes().table = value.to_owned(),
        "-y" => request.html_attributes().row = value.to_owned(),
        "-z" => request.html_attributes().cell = value.to_owned(),
        "-E" => request.identity = Some(value.into()),
        "-f" => request.tls_version = parse_tls_version(value)?,
        "--verify" => request.verify = Some(value.to_owned()),
        "--sort" => {
            request.sorts_by_total = match value {
                "start" => false,
                "ttime" => true,
                _ => return Err(format!("'--sort' must be 'start' or 'ttime', not '{value}'")),
            }
        }
        _ => {
            return Err(format!(
                "'-Z {value}' is not supported: cipher suites cannot be chosen\nhint: the report \
                 names the cipher suite that was negotiated"
            ));
        }
    }
    Ok(())
}

fn parse_count(name: &str, value: &str, unit: &str) -> Result<u64, String> {
    match value.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!("'{name}' needs a number of {unit}, not '{value}'")),
    }
}

/// Longest accepted time: a year.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

fn parse_seconds(name: &str, value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => Ok(seconds),
        _ => Err(format!("'{name}' needs a number of seconds, not '{value}'")),
    }
}

fn parse_header(value: &str) -> Result<(String, String), String> {
    let (name, value) =
        value.split_once(':').ok_or_else(|| format!("'-H' needs 'Name: value', not '{value}'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn set_upload(request: &mut AbRequest, method: &'static str, file: &str) -> Result<(), String> {
    if request.upload.is_some() {
        return Err("'-p' and '-u' can be given only once and not together".to_owned());
    }
    request.upload = Some(RequestBody { method, file: file.into() });
    Ok(())
}

fn parse_tls_version(value: &str) -> Result<Option<&'static str>, String> {
    match value {
        "ALL" => Ok(None),
        "TLS1.2" => Ok(Some("TLSv1.2")),
        "TLS1.3" => Ok(Some("TLSv1.3")),
        "SSL2" | "SSL3" | "TLS1" | "TLS1.1" => Err(format!(
            "'-f {value}' is not supported: use TLS 1.2 or 1.3, older versions are insecure"
        )),
        _ => Err(format!("'-f' must be 'TLS1.2', 'TLS1.3' or 'ALL', not '{value}'")),
    }
}

/// Checks conditions that depend on several options, and sets the default number of requests.
fn check_request(request: &mut AbRequest) -> Result<(), String> {
    if request.upload.is_some() && request.method.as_deref() == Some("HEAD") {
        return Err("Cannot mix POST with other methods: HEAD has no body".to_owned());
    }
    if request.requests.is_none() && request.time_s.is_none() {
        request.requests = Some(1);
    }
    // This message has the same wording as in ab, because scripts search for it.
    if let Some(requests) = request.requests
        && u64::from(request.concurrency) > requests
    {
        return Err("Cannot use concurrency level greater than total number of requests".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<AbCommand, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        AbCommand::parse(&words)
    }

    #[track_caller]
    fn test(line: &str) -> AbRequest {
        match read_line(line) {
            Ok(AbCommand::Test(request)) => *request,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn letters_are_clustered_and_values_attached_as_with_getopt() {
        let apart = test("-k -q -n 100 -c 10 http://h/");
        assert_eq!(test("-kqn100 -c10 http://h/"), apart);
        assert_eq!(test("http://h/ -kqn 100 -c10"), apart);
        assert_eq!(apart.requests, Some(100));
        assert!(apart.keeps_alive && apart.hides_progress);
    }

    #[test]
    fn every_letter_of_the_original_is_known() {
        // From the usage of ab 2.3.
        let line = "-n 9 -c 2 -t 3 -s 4 -b 1024 -B 127.0.0.1 -p f -T a/b -v 2 -w -x a -y b -z c \
                    -C a=1 -C b=2 -H X:1 -A u:p -P u:p -X h:1 -k -d -S -q -l -g g -e e -r -m PATCH \
                    -f TLS1.3 -E pem http://h/";
        let request = test(line);
        assert_eq!(request.method(), "PATCH");
        assert_eq!(request.cookies, ["a=1", "b=2"]);
        assert_eq!(request.headers, [("X".to_owned(), "1".to_owned())]);
        assert_eq!(request.time_s, Some(3.0));
        let html = request.html.unwrap();
        assert_eq!((&*html.table, &*html.row, &*html.cell), ("a", "b", "c"));
        assert_eq!(test("-u f http://h/").method(), "PUT");
        assert_eq!(test("-i http://h/").method(), "HEAD");
        assert_eq!(read_line("-h"), Ok(AbCommand::Help));
        assert_eq!(read_line("-V"), Ok(AbCommand::Version));
        for refused in ["-I http://h/", "-Z AES http://h/", "-f SSL2 http://h/"] {
            let reason = read_line(refused).unwrap_err();
            assert!(reason.contains("is not supported: "), "{reason}");
        }
    }

    #[test]
    fn time_alone_means_no_number_of_requests() {
        assert_eq!(test("-t 5 -c 80000 h/").requests, None);
        assert_eq!(test("-n 7 -t 5 h/").requests, Some(7));
        assert_eq!(test("-t 5 -n 7 h/").requests, Some(7));
        assert_eq!(test("h/").requests, Some(1));
    }

    #[test]
    fn invalid_arguments_are_refused_with_a_reason() {
        for (line, why) in [
            ("", "wrong number of arguments: missing URL"),
            ("a b", "wrong number of arguments: expected one URL, found a second one, 'b'"),
            ("-n", "option requires an argument -- n"),
            ("-kQ h/", "illegal option -- Q"),
            ("-n 0 h/", "'-n' needs a number of requests, not '0'"),
            ("-n 10k h/", "'-n' needs a number of requests, not '10k'"),
            ("-t -1 h/", "'-t' needs a number of seconds, not '-1'"),
            ("-n 2 -c 10 h/", "Cannot use concurrency level greater than total number of requests"),
            ("-H nothing h/", "'-H' needs 'Name: value', not 'nothing'"),
            ("-p a -u b h/", "'-p' and '-u' can be given only once and not together"),
            ("-i -p a h/", "Cannot mix POST with other methods: HEAD has no body"),
            ("--sort size h/", "'--sort' must be 'start' or 'ttime', not 'size'"),
            ("--insecur h/", "unknown option '--insecur'\nhint: did you mean '--insecure'?"),
        ] {
            assert_eq!(read_line(line).unwrap_err(), why);
        }
    }
}
