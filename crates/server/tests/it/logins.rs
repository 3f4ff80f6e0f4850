//! T6: guessing tokens.

use super::served::TestConnection;
use axum::extract::Extension;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use speedwell_server::http::token::{AccessToken, FailureLimiter, PresentedToken, bearer_token};
use speedwell_server::http::{
    BoundAddress, ClientInfo, HttpError, HttpServer, ListenAddress, ServerOptions,
};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

fn check_login(
    token: &AccessToken,
    failures: &FailureLimiter,
    client: &ClientInfo,
    headers: &HeaderMap,
) -> Result<&'static str, HttpError> {
    let now = Instant::now();
    failures.check_address(client.address, now)?;
    if let PresentedToken::Token(presented) = bearer_token(headers) {
        let digest = token.digest();
        let stored = (presented.id() == token.id()).then_some(&digest);
        if presented.matches_digest(stored) {
            return Ok("come in");
        }
    }
    failures.record_failure(client.address, now);
    Err(HttpError::new(StatusCode::UNAUTHORIZED, "there is no such token"))
}

#[test]
fn after_ten_failed_logins_even_the_right_token_is_refused() {
    let token = AccessToken::new().unwrap();
    let right = token.expose().to_owned();
    let failures = Arc::new(FailureLimiter::default());
    let handler = move |client: Extension<ClientInfo>, headers: HeaderMap| async move {
        check_login(&token, &failures, &client, &headers)
    };
    let options = ServerOptions {
        listen: vec![ListenAddress::Address("127.0.0.1:0".parse().unwrap())],
        ..ServerOptions::default()
    };
    let server = HttpServer::bind(options, axum::Router::new().route("/", get(handler))).unwrap();
    let BoundAddress::Tcp(address) = server.addresses()[0].clone() else { unreachable!() };
    let stopper = server.stopper();
    let thread = std::thread::spawn(move || server.run().unwrap());
    {
        let mut wire = TestConnection::new(TcpStream::connect(address).unwrap());
        let mut ask = |token: &str| {
            wire.send(format!(
                "GET / HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
            ));
            wire.read_response()
        };
        assert_eq!(ask(&right).text(), "come in");
        let mut wrong_secret = right.clone();
        wrong_secret.replace_range(30..31, if right.as_bytes()[30] == b'x' { "y" } else { "x" });
        let mut answers = vec![ask(&wrong_secret), ask("spw_malformed")];
        answers.extend((0..998).map(|_| ask(AccessToken::new().unwrap().expose())));
        let first = answers[0].text().to_owned();
        let refused: Vec<_> = answers.iter().take_while(|answer| answer.status == 401).collect();
        assert!(
            refused.iter().all(|answer| answer.text() == first),
            "one answer for all that is wrong"
        );
        assert_eq!(refused.len(), 10);
        assert!(answers[10..].iter().all(|answer| answer.status == 429));
        assert_eq!(ask(&right).status, 429);
    }
    stopper.stop();
    thread.join().unwrap();
}
