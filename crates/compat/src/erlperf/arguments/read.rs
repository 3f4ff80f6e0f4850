//! Reads the words of a command line, in the grammar of the original's parser: flags in clusters, values attached or
//! behind, long names with or without `=`.
//!
//! Start at [`read`].

use super::attach::Hooks;
use super::{Asked, Order, Piece, Request, Sample, Squeeze, Until};
use crate::erlperf::table::Detail;
use speedwell_report::Format;
use std::str::FromStr;
use std::time::Duration;

/// The greatest number of workers that the original takes.
const MOST_WORKERS: u64 = 1 << 30;

/// What an Erlang machine can have at once, less a thousand: processes of its own.
const USUAL_MAX: u32 = 261_144;

/// An option: its names without dashes, and whether it has a value. The first name is the one in messages.
struct Spelling {
    names: &'static [&'static str],
    has_value: bool,
}

const fn valued(names: &'static [&'static str]) -> Spelling {
    let has_value = true;
    Spelling { names, has_value }
}

const fn flag(names: &'static [&'static str]) -> Spelling {
    let has_value = false;
    Spelling { names, has_value }
}

/// Every option. Names that only the documentation of the original has are second.
const OPTIONS: &[Spelling] = &[
    valued(&["concurrency", "c"]),
    valued(&["duration", "d", "sample_duration"]),
    valued(&["samples", "s"]),
    valued(&["loop", "l"]),
    valued(&["warmup", "w"]),
    valued(&["cv"]),
    valued(&["report", "r"]),
    flag(&["squeeze", "q", "concurrency_estimation"]),
    valued(&["min"]),
    valued(&["step"]),
    valued(&["max"]),
    valued(&["threshold", "t"]),
    flag(&["verbose", "v"]),
    flag(&["isolated", "i", "isolation"]),
    valued(&["init"]),
    valued(&["init_runner"]),
    valued(&["done"]),
    valued(&["label"]),
    valued(&["init_all"]),
    valued(&["init_runner_all"]),
    valued(&["done_all"]),
    valued(&["order"]),
    valued(&["max_samples"]),
    valued(&["max_time"]),
    flag(&["subtract_empty"]),
    valued(&["format"]),
    flag(&["help", "h"]),
];

/// What was typed, by option.
#[derive(Default)]
struct Words<'a> {
    options: Vec<(&'static str, &'a str)>,
    paths: Vec<&'a str>,
    codes: Vec<&'a str>,
}

/// Reads a command line.
pub fn read(arguments: &[String]) -> Result<Asked, String> {
    let words = split(arguments)?;
    if words.has("help") {
        return Ok(Asked::Help);
    }
    if words.codes.is_empty() {
        return Err("required argument missing: code".to_owned());
    }
    words.forbid()?;
    let samples = words.count("samples", 1, u32::MAX.into())?.unwrap_or(3) as u32;
    let duration = words.count("duration", 1, u32::MAX.into())?.unwrap_or(1000);
    let sample = match words.value("loop") {
        Some(text) => Sample::Loop(iterations(text)?),
        None => Sample::Window(Duration::from_millis(duration)),
    };
    let workers = words.count("concurrency", 1, MOST_WORKERS)?;
    let codes = words.pieces()?;
    let squeeze = words.squeeze()?;
    if squeeze.is_some() && codes.len() > 1 {
        return Err(
            "parallel concurrency estimation runs are not supported: -q takes one code\n\
             hint: 'speedwell eval erlang CODE CODE -c max' searches for one after the other"
                .to_owned(),
        );
    }
    let isolated = words.has("isolated");
    let order = words.one_of("order", &ORDERS)?.unwrap_or(Order::Blocks);
    if isolated && order == Order::Parallel && codes.len() > 1 {
        return Err(
            "isolated snippets take turns, so -i is not compatible with --order parallel"
                .to_owned(),
        );
    }
    Ok(Asked::Measure(Box::new(Request {
        codes,
        sample,
        samples,
        warmup: words.count("warmup", 0, u32::MAX.into())?.unwrap_or(0) as u32,
        workers: workers.unwrap_or(1) as u32,
        until: words.until(samples)?,
        squeeze,
        report: words.one_of("report", &REPORTS)?,
        verbose: words.has("verbose"),
        isolated,
        paths: words.paths.iter().map(|path| (*path).to_owned()).collect(),
        order,
        subtracts_empty: words.has("subtract_empty"),
        format: words.format()?,
    })))
}

