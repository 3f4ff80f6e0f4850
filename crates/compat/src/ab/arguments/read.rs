//! Reads the words of a command line, letter by letter.
//!
//! Start at [`read`].

use super::{Asked, Attributes, Request, Sort, TlsVersion, Upload};

/// The letters that have no value, and those that have one.
const FLAGS: &str = "lrkVhwiIdSq";
const VALUED: &str = "nctsbTpuvxyzCHPAgXeBmZfE";

/// Options that the original does not have, and whether they have a value.
const LONG: [(&str, bool); 6] = [
    ("help", false),
    ("http1.0", false),
    ("insecure", false),
    ("ab-lengths", false),
    ("sort", true),
    ("verify", true),
];

/// The words as options with their values, and the words that are none.
struct Words<'a> {
    options: Vec<(&'a str, &'a str)>,
    others: Vec<&'a str>,
}

/// Reads a command line.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    let words = split(arguments)?;
    let mut request = Request::default();
    for (name, value) in words.options {
        match name {
            "h" | "help" => return Ok(Asked::Help),
            "V" => return Ok(Asked::Version),
            _ if FLAGS.contains(name) => flag(&mut request, name)?,
            _ if VALUED.contains(name) => valued(&mut request, name, value)?,
            _ => long(&mut request, name, value)?,
        }
    }
    match words.others.as_slice() {
        [url] => request.url = (*url).to_owned(),
        [] => return Err("wrong number of arguments: there is no address".to_owned()),
        [_, second, ..] => {
            return Err(format!(
                "wrong number of arguments: one address is tested, and '{second}' is another"
            ));
        }
    }
    check(&mut request)?;
    Ok(Asked::Test(Box::new(request)))
}

fn split(arguments: &[String]) -> Result<Words<'_>, String> {
    let mut words = Words {
        options: Vec::new(),
        others: Vec::new(),
    };
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if word == "--" {
            words.others.extend(rest.by_ref());
        } else if let Some(name) = word.strip_prefix("--") {
            words.options.push(long_option(name, &mut rest)?);
        } else if word.len() > 1 && word.starts_with('-') {
            cluster(&word[1..], &mut rest, &mut words.options)?;
        } else {
            words.others.push(word);
        }
    }
    Ok(words)
}

/// `kqn100`: flags up to a letter with a value, which is the rest of the word or the next one.
fn cluster<'a>(
    letters: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
    options: &mut Vec<(&'a str, &'a str)>,
) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        let end = at + letter.len_utf8();
        let name = &letters[at..end];
        if FLAGS.contains(letter) {
            options.push((name, ""));
        } else if VALUED.contains(letter) {
            let value = match &letters[end..] {
                "" => rest.next(),
                attached => Some(attached),
            };
            let value = value.ok_or_else(|| format!("option requires an argument -- {name}"))?;
            options.push((name, value));
            return Ok(());
        } else {
            return Err(format!("illegal option -- {name}"));
        }
    }
    Ok(())
}

fn long_option<'a>(
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<(&'a str, &'a str), String> {
    let (name, attached) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let Some((name, has_value)) = LONG.iter().find(|(known, _)| *known == name) else {
        let near = |(known, _): &&(&str, bool)| strsim::damerau_levenshtein(known, name) <= 2;
        let hint = LONG.iter().find(near).map_or(String::new(), |(known, _)| {
            format!("\nhint: did you mean '--{known}'?")
        });
        return Err(format!("there is no option '--{name}'{hint}"));
    };
    match (has_value, attached) {
        (true, None) => rest
            .next()
            .map(|value| (*name, value))
            .ok_or_else(|| format!("option requires an argument -- {name}")),
        (true, Some(value)) => Ok((*name, value)),
        (false, None) => Ok((*name, "")),
        (false, Some(_)) => Err(format!("'--{name}' has no value")),
    }
}

