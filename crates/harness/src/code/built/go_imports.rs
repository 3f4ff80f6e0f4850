//! Which packages of Go's own library a piece of code names, as in `strings.Repeat`.

use super::parts::Parts;

/// Packages by their path; the name is the last part of it.
const PACKAGES: [&str; 68] = [
    "bufio",
    "bytes",
    "cmp",
    "compress/gzip",
    "compress/zlib",
    "container/heap",
    "container/list",
    "container/ring",
    "context",
    "crypto/aes",
    "crypto/cipher",
    "crypto/hmac",
    "crypto/md5",
    "crypto/sha1",
    "crypto/sha256",
    "crypto/sha512",
    "encoding/base64",
    "encoding/binary",
    "encoding/csv",
    "encoding/gob",
    "encoding/hex",
    "encoding/json",
    "encoding/xml",
    "errors",
    "fmt",
    "hash",
    "hash/crc32",
    "hash/fnv",
    "hash/maphash",
    "html",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "math/big",
    "math/bits",
    "math/cmplx",
    "math/rand",
    "mime",
    "net",
    "net/http",
    "net/netip",
    "net/url",
    "os",
    "os/exec",
    "path",
    "path/filepath",
    "reflect",
    "regexp",
    "runtime",
    "runtime/debug",
    "slices",
    "sort",
    "strconv",
    "strings",
    "sync",
    "sync/atomic",
    "syscall",
    "text/tabwriter",
    "text/template",
    "time",
    "unicode",
    "unicode/utf16",
    "unicode/utf8",
    "unsafe",
    "embed",
    "flag",
];

/// The paths of the packages that the code names and does not import itself.
pub fn imports(parts: &Parts) -> Vec<&'static str> {
    let own: String = parts
        .all()
        .iter()
        .flat_map(|part| &part.text.top)
        .map(|(line, _)| line.as_str())
        .collect();
    let is_named = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or(path);
        // `math/rand/v2` is called `rand` as well.
        let imported = own.contains(&format!("{name}\"")) || own.contains(&format!("{name}/v"));
        !imported && parts.all().iter().any(|part| names(&part.text.body, name))
    };
    PACKAGES.into_iter().filter(is_named).collect()
}

/// Whether the text says `name.` and a capital letter behind it.
fn names(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let stands_alone =
            !before.is_some_and(|letter| letter.is_alphanumeric() || "_.\"".contains(letter));
        let mut after = text[at + name.len()..].chars();
        stands_alone && after.next() == Some('.') && after.next().is_some_and(char::is_uppercase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use speedwell_model::{Code, Language};

    #[test]
    fn packages_are_found_by_their_names() {
        let of = |text: &str| imports(&Parts::of(&Code::new(Language::Go, text)));
        assert_eq!(
            of("strings.Repeat(\"x\", 3) + strconv.Itoa(utf8.RuneLen('x'))"),
            ["strconv", "strings", "unicode/utf8"]
        );
        assert_eq!(of("x.strings.Y(mystrings.X)"), [] as [&str; 0]);
        assert_eq!(of("import \"math/rand/v2\"\nrand.IntN(3)"), [] as [&str; 0]);
        assert_eq!(of("import \"crypto/rand\"\nrand.Int(3)"), [] as [&str; 0]);
    }
}