const ORDERS: [(&str, Order); 3] = [
    ("blocks", Order::Blocks),
    ("alternate", Order::Alternate),
    ("parallel", Order::Parallel),
];

const REPORTS: [(&str, Detail); 3] = [
    ("basic", Detail::Basic),
    ("extended", Detail::Extended),
    ("full", Detail::Full),
];

fn split(arguments: &[String]) -> Result<Words<'_>, String> {
    let mut words = Words::default();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if word == "--" {
            words.codes.extend(rest.by_ref());
        } else if word == "-pa" {
            let missing = || "required argument missing: the folder of -pa".to_owned();
            words.paths.push(rest.next().ok_or_else(missing)?);
        } else if let Some(path) = word.strip_prefix("-pa=") {
            words.paths.push(path);
        } else if let Some(name) = word.strip_prefix("--") {
            let option = long(name, &mut rest)?;
            words.options.push(option);
        } else if word.len() > 1 && word.starts_with('-') {
            cluster(&word[1..], &mut rest, &mut words.options)?;
        } else {
            words.codes.push(word);
        }
    }
    Ok(words)
}

fn long<'a>(
    word: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
) -> Result<(&'static str, &'a str), String> {
    let (typed, attached) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let name = typed.replace('-', "_");
    let is_long = |spelling: &&Spelling| name.len() > 1 && spelling.names.contains(&&*name);
    let Some(spelling) = OPTIONS.iter().find(is_long) else {
        let all = OPTIONS.iter().map(|spelling| spelling.names[0]);
        let near = all.min_by_key(|known| strsim::damerau_levenshtein(known, &name));
        let close = |known: &&str| strsim::damerau_levenshtein(known, &name) * 3 <= name.len();
        let near = near.filter(close);
        let hint = near.map(|known| format!("\nhint: did you mean '--{}'?", shown(known)));
        let hint = hint.unwrap_or_default();
        return Err(format!("unrecognised argument: --{typed}{hint}"));
    };
    let own = spelling.names[0];
    match (spelling.has_value, attached) {
        (true, Some(value)) => Ok((own, value)),
        (true, None) => {
            let missing = || format!("required argument missing: the value of --{typed}");
            Ok((own, rest.next().ok_or_else(missing)?))
        }
        (false, None) => Ok((own, "")),
        (false, Some(_)) => Err(format!("--{typed} has no value")),
    }
}

/// `-viq`, `-c4`, `-c 4`: flags up to a letter with a value.
fn cluster<'a>(
    letters: &'a str,
    rest: &mut impl Iterator<Item = &'a str>,
    options: &mut Vec<(&'static str, &'a str)>,
) -> Result<(), String> {
    for (at, letter) in letters.char_indices() {
        let end = at + letter.len_utf8();
        let name = &letters[at..end];
        let known = OPTIONS.iter().find(|known| known.names.contains(&name));
        let Some(spelling) = known else {
            return Err(format!("unrecognised argument: -{letters}"));
        };
        if !spelling.has_value {
            options.push((spelling.names[0], ""));
            continue;
        }
        let value = match &letters[end..] {
            "" => rest.next(),
            attached => Some(attached),
        };
        let missing = || format!("required argument missing: the value of -{name}");
        options.push((spelling.names[0], value.ok_or_else(missing)?));
        return Ok(());
    }
    Ok(())
}

