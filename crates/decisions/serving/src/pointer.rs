//! Writes the pointer config: the user data of a new machine, which only says where the real config is.

use ignition::data_url;
use serde_json::{Value, json};

/// The header that carries a token. Ignition sends it only to the address of the pointer config.
pub const TOKEN_HEADER: &str = "Authorization";

/// The user data for a machine of `pool` behind `server` (`host:port`), with the CA that signed the server's
/// certificate and, unless the pool is open, a token.
pub fn pointer(server: &str, pool: &str, ca: &[u8], token: Option<&str>) -> Value {
    let mut source = json!({"source": format!("https://{server}/config/{pool}")});
    if let Some(token) = token {
        source["httpHeaders"] = json!([{"name": TOKEN_HEADER, "value": format!("Bearer {token}")}]);
    }
    json!({
        "ignition": {
            // HTTP headers came with 3.1, and nothing here needs more: any client that can send them reads this.
            "version": "3.1.0",
            "config": {"merge": [source]},
            "security": {"tls": {"certificateAuthorities": [{"source": data_url::encode(ca)}]}},
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_is_valid_ignition_and_carries_the_token_as_a_header() {
        let pointer = pointer("api-int.example.com:22623", "worker", b"CA\n", Some("abc"));
        let config = ignition::parse(&pointer).expect("valid Ignition");
        let merge = config.ignition.config.and_then(|config| config.merge).expect("a merge");
        assert_eq!(merge[0].source.as_deref(), Some("https://api-int.example.com:22623/config/worker"));
        assert_eq!(pointer["ignition"]["config"]["merge"][0]["httpHeaders"][0]["value"], "Bearer abc");
    }

    #[test]
    fn an_open_pool_needs_no_header() {
        let pointer = pointer("a:1", "worker", b"CA\n", None);
        assert!(pointer["ignition"]["config"]["merge"][0].get("httpHeaders").is_none());
    }
}
