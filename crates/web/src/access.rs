//! Who asks. TEMPORARY.
use crate::api::Need;
use crate::refusal::Refusal;
use crate::site::Site;
use axum::http::HeaderMap;
use speedwell_model::Session;
use speedwell_results::store::Sender;
use speedwell_serve::Client;

#[derive(Debug)]
pub struct Caller {
    pub name: String,
    pub token: Option<String>,
}
pub fn caller(_: &Site, _: &HeaderMap, _: &Client) -> Result<Caller, Refusal> {
    Ok(Caller {
        name: "x".into(),
        token: None,
    })
}
impl Caller {
    pub fn ensure_may(&self, _: Need, _: Option<&str>) -> Result<(), Refusal> {
        Ok(())
    }
    pub fn ensure_may_push(&self, _: &Session) -> Result<(), Refusal> {
        Ok(())
    }
    pub fn sender(&self) -> Sender<'_> {
        Sender {
            token: self.token.as_deref(),
            at_unix_ms: now(),
        }
    }
}
fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| d.as_millis() as i64)
}