impl<'a> Words<'a> {
    fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == option)
    }

    fn value(&self, option: &str) -> Option<&'a str> {
        self.all(option).last()
    }

    fn all(&self, option: &str) -> impl Iterator<Item = &'a str> {
        let own = self.options.iter().filter(move |(name, _)| *name == option);
        own.map(|(_, value)| *value)
    }

    fn count(&self, option: &str, least: u64, most: u64) -> Result<Option<u64>, String> {
        let Some(text) = self.value(option) else {
            return Ok(None);
        };
        let count = text.parse::<u64>().ok();
        let count = count.filter(|count| (least..=most).contains(count));
        count.map(Some).ok_or_else(|| {
            format!(
                "invalid argument {text} for: --{}, which is a whole number from {least} on",
                shown(option)
            )
        })
    }

    fn one_of<T: Copy>(&self, option: &str, known: &[(&str, T)]) -> Result<Option<T>, String> {
        let Some(text) = self.value(option) else {
            return Ok(None);
        };
        let found = known.iter().find(|(name, _)| *name == text);
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        found.map(|(_, value)| Some(*value)).ok_or_else(|| {
            format!(
                "invalid argument {text} for: --{option}, which is one of {}",
                names.join(", ")
            )
        })
    }

    /// What contradicts each other.
    fn forbid(&self) -> Result<(), String> {
        let clash = |what: &str, others: &[&str]| {
            let clashing = others.iter().find(|other| self.has(other));
            clashing.map_or(Ok(()), |other| {
                let hint = match *other {
                    "concurrency" | "warmup" if self.has("loop") => {
                        "\nhint: 'speedwell eval erlang CODE --iterations N' has both"
                    }
                    _ => "",
                };
                Err(format!(
                    "{what} is not compatible with --{other} option{hint}"
                ))
            })
        };
        if self.has("loop") {
            let others = ["concurrency", "duration", "warmup", "cv", "squeeze"];
            clash("timed benchmarking", &others)?;
        }
        if self.has("squeeze") {
            clash("concurrency estimation", &["concurrency"])?;
        }
        Ok(())
    }

    fn pieces(&self) -> Result<Vec<Piece>, String> {
        let piece = |code: &&str| Piece {
            code: (*code).to_owned(),
            ..Piece::default()
        };
        let mut codes: Vec<Piece> = self.codes.iter().map(piece).collect();
        let hooks = |each: &str, all: &str| Hooks {
            each: self.all(each).collect(),
            all: self.value(all),
        };
        hooks("init", "init_all").attach("init", &mut codes, |code| &mut code.init)?;
        hooks("init_runner", "init_runner_all")
            .attach("init_runner", &mut codes, |code| &mut code.init_runner)?;
        hooks("done", "done_all").attach("done", &mut codes, |code| &mut code.done)?;
        hooks("label", "").attach("label", &mut codes, |code| &mut code.label)?;
        Ok(codes)
    }

    /// Its options are read, and ignored, without `-q`.
    fn squeeze(&self) -> Result<Option<Squeeze>, String> {
        let count = |option: &str, usual: u32| -> Result<u32, String> {
            let typed = self.count(option, 1, u32::MAX.into())?;
            Ok(typed.map_or(usual, |count| count as u32))
        };
        let squeeze = Squeeze {
            least: count("min", 1)?,
            step: count("step", 1)?,
            most: count("max", USUAL_MAX)?,
            threshold: count("threshold", 3)?,
        };
        Ok(self.has("squeeze").then_some(squeeze))
    }

    fn until(&self, samples: u32) -> Result<Option<Until>, String> {
        // Ten times as many samples tell that they will not become steady.
        let usual = samples.saturating_mul(10).max(100);
        let most_samples = self.count("max_samples", 1, u32::MAX.into())?;
        let most_time = self.value("max_time").map(seconds).transpose()?;
        let Some(text) = self.value("cv") else {
            return match (most_samples, most_time) {
                (None, None) => Ok(None),
                _ => Err("--max-samples and --max-time limit --cv, which is not there".to_owned()),
            };
        };
        let variation = text.parse::<f64>().ok();
        let variation = variation.filter(|share| share.is_finite() && *share >= 0.0);
        let wrong = || format!("invalid argument {text} for: --cv, which is a share such as 0.05");
        Ok(Some(Until {
            variation: variation.ok_or_else(wrong)?,
            most_samples: most_samples
                .map_or(usual, |count| count as u32)
                .max(samples),
            most_time,
        }))
    }

    fn format(&self) -> Result<Format, String> {
        let text = self.value("format").unwrap_or("text");
        Format::from_str(text).map_err(|unknown| format!("--format: {unknown}"))
    }
}

/// `10`, `10k`, `2M`, `1G`.
fn iterations(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "unsupported syntax for timed iteration count: {text}\n\
             hint: a whole number from 1 on, and behind it K, M or G for thousands, millions, billions"
        )
    };
    let factor = match text.chars().last() {
        Some('k' | 'K') => 1_000,
        Some('m' | 'M') => 1_000_000,
        Some('g' | 'G') => 1_000_000_000,
        _ => 1,
    };
    let digits = if factor == 1 {
        text
    } else {
        &text[..text.len() - 1]
    };
    let count = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    count.filter(|count| *count > 0).ok_or_else(wrong)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let time = digits.parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let time = time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| format!("invalid argument {text} for: --max-time, which is in seconds"))
}

/// Options that the original does not have are written with dashes.
fn shown(option: &str) -> String {
    match option {
        "max_samples" | "max_time" | "subtract_empty" => option.replace('_', "-"),
        other => other.to_owned(),
    }
}
