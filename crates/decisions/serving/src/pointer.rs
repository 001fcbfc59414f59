//! Writes the pointer config: the user data of a new machine, which only refers to the real config.

use ignition::data_url;
use serde_json::{Value, json};

/// The header that carries a token. Ignition sends it only to the URL in the pointer config.
const TOKEN_HEADER: &str = "Authorization";

/// The file in which the machine keeps the data it needs to report on its first boot, until that boot is over.
pub const FIRST_BOOT: &str = "/etc/machinist/firstboot.json";

/// The smallest user data limit of the platforms we know.
pub const USER_DATA: usize = 2048;

/// Returns the user data for a machine of `pool` behind `server` (`host:port`), with the CA that signed the server's
/// certificate and, unless the pool is open, a token.
pub fn pointer(server: &str, pool: &str, ca: &[u8], token: Option<&str>) -> Value {
    let mut source = json!({"source": format!("https://{server}/config/{pool}")});
    if let Some(token) = token {
        source["httpHeaders"] = json!([{"name": TOKEN_HEADER, "value": format!("Bearer {token}")}]);
    }
    let mut pointer = json!({
        "ignition": {
            // HTTP headers were added in 3.1, and nothing here needs a newer version. Every client that can send
            // headers reads this.
            "version": "3.1.0",
            "config": {"merge": [source]},
            "security": {"tls": {"certificateAuthorities": [{"source": shortest(ca)}]}},
        }
    });
    if let Some(token) = token {
        let note = json!({"report": format!("https://{server}/report/{pool}"), "token": token}).to_string();
        // Ignition has no other way to pass the token to the booted system.
        pointer["storage"] = json!({
            "files": [{"path": FIRST_BOOT, "mode": 0o600, "contents": {"source": shortest(note.as_bytes())}}]
        });
    }
    pointer
}

/// Returns the token of a pointer config, so that the owner of stored user data can check whether it is still valid.
pub fn token(pointer: &Value) -> Option<&str> {
    let headers = pointer.pointer("/ignition/config/merge/0/httpHeaders")?.as_array()?;
    let header = headers.iter().find(|header| header["name"] == TOKEN_HEADER)?;
    header["value"].as_str()?.strip_prefix("Bearer ")
}

/// Percent-encoding is shorter than base64, unless most bytes have to be escaped.
fn shortest(bytes: &[u8]) -> String {
    let (escaped, encoded) = (data_url::escape(bytes), data_url::encode(bytes));
    if escaped.len() <= encoded.len() { escaped } else { encoded }
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
        assert_eq!(token(&pointer), Some("abc"));
        assert_eq!(pointer["storage"]["files"][0]["path"], FIRST_BOOT);
    }

    #[test]
    fn an_open_pool_needs_no_header() {
        let pointer = pointer("a:1", "worker", b"CA\n", None);
        assert!(pointer["ignition"]["config"]["merge"][0].get("httpHeaders").is_none());
        assert_eq!(token(&pointer), None);
        assert!(pointer.get("storage").is_none());
    }

    /// The authority is as long as a certificate of a 2048-bit RSA key with three names; elliptic-curve ones are half
    /// as long.
    #[test]
    fn a_pointer_with_a_usual_authority_fits_into_the_smallest_user_data() {
        let line = "MIIDXTCCAkWgAwIBAgIJAKoK/heBjcOuMA0GCSqGSIb3DQEBBQUAMEUxCzAJBgNV\n";
        let ca = format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", line.repeat(17));
        let token = "f".repeat(43);
        let pointer =
            pointer("api-int.production.eu-central-1.example.com:22623", "worker", ca.as_bytes(), Some(&token));
        let length = pointer.to_string().len();
        assert!(length < USER_DATA, "{length} bytes");
    }
}