fn flag(request: &mut Request, name: &str) -> Result<(), String> {
    let shown = &mut request.shown;
    match name {
        "l" => shown.varying = true,
        "d" => shown.percentages = false,
        "S" => shown.spread = false,
        "q" => shown.progress = false,
        "w" => {
            shown.html.get_or_insert_default();
        }
        "r" => request.goes_on = true,
        "k" => request.keeps_alive = true,
        "i" => request.method = Some("HEAD".to_owned()),
        _ => {
            return Err(
                "'-I' is not supported: the name of the server is always part of the TLS handshake"
                    .to_owned(),
            );
        }
    }
    Ok(())
}

fn valued(request: &mut Request, name: &str, value: &str) -> Result<(), String> {
    let owned = || value.to_owned();
    match name {
        "n" => request.requests = Some(count(name, value, "requests")?),
        "c" => {
            let asked = count(name, value, "concurrent requests")?;
            request.concurrency = u32::try_from(asked)
                .map_err(|_| format!("'-c {value}' is more than can be opened"))?;
        }
        "t" => request.time_s = Some(seconds(name, value)?),
        "s" => request.timeout_s = seconds(name, value)?,
        "b" => {
            count(name, value, "bytes")?;
            request.sets_window = true;
        }
        "v" => {
            let level = value.parse();
            request.shown.verbosity =
                level.map_err(|_| format!("'-v' needs a number, not '{value}'"))?;
        }
        "B" => {
            let address = value.trim_matches(['[', ']']).parse();
            request.local =
                Some(address.map_err(|_| format!("'-B' needs an address, not '{value}'"))?);
        }
        "p" => upload(request, "POST", value)?,
        "u" => upload(request, "PUT", value)?,
        "T" => request.content_type = owned(),
        "m" => request.method = Some(owned()),
        "C" => request.cookies.push(owned()),
        "H" => request.headers.push(header(value)?),
        "A" => request.credentials = Some(owned()),
        "P" => request.proxy_credentials = Some(owned()),
        "X" => request.proxy = Some(owned()),
        "e" => request.shown.csv = Some(value.into()),
        "g" => request.shown.tsv = Some(value.into()),
        "E" => request.security.identity = Some(value.into()),
        "f" => request.security.version = tls_version(value)?,
        "Z" => {
            return Err(format!(
                "'-Z {value}' is not supported: cipher suites cannot be chosen\n\
                 hint: the report names the one that was agreed on"
            ));
        }
        _ => attribute(
            request.shown.html.get_or_insert_with(Attributes::default),
            name,
            value,
        ),
    }
    Ok(())
}

fn attribute(html: &mut Attributes, name: &str, value: &str) {
    let place = match name {
        "x" => &mut html.table,
        "y" => &mut html.row,
        _ => &mut html.cell,
    };
    value.clone_into(place);
}

fn long(request: &mut Request, name: &str, value: &str) -> Result<(), String> {
    match name {
        "http1.0" => request.is_http10 = true,
        "insecure" => request.security.trusts_anyone = true,
        "ab-lengths" => request.shown.counts_lengths = true,
        "verify" => request.verify = Some(value.to_owned()),
        _ => {
            request.shown.sort = match value {
                "start" => Sort::Start,
                "ttime" => Sort::Total,
                _ => return Err(format!("'--sort' is 'start' or 'ttime', not '{value}'")),
            };
        }
    }
    Ok(())
}

fn count(letter: &str, value: &str, what: &str) -> Result<u64, String> {
    match value.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(format!(
            "'-{letter}' needs a number of {what}, not '{value}'"
        )),
    }
}

/// The longest time that may be asked for: a year.
const LONGEST_S: f64 = 366.0 * 86_400.0;

fn seconds(letter: &str, value: &str) -> Result<f64, String> {
    match value.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= LONGEST_S => Ok(seconds),
        _ => Err(format!(
            "'-{letter}' needs a number of seconds, not '{value}'"
        )),
    }
}

