//! A text as one word of a shell.

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
