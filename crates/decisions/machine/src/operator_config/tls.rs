//! The TLS profile of the API server, as arguments of our servers.

use serde_json::Value;

/// Names of OpenSSL beside those of the standard, for what Go's and our TLS can do. Others are dropped.
const SUITES: &[(&str, &str)] = &[
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    ("ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    ("AES128-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"),
    ("DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
];

/// How many of the suites, from the front, the profiles `Intermediate` and `Modern` have; `Old` has all.
const INTERMEDIATE: usize = 9;

/// What the APIServer object says about TLS.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsSettings {
    /// `tlsAdherence`: whether components like ours follow the profile.
    pub adherence: String,
    /// `tlsSecurityProfile`.
    pub profile: Value,
}

/// A profile that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsError {
    #[error(
        "custom TLS profile specified but Custom field is nil: set spec.tlsSecurityProfile.custom of APIServer cluster"
    )]
    NoCustom,
}

impl TlsSettings {
    pub fn from_object(api_server: &Value) -> Self {
        let spec = &api_server["spec"];
        Self {
            adherence: spec["tlsAdherence"].as_str().unwrap_or_default().to_owned(),
            profile: spec["tlsSecurityProfile"].clone(),
        }
    }

    /// Arguments for a server. A cluster that does not ask all components to follow its profile gets `Intermediate`, and
    /// then nothing that is wrong with the profile matters.
    pub fn arguments(&self) -> Result<Vec<String>, TlsError> {
        let is_followed = !matches!(self.adherence.as_str(), "" | "LegacyAdheringComponentsOnly");
        let names = |count: usize| SUITES.iter().take(count).map(|(_, name)| *name).collect();
        let kind = if is_followed { self.profile["type"].as_str().unwrap_or_default() } else { "" };
        let (suites, version): (Vec<&str>, &str) = match kind {
            "Old" => (names(SUITES.len()), "VersionTLS10"),
            "Modern" => (names(3), "VersionTLS13"),
            "Custom" => custom(&self.profile["custom"])?,
            _ => (names(INTERMEDIATE), "VersionTLS12"),
        };
        let version_argument = format!("--tls-min-version={version}");
        // The suites of TLS 1.3 cannot be chosen.
        if suites.is_empty() || version == "VersionTLS13" {
            return Ok(vec![version_argument]);
        }
        Ok(vec![format!("--tls-cipher-suites={}", suites.join(",")), version_argument])
    }
}

fn custom(custom: &Value) -> Result<(Vec<&str>, &str), TlsError> {
    if !custom.is_object() {
        return Err(TlsError::NoCustom);
    }
    let wanted = custom["ciphers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let suites = wanted.filter_map(|wanted| SUITES.iter().find(|(openssl, _)| *openssl == wanted));
    let version = custom["minTLSVersion"].as_str().filter(|version| !version.is_empty()).unwrap_or("VersionTLS12");
    Ok((suites.map(|(_, name)| *name).collect(), version))
}