fn header(value: &str) -> Result<(String, String), String> {
    let (name, value) = value
        .split_once(':')
        .ok_or_else(|| format!("'-H' needs 'Name: value', not '{value}'"))?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn upload(request: &mut Request, method: &'static str, file: &str) -> Result<(), String> {
    if request.upload.is_some() {
        return Err("one body is sent: '-p' or '-u', once".to_owned());
    }
    request.upload = Some(Upload {
        method,
        file: file.into(),
    });
    Ok(())
}

fn tls_version(value: &str) -> Result<Option<TlsVersion>, String> {
    match value {
        "ALL" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::V12)),
        "TLS1.3" => Ok(Some(TlsVersion::V13)),
        "SSL2" | "SSL3" | "TLS1" | "TLS1.1" => Err(format!(
            "'-f {value}' is not supported: TLS 1.2 and 1.3 are spoken, older versions are unsafe"
        )),
        _ => Err(format!(
            "'-f' is 'TLS1.2', 'TLS1.3' or 'ALL', not '{value}'"
        )),
    }
}

/// What only the whole command line tells.
fn check(request: &mut Request) -> Result<(), String> {
    if request.upload.is_some() && request.method.as_deref() == Some("HEAD") {
        return Err("Cannot mix POST with other methods: HEAD has no body".to_owned());
    }
    if request.requests.is_none() && request.time_s.is_none() {
        request.requests = Some(1);
    }
    // The words of the original, for scripts that look for them.
    if let Some(requests) = request.requests
        && u64::from(request.concurrency) > requests
    {
        return Err(
            "Cannot use concurrency level greater than total number of requests".to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        read(&words)
    }

    #[track_caller]
    fn test(line: &str) -> Request {
        match read_line(line) {
            Ok(Asked::Test(request)) => *request,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn letters_are_clustered_and_values_attached_as_with_getopt() {
        let apart = test("-k -q -n 100 -c 10 http://h/");
        assert_eq!(test("-kqn100 -c10 http://h/"), apart);
        assert_eq!(test("http://h/ -kqn 100 -c10"), apart);
        assert_eq!(apart.requests, Some(100));
        assert!(apart.keeps_alive && !apart.shown.progress);
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
        let html = request.shown.html.unwrap();
        assert_eq!((&*html.table, &*html.row, &*html.cell), ("a", "b", "c"));
        assert_eq!(test("-u f http://h/").method(), "PUT");
        assert_eq!(test("-i http://h/").method(), "HEAD");
        assert_eq!(read_line("-h"), Ok(Asked::Help));
        assert_eq!(read_line("-V"), Ok(Asked::Version));
        for refused in ["-I http://h/", "-Z AES http://h/", "-f SSL2 http://h/"] {
            let why = read_line(refused).unwrap_err();
            assert!(why.contains("is not supported: "), "{why}");
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
    fn what_makes_no_sense_is_refused() {
        for (line, why) in [
            ("", "wrong number of arguments: there is no address"),
            (
                "a b",
                "wrong number of arguments: one address is tested, and 'b' is another",
            ),
            ("-n", "option requires an argument -- n"),
            ("-kQ h/", "illegal option -- Q"),
            ("-n 0 h/", "'-n' needs a number of requests, not '0'"),
            ("-n 10k h/", "'-n' needs a number of requests, not '10k'"),
            ("-t -1 h/", "'-t' needs a number of seconds, not '-1'"),
            (
                "-n 2 -c 10 h/",
                "Cannot use concurrency level greater than total number of requests",
            ),
            ("-H nothing h/", "'-H' needs 'Name: value', not 'nothing'"),
            ("-p a -u b h/", "one body is sent: '-p' or '-u', once"),
            (
                "-i -p a h/",
                "Cannot mix POST with other methods: HEAD has no body",
            ),
            (
                "--sort size h/",
                "'--sort' is 'start' or 'ttime', not 'size'",
            ),
            (
                "--insecur h/",
                "there is no option '--insecur'\nhint: did you mean '--insecure'?",
            ),
        ] {
            assert_eq!(read_line(line).unwrap_err(), why);
        }
    }
}
