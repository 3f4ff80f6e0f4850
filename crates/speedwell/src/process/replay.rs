//! One line for a shell that repeats a step.

use super::Spec;

/// The shell line that starts what `spec` describes: folder, variables, program, arguments.
pub fn replay(spec: &Spec) -> String {
    let mut words = Vec::new();
    if let Some(folder) = &spec.directory {
        words.push(format!("cd {} &&", quote(&folder.to_string_lossy())));
    }
    for (name, value) in &spec.environment {
        words.push(format!("{name}={}", quote(value)));
    }
    words.push(quote(&spec.program.to_string_lossy()));
    words.extend(spec.arguments.iter().map(|argument| quote(argument)));
    words.join(" ")
}

/// `text` as one word of a POSIX shell.
pub fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_words_survive_a_real_shell() {
        for word in [
            "plain",
            "",
            "two words",
            "it's",
            "$HOME `x` \"y\"",
            "a\nb",
            "*",
            "~",
            "é",
        ] {
            let line = format!("printf %s {}", quote(word));
            let out = std::process::Command::new("sh")
                .args(["-c", &line])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), word);
        }
    }
}
