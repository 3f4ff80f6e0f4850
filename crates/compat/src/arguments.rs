//! The command lines of the originals, taken apart by tables.
//!
//! Decides what is an option, its value, or neither, by three grammars: that of getopt for ab and erlperf ([`getopt`]), that of
//! Node.js core's scripts ([`node`]) and that of its R scripts ([`r`]); `compare.py` has argparse's own
//! (`compare_py/arguments.rs`). It must not know what an option means. No grammar takes what it does not know: the originals of
//! Node.js swallow the next argument without a sound. A crate such as lexopt would fit ab alone: erlperf names the whole cluster in
//! its messages and has the option `-pa`, and in R and Node.js one dash is as good as two.

/// A command line taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments<'a> {
    /// Every option by the first of its names, with its value.
    pub options: Vec<(&'a str, Option<&'a str>)>,
    /// What is neither an option nor a value.
    pub others: Vec<&'a str>,
}

/// What is wrong with a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mistake<'a> {
    /// There is no option of that name.
    UnknownName(&'a str),
    /// There is no option of the first letter; the second text is the whole argument.
    UnknownLetter(&'a str, &'a str),
    /// The option lacks its value.
    NeedsValue(&'a str),
    /// The option takes no value.
    TakesNoValue(&'a str),
}

impl<'a> Arguments<'a> {
    /// Whether an option is given, with or without a value.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == option)
    }

    /// The value of an option; of several the last one counts, also where it has none.
    pub fn value(&self, option: &str) -> Option<&'a str> {
        self.options.iter().rfind(|(name, _)| *name == option)?.1
    }

    /// All values of an option in order.
    pub fn values(&self, option: &str) -> impl Iterator<Item = &'a str> {
        let given = self.options.iter().filter(move |(name, _)| *name == option);
        given.filter_map(|(_, value)| *value)
    }
}

/// Letters may be clustered (`-kq`) and values attached (`-n100`, `--name=value`); options may stand behind other arguments.
/// `find` knows the options by any of their names with dashes: the name under which one is read, and whether it takes a value.
///
/// # Errors
/// An option is not known, lacks its value, or has one that it does not take.
pub fn getopt<'a>(
    arguments: &'a [String],
    find: impl Fn(&str) -> Option<(&'static str, bool)>,
) -> Result<Arguments<'a>, Mistake<'a>> {
    let mut read = Arguments::default();
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let (name, attached) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word, None),
        };
        if word == "--" {
            read.others.extend(rest.by_ref());
        } else if word.len() < 2 || !word.starts_with('-') {
            read.others.push(word);
        } else if let Some((known, takes_value)) = find(name).filter(|_| name.len() > 2) {
            let value = match attached {
                Some(_) if !takes_value => return Err(Mistake::TakesNoValue(name)),
                None if takes_value => Some(rest.next().ok_or(Mistake::NeedsValue(name))?),
                attached => attached,
            };
            read.options.push((known, value));
        } else if name.starts_with("--") {
            return Err(Mistake::UnknownName(name));
        } else {
            // Flags up to a letter with a value, which is the rest of the argument or the next one.
            for (at, letter) in word.char_indices().skip(1) {
                let (typed, behind) = word[at..].split_at(letter.len_utf8());
                let unknown = Mistake::UnknownLetter(typed, word);
                let (known, takes_value) = find(&format!("-{letter}")).ok_or(unknown)?;
                if takes_value {
                    let attached = Some(behind).filter(|value| !value.is_empty());
                    let value = attached.or_else(|| rest.next());
                    let value = value.ok_or(Mistake::NeedsValue(typed))?;
                    read.options.push((known, Some(value)));
                    break;
                }
                read.options.push((known, None));
            }
        }
    }
    Ok(read)
}

/// Options come first; behind the first other argument, and behind `--`, everything is an argument, even what looks like an
/// option. `-x` equals `--x`. The word `test` that is not a value is an option.
///
/// # Errors
/// An option is in neither list, or lacks its value.
pub fn node<'a>(
    arguments: &'a [String],
    valued: &[&str],
    switches: &[&str],
) -> Result<Arguments<'a>, Mistake<'a>> {
    let mut read = Arguments::default();
    let mut are_options_over = false;
    let mut rest = arguments.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        if word == "--" {
            are_options_over = true;
        } else if !are_options_over && let Some(name) = undashed(word) {
            if switches.contains(&name) {
                read.options.push((name, None));
            } else if valued.contains(&name) {
                let value = rest.next().filter(|value| *value != "--");
                read.options
                    .push((name, Some(value.ok_or(Mistake::NeedsValue(word))?)));
            } else {
                return Err(Mistake::UnknownName(word));
            }
        } else if word == "test" {
            read.options.push((word, None));
        } else {
            read.others.push(word);
            are_options_over = true;
        }
    }
    Ok(read)
}

/// `-x` and `--x` switch x on; an argument behind it that does not begin with `-` becomes its value. All others are passed over.
///
/// # Errors
/// The first option that is not in the list, as it was typed.
pub fn r<'a>(arguments: &'a [String], known: &[&str]) -> Result<Arguments<'a>, &'a str> {
    let mut read = Arguments::default();
    let mut awaits_value = false;
    for word in arguments {
        if let Some(name) = undashed(word) {
            if !known.contains(&name) {
                return Err(word);
            }
            read.options.push((name, None));
            awaits_value = true;
        } else if std::mem::take(&mut awaits_value)
            && let Some((_, value)) = read.options.last_mut()
        {
            *value = Some(word);
        }
    }
    Ok(read)
}

/// The name of an option, behind one dash or two.
fn undashed(word: &str) -> Option<&str> {
    let name = word.strip_prefix('-')?;
    Some(name.strip_prefix('-').unwrap_or(name))
}
