//! What went wrong with a code, in words close to the original's: one sentence, and below it where it happened.

use speedwell_harness::Message;
use speedwell_harness::code::Gone;
use std::fmt;

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// A fragment without a full stop.
    pub reason: String,
    /// Calls that were in flight, the innermost first.
    pub calls: Vec<String>,
    /// What was measured stays good.
    pub is_afterwards: bool,
}

impl Fault {
    /// What an `error` event means.
    pub fn of_event(event: &Message) -> Fault {
        let get = |key: &str| event.get(key).unwrap_or_default();
        let (stage, class, message) = (get("stage"), get("class"), get("msg"));
        let part = match get("part") {
            part if part.is_empty() => "runner".to_owned(),
            part => part,
        };
        let line = event.number::<u32>("line");
        let line = line.map_or(String::new(), |line| format!(" (line {line})"));
        let message = message.trim_end();
        let reason = match &*stage {
            "parse" => format!("parse error for {part}: {message}{line}"),
            "compile" if class == "signature" => message.to_owned(),
            "compile" if part == "runner" => format!("compile error: {message}{line}"),
            "compile" => format!("compile error in {part}: {message}{line}"),
            "init" | "init_runner" | "done" => {
                format!("exception while executing '{stage}': {class}:{message}{line}")
            }
            "run" => format!("the runner failed: {}{line}", thrown(&class, message)),
            _ => message.to_owned(),
        };
        let calls = get("stack");
        Fault {
            reason,
            calls: calls.lines().map(str::to_owned).collect(),
            is_afterwards: stage == "done",
        }
    }

    /// The end of the Erlang machine.
    pub fn of_end(gone: &Gone) -> Fault {
        Fault {
            reason: gone.cause.to_string(),
            calls: gone.stderr_tail.lines().map(str::to_owned).collect(),
            is_afterwards: false,
        }
    }
}

/// An exception as a process would have ended with it.
fn thrown(class: &str, message: &str) -> String {
    match class {
        "throw" => format!("{{nocatch,{message}}}"),
        "exit" => format!("exit:{message}"),
        _ => message.to_owned(),
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)?;
        for call in &self.calls {
            write!(out, "\n    in {call}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(line: &str) -> String {
        Fault::of_event(&Message::parse(line.as_bytes()).unwrap()).to_string()
    }

    #[test]
    fn errors_are_told_in_the_words_of_the_original_with_their_line() {
        let parse =
            "error\tstage=parse\tclass=syntax\tmsg=syntax error before: '.'\tline=1\tpart=runner";
        assert_eq!(
            told(parse),
            "parse error for runner: syntax error before: '.' (line 1)"
        );
        let compile =
            "error\tstage=compile\tclass=compile\tmsg=variable 'X' is unbound\tline=2\tpart=runner";
        assert_eq!(
            told(compile),
            "compile error: variable 'X' is unbound (line 2)"
        );
        let missing = "error\tstage=compile\tclass=signature\tmsg=done/1 requires init function defined\tpart=done";
        assert_eq!(told(missing), "done/1 requires init function defined");
        let run = "error\tstage=run\tclass=error\tmsg=undef\tstack=nomod:nofun/0%0ajob_1:batch/2 (runner:1)";
        assert_eq!(
            told(run),
            "the runner failed: undef\n    in nomod:nofun/0\n    in job_1:batch/2 (runner:1)"
        );
        let ball = "error\tstage=run\tclass=throw\tmsg=ball";
        assert_eq!(told(ball), "the runner failed: {nocatch,ball}");
        let normal = "error\tstage=run\tclass=exit\tmsg=normal";
        assert_eq!(told(normal), "the runner failed: exit:normal");
    }
}
