//! For tests: the same story on a file and on a server.

use super::Store;

/// An empty store of each kind. Where there is no server, the test says so.
pub(super) fn stores() -> Vec<Store> {
    #[cfg_attr(not(feature = "postgres"), expect(unused_mut, reason = "there is one"))]
    let mut stores = vec![Store::in_memory().unwrap()];
    #[cfg(feature = "postgres")]
    if let Some(schema) = schema() {
        stores.push(Store::open(schema.address.as_ref()).unwrap());
    }
    stores
}

/// An empty schema on the server of this process.
#[cfg(feature = "postgres")]
pub(super) fn schema() -> Option<speedwell_fixtures::postgres::Schema> {
    let schema = speedwell_fixtures::postgres::Schema::new();
    if schema.is_none() {
        eprintln!("skipped: PostgreSQL is not installed");
    }
    schema
}
