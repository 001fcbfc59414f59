//! `accept-header`: which Ignition version a client is served.

use serde_json::Value;

use super::judge::Judge;

pub(crate) struct AcceptHeader;

impl Judge for AcceptHeader {
    fn file(&self) -> &'static str {
        "accept-header"
    }

    fn answer(&self, input: &Value) -> Result<Value, String> {
        let header = input.as_str().unwrap_or_default();
        serving::accept::negotiate(header).map(|version| version.to_string().into()).map_err(|error| error.to_string())
    }
}
