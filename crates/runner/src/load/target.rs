//! From a URL to the addresses that connections are made to.
//!
//! It decides how --unix-socket, --proxy, --connect-to and --resolve change them. Start at
//! [`target`].

use super::{Url, host_and_port};
use anyhow::{Context, bail, ensure};
use speedwell_load::load::{Address, Identity, Target, TlsOptions, Trust};
use speedwell_model::load_spec::LoadSpec;
use std::net::{IpAddr, SocketAddr};

/// Where the requests for a URL go.
///
/// # Errors
/// A host without an address, a rule that cannot be read.
pub(super) fn target(spec: &LoadSpec, url: &Url) -> anyhow::Result<Target> {
    Ok(Target {
        host: url.host.clone(),
        port: url.port,
        addresses: addresses(spec, url)?,
        local: spec.bind,
        tls: url.is_tls.then(|| tls(spec)),
    })
}

/// How TLS is spoken.
pub(super) fn tls(spec: &LoadSpec) -> TlsOptions {
    TlsOptions {
        trust: match (spec.insecure, &spec.cacert) {
            (true, _) => Trust::Anyone,
            (false, Some(file)) => Trust::Authority(file.clone()),
            (false, None) => Trust::System,
        },
        identity: spec.cert.as_ref().map(|cert| Identity {
            certificates: cert.clone(),
            key: spec.key.as_ref().unwrap_or(cert).clone(),
        }),
        server_name: spec.sni.clone(),
    }
}

/// The proxy, if there is one.
///
/// # Errors
/// It cannot be used for this address.
pub(super) fn proxy(spec: &LoadSpec, url: &Url) -> anyhow::Result<Option<Url>> {
    let Some(text) = &spec.proxy else {
        return Ok(None);
    };
    let proxy = Url::parse(text).context("in --proxy")?;
    ensure!(
        !proxy.is_tls,
        "TLS is not spoken with a proxy: '{text}'\nhint: http://"
    );
    ensure!(
        !url.is_tls,
        "'{url}' cannot be loaded through a proxy: with TLS it would only pass on bytes\n\
         hint: load the server itself, or http://"
    );
    Ok(Some(proxy))
}

fn addresses(spec: &LoadSpec, url: &Url) -> anyhow::Result<Vec<Address>> {
    if let Some(path) = &spec.unix_socket {
        return Ok(vec![Address::Unix(path.clone())]);
    }
    let (mut host, mut port) = match proxy(spec, url)? {
        Some(proxy) => (proxy.host, proxy.port),
        None => (url.host.clone(), url.port),
    };
    for text in &spec.connect_to {
        let rule = ConnectTo::parse(text).with_context(|| format!("in --connect-to '{text}'"))?;
        if rule.fits(&host, port) {
            (host, port) = (rule.to_host.unwrap_or(host), rule.to_port.unwrap_or(port));
            break;
        }
    }
    for text in &spec.resolve {
        let rule = Resolve::parse(text).with_context(|| format!("in --resolve '{text}'"))?;
        if rule.host.eq_ignore_ascii_case(&host) && rule.port == port {
            let sockets = rule.addresses.into_iter();
            return Ok(sockets
                .map(|ip| Address::Internet(SocketAddr::new(ip, port)))
                .collect());
        }
    }
    Target::resolve(&host, port).with_context(|| format!("cannot load '{url}'"))
}

/// A rule of --connect-to: `HOST1:PORT1:HOST2:PORT2`, each of which may be empty, or `HOST2:PORT2`
/// for every host.
#[derive(Debug, PartialEq, Eq)]
struct ConnectTo {
    host: Option<String>,
    port: Option<u16>,
    to_host: Option<String>,
    to_port: Option<u16>,
}

impl ConnectTo {
    fn parse(text: &str) -> anyhow::Result<ConnectTo> {
        let parts = parts(text)?;
        let text = |at: usize| Some(parts[at].to_owned()).filter(|part| !part.is_empty());
        let port = |at: usize| match parts[at] {
            "" => Ok(None),
            digits => digits
                .parse()
                .map(Some)
                .with_context(|| format!("'{digits}' is not a port")),
        };
        match parts.len() {
            2 => Ok(ConnectTo {
                host: None,
                port: None,
                to_host: text(0),
                to_port: port(1)?,
            }),
            4 => Ok(ConnectTo {
                host: text(0),
                port: port(1)?,
                to_host: text(2),
                to_port: port(3)?,
            }),
            _ => bail!("it is not of the form HOST1:PORT1:HOST2:PORT2"),
        }
    }

