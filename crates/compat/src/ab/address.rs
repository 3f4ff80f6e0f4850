//! The address that is tested, and that of a proxy.
//!
//! Decides what a typed address means: `[http[s]://]host[:port][/path]`. Unlike the original, the
//! path may be missing, and a fragment is not sent (RFC 9110, section 7.1). Start at [`Url::parse`].

/// A host and its port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// A name or an address; one of IPv6 without its brackets.
    pub name: String,
    /// The port.
    pub port: u16,
}

/// An address to test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it begins with `https://`.
    pub is_tls: bool,
    /// The server.
    pub host: Host,
    /// Path and query.
    pub path: String,
}

impl Host {
    /// Reads `host:port`.
    ///
    /// # Errors
    /// It is none; a fragment of a sentence says why.
    pub fn parse(text: &str, usual_port: u16) -> Result<Host, String> {
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, "")) => (name, None),
            Some((name, rest)) => match rest.strip_prefix(':') {
                Some(port) => (name, Some(port)),
                None => return Err(format!("'{text}' is no host")),
            },
            None => match text.rsplit_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (text, None),
            },
        };
        let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '@');
        if !is_name {
            return Err(format!("'{text}' is no host"));
        }
        let port = match port {
            None => usual_port,
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| format!("'{port}' is no port"))?,
        };
        Ok(Host {
            name: name.to_owned(),
            port,
        })
    }

    /// The name as it stands in an address.
    fn bracketed(&self) -> String {
        if self.name.contains(':') {
            format!("[{}]", self.name)
        } else {
            self.name.clone()
        }
    }
}

impl Url {
    /// Reads an address.
    ///
    /// # Errors
    /// It is none; a fragment of a sentence says why.
    pub fn parse(text: &str) -> Result<Url, String> {
        let wrong = |why: &str| format!("invalid URL '{text}': {why}");
        let (is_tls, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) if !scheme.contains(['/', '?']) => {
                return Err(wrong("it begins neither with http:// nor with https://"));
            }
            _ => (false, text),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (host, path) = rest.split_at(end);
        let path = path.split('#').next().unwrap_or_default();
        let host = Host::parse(host, if is_tls { 443 } else { 80 }).map_err(|why| wrong(&why))?;
        Ok(Url {
            is_tls,
            host,
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }

    /// The value of the header field Host: without the port where it is the usual one.
    pub fn authority(&self) -> String {
        let usual_port = if self.is_tls { 443 } else { 80 };
        if self.host.port == usual_port {
            self.host.bracketed()
        } else {
            format!("{}:{}", self.host.bracketed(), self.host.port)
        }
    }

    /// The whole address, as a proxy wants it (RFC 9112, section 3.2.2).
    pub fn absolute(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_in_every_form() {
        for (text, is_tls, name, port, path) in [
            ("http://a.test/x?y=z#frag", false, "a.test", 80, "/x?y=z"),
            ("a.test:8080/x", false, "a.test", 8080, "/x"),
            ("https://a.test", true, "a.test", 443, "/"),
            (
                "http://a.test?q=http://b/",
                false,
                "a.test",
                80,
                "/?q=http://b/",
            ),
            ("http://[::1]:81/", false, "::1", 81, "/"),
            ("[::1]/", false, "::1", 80, "/"),
        ] {
            let url = Url::parse(text).unwrap();
            let read = (url.is_tls, &*url.host.name, url.host.port, &*url.path);
            assert_eq!(read, (is_tls, name, port, path), "{text}");
        }
        for wrong in [
            "ftp://a/",
            "http:///x",
            "http://a:b/",
            "http://a:0/",
            "http://u@h/",
        ] {
            let why = Url::parse(wrong).unwrap_err();
            assert!(
                why.starts_with(&format!("invalid URL '{wrong}': ")),
                "{why}"
            );
        }
    }

    #[test]
    fn the_usual_port_is_not_named() {
        let authority = |text: &str| Url::parse(text).unwrap().authority();
        assert_eq!(authority("http://a:80/"), "a");
        assert_eq!(authority("https://a:80/"), "a:80");
        assert_eq!(authority("http://[::1]:81/"), "[::1]:81");
        let absolute = Url::parse("example.test/p?q").unwrap().absolute();
        assert_eq!(absolute, "http://example.test/p?q");
    }
}
