//! Parses server addresses, and looks up passwords.
//!
//! Command lines are visible to everyone who may list processes, and stay in the shell's history.
//! So a password comes from `PGPASSWORD` or the password file, as for `psql`
//! (<https://www.postgresql.org/docs/current/libpq-pgpass.html>).

use anyhow::{Context, Result, bail};
use postgres::Config;
use postgres::config::Host;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

const SOCKET_FOLDER: &str = "/var/run/postgresql";
const DEFAULT_PORT: u16 = 5432;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Parses `address` and completes it from the environment and the password file.
///
/// # Errors
/// Fails if the address contains a password or cannot be parsed, or the password file cannot be
/// read.
pub(super) fn parse_config(address: &str) -> Result<Config> {
    let mut config: Config = match address.parse() {
        Ok(config) => config,
        Err(_) if has_password(address) => return Err(password_in_address()),
        Err(error) => {
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            bail!(
                "cannot parse the address: {}\nhint: write postgres://HOST/DATABASE",
                reason.unwrap_or_else(|| error.to_string())
            )
        }
    };
    if config.get_password().is_some() || has_password(address) {
        return Err(password_in_address());
    }
    if config.get_hosts().is_empty() {
        config.host(&env_value("PGHOST").unwrap_or_else(|| SOCKET_FOLDER.to_owned()));
    }
    if config.get_ports().is_empty() {
        let port = env_value("PGPORT").and_then(|port| port.parse().ok());
        config.port(port.unwrap_or(DEFAULT_PORT));
    }
    if config.get_user().is_none()
        && let Some(user) = env_value("PGUSER").or_else(|| env_value("USER"))
    {
        config.user(&user);
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("speedwell");
    }
    if let Some(password) = look_up_password(&config)? {
        config.password(password);
    }
    Ok(config)
}

fn env_value(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns whether the address contains a password, even if the address is invalid.
fn has_password(address: &str) -> bool {
    let without_scheme =
        address.split_once("://").map_or(address, |(_, without_scheme)| without_scheme);
    let (server, options) = without_scheme.split_once('?').unwrap_or((without_scheme, ""));
    let login = server.split('/').next().unwrap_or_default();
    let user = login.rsplit_once('@').map(|(user, _)| user);
    user.is_some_and(|user| user.contains(':'))
        || options.split('&').any(|option| option.starts_with("password="))
}

fn password_in_address() -> anyhow::Error {
    anyhow::anyhow!(
        "its address contains a password, which all users of this machine can see in the list of processes\n\
         hint: remove it from the address; set PGPASSWORD, or write it to ~/.pgpass"
    )
}

/// Returns the password from the environment variable or the password file.
fn look_up_password(config: &Config) -> Result<Option<String>> {
    if let Some(password) = env_value("PGPASSWORD") {
        return Ok(Some(password));
    }
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".pgpass"));
    let Some(path) = env::var_os("PGPASSFILE").map(PathBuf::from).or_else(home) else {
        return Ok(None);
    };
    if !path.is_file() {
        return Ok(None);
    }
    let read = || -> Result<Option<String>> {
        ensure_private(&path)?;
        Ok(find_password(&fs::read_to_string(&path)?, &password_key(config)))
    };
    read().with_context(|| format!("cannot use the password file '{}'", path.display()))
}

/// Rejects a password file that other users may read.
fn ensure_private(path: &Path) -> Result<()> {
    let rights = fs::metadata(path)?.permissions().mode();
    if rights & 0o077 != 0 {
        bail!("other users can read it\nhint: chmod 600 '{}'", path.display());
    }
    Ok(())
}

/// Returns host, port, database and user, as in a line of the password file.
fn password_key(config: &Config) -> [String; 4] {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        Some(Host::Unix(_)) | None => "localhost".to_owned(),
    };
    let user = config.get_user().unwrap_or_default().to_owned();
    let port = config.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    let database = config.get_dbname().unwrap_or(&user).to_owned();
    [host, port.to_string(), database, user]
}

/// Returns the password of the first matching line; a field `*` matches everything.
fn find_password(text: &str, login: &[String; 4]) -> Option<String> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#')).map(split_fields);
    let found = lines.find(|fields| {
        let is_match = |(field, login): (&String, &String)| field == "*" || field == login;
        fields.len() == 5 && fields.iter().zip(login).all(is_match)
    });
    found?.pop()
}

/// Splits a line of the password file at colons; a backslash escapes the next character. The last
/// field may contain colons.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let literal = match character {
            ':' if fields.len() < 5 => {
                fields.push(String::new());
                continue;
            }
            '\\' => characters.next(),
            other => Some(other),
        };
        if let Some(field) = fields.last_mut() {
            field.extend(literal);
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_the_address_is_refused_and_not_repeated() {
        for address in [
            "postgres://me:secret@host/db",
            "postgresql://me:secret@host:99999/db",
            "postgres://host/db?password=secret",
            "postgres://host/db?nonsense=1&password=secret",
        ] {
            let message = format!("{:#}", parse_config(address).unwrap_err());
            assert!(message.contains("PGPASSWORD"), "{message}");
            assert!(!message.contains("secret"), "{message}");
        }
    }

    #[test]
    fn an_invalid_address_is_explained_with_a_hint() {
        let words = format!("{:#}", parse_config("postgres://host/db?colour=red").unwrap_err());
        assert!(
            words.contains("colour") && words.contains("hint: write postgres://HOST/DATABASE"),
            "{words}"
        );
    }

    #[test]
    fn the_first_matching_line_of_a_pass_file_gives_the_password() {
        let text = "# others\nhost:5432:other:me:wrong\nho\\:st:*:db:me:a\\:b:c\n*:*:*:*:last";
        let login = |host: &str| {
            ["5432", "db", "me"].map(str::to_owned).into_iter().fold(
                vec![host.to_owned()],
                |mut all, one| {
                    all.push(one);
                    all
                },
            )
        };
        let found = |host: &str| find_password(text, &login(host).try_into().unwrap());
        assert_eq!(found("ho:st").as_deref(), Some("a:b:c"));
        assert_eq!(found("host").as_deref(), Some("last"));
        assert_eq!(find_password("host:5432:db:me", &login("host").try_into().unwrap()), None);
    }

    #[test]
    fn a_pass_file_that_others_may_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pass");
        fs::write(&path, "*:*:*:*:secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let message = ensure_private(&path).unwrap_err().to_string();
        assert!(message.contains("other users can read it"), "{message}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(ensure_private(&path).is_ok());
    }
}