    fn fits(&self, host: &str, port: u16) -> bool {
        let same_host = self
            .host
            .as_ref()
            .is_none_or(|own| own.eq_ignore_ascii_case(host));
        same_host && self.port.is_none_or(|own| own == port)
    }
}

/// A rule of --resolve.
struct Resolve {
    host: String,
    port: u16,
    addresses: Vec<IpAddr>,
}

impl Resolve {
    fn parse(text: &str) -> anyhow::Result<Resolve> {
        let form = "it is not of the form HOST:PORT:ADDRESS[,ADDRESS...]";
        let after_host = match text.strip_prefix('[') {
            Some(rest) => text.len() - rest.len() + rest.find(']').context(form)? + 1,
            None => text.find(':').context(form)?,
        };
        let digits_end = text[after_host..].get(1..).and_then(|rest| rest.find(':'));
        let split = after_host + 1 + digits_end.context(form)?;
        let (host, port) = host_and_port(&text[..split])?;
        let mut addresses = Vec::new();
        for address in text[split + 1..].split(',') {
            let bare = address.trim_matches(['[', ']']);
            let ip = bare.parse();
            addresses.push(ip.with_context(|| format!("'{address}' is not an IP address"))?);
        }
        Ok(Resolve {
            host,
            port: port.context(form)?,
            addresses,
        })
    }
}

/// The parts between colons; those of an IPv6 address in brackets do not count.
fn parts(text: &str) -> anyhow::Result<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']').context("a '[' is not closed")?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        parts.push(part);
        match after.strip_prefix(':') {
            Some(next) => rest = next,
            None => {
                ensure!(after.is_empty(), "'{after}' is too much");
                return Ok(parts);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses_with(spec: LoadSpec, url: &str) -> Vec<String> {
        let found = addresses(&spec, &Url::parse(url).unwrap()).unwrap();
        found
            .into_iter()
            .map(|address| match address {
                Address::Internet(socket) => socket.to_string(),
                Address::Unix(path) => path.display().to_string(),
            })
            .collect()
    }

    #[test]
    fn connections_go_where_a_rule_says() {
        let rules = |rules: &[&str]| LoadSpec {
            connect_to: rules.iter().map(|rule| (*rule).to_owned()).collect(),
            ..LoadSpec::default()
        };
        let to = |rule: &str| addresses_with(rules(&[rule]), "http://127.0.0.9:81/");
        assert_eq!(to("127.0.0.9:81:127.0.0.1:9"), ["127.0.0.1:9"]);
        assert_eq!(to("::127.0.0.1:"), ["127.0.0.1:81"]);
        assert_eq!(to("127.0.0.1:9"), ["127.0.0.1:9"]);
        assert_eq!(to("other:81:127.0.0.1:9"), ["127.0.0.9:81"]);
        assert_eq!(to("::[::1]:9"), ["[::1]:9"]);
        let both = rules(&["x::127.0.0.2:", ":81::82", "::127.0.0.3:"]);
        assert_eq!(
            addresses_with(both, "http://127.0.0.9:81/"),
            ["127.0.0.9:82"]
        );
    }

    #[test]
    fn a_host_is_resolved_as_told() {
        let spec = LoadSpec {
            resolve: vec!["example.com:80:127.0.0.1,[::1]".into()],
            ..LoadSpec::default()
        };
        let found = addresses_with(spec, "http://example.com/");
        assert_eq!(found, ["127.0.0.1:80", "[::1]:80"]);
    }

    #[test]
    fn rules_that_cannot_be_read_are_refused() {
        assert!(ConnectTo::parse("a:b:c").is_err());
        assert!(ConnectTo::parse("a:99999:b:1").is_err());
        for wrong in ["a", "a:80", "a:80:b", "a:x:127.0.0.1"] {
            assert!(Resolve::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_proxy_takes_the_connections_of_plain_requests() {
        let spec = LoadSpec {
            proxy: Some("http://127.0.0.1:3128".into()),
            ..LoadSpec::default()
        };
        let plain = Url::parse("http://example.com/").unwrap();
        let found = addresses(&spec, &plain).unwrap();
        assert_eq!(
            found,
            [Address::Internet("127.0.0.1:3128".parse().unwrap())]
        );
        let tls = Url::parse("https://example.com/").unwrap();
        assert!(addresses(&spec, &tls).is_err());
    }
}
