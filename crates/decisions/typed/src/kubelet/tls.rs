//! TLS security profiles: named sets of a least version and cipher suites, or a set of the user's own.

use api::machineconfiguration::TlsSecurityProfile;
use serde_json::{Map, Value};

/// What a profile asks of a TLS server. Suites have the names that Go, and so the kubelet, uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub min_version: String,
    pub cipher_suites: Vec<String>,
}

impl Tls {
    /// What a profile means. No profile, an unknown one and a custom one without content mean Intermediate; ciphers that
    /// Go has no name for are left out.
    pub fn from_profile(profile: Option<&TlsSecurityProfile>) -> Self {
        let kind = profile.and_then(|profile| profile.type_.as_deref()).unwrap_or_default();
        let custom = profile.and_then(|profile| profile.custom.as_ref()).filter(|_| kind == "Custom");
        if let Some(custom) = custom {
            let suites = custom.ciphers.iter().filter_map(|cipher| go_name(cipher));
            return Self {
                min_version: custom.min_tls_version.clone().unwrap_or_default(),
                cipher_suites: suites.map(str::to_owned).collect(),
            };
        }
        let (min_version, ciphers) = match kind {
            "Old" => ("VersionTLS10", &CIPHERS[..OLD]),
            "Modern" => ("VersionTLS13", &CIPHERS[..MODERN]),
            _ => ("VersionTLS12", &CIPHERS[..INTERMEDIATE]),
        };
        let cipher_suites = ciphers.iter().map(|(_, go)| (*go).to_owned()).collect();
        Self { min_version: min_version.to_owned(), cipher_suites }
    }

    /// What a kubelet's configuration asks for.
    pub(crate) fn of_configuration(configuration: &Map<String, Value>) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let suites = configuration.get("tlsCipherSuites").and_then(Value::as_array).into_iter().flatten();
        Self {
            min_version: configuration.get("tlsMinVersion").and_then(text).unwrap_or_default(),
            cipher_suites: suites.filter_map(text).collect(),
        }
    }

    /// Puts both settings into a kubelet's configuration; what the profile leaves empty is left to the kubelet.
    pub fn apply(&self, configuration: &mut Map<String, Value>) {
        configuration.remove("tlsMinVersion");
        configuration.remove("tlsCipherSuites");
        if !self.min_version.is_empty() {
            configuration.insert("tlsMinVersion".into(), self.min_version.clone().into());
        }
        if !self.cipher_suites.is_empty() {
            configuration.insert("tlsCipherSuites".into(), self.cipher_suites.clone().into());
        }
    }
}

/// The ciphers of a custom profile that Go has no name for.
pub(crate) fn unknown_ciphers(profile: &TlsSecurityProfile) -> Vec<&str> {
    let custom = profile.custom.as_ref().filter(|_| profile.type_.as_deref() == Some("Custom"));
    let ciphers = custom.into_iter().flat_map(|custom| &custom.ciphers).map(String::as_str);
    ciphers.filter(|cipher| go_name(cipher).is_none()).collect()
}

/// Whether ciphers of a profile are unknown and none is left: a kubelet would take its defaults, which allow more.
pub(crate) fn has_no_cipher(profile: &TlsSecurityProfile) -> bool {
    !unknown_ciphers(profile).is_empty() && Tls::from_profile(Some(profile)).cipher_suites.is_empty()
}

/// Whether Go has a cipher suite of this name.
pub(crate) fn is_suite(name: &str) -> bool {
    CIPHERS.iter().any(|(_, go)| *go == name) || ALIASES.contains(&name)
}

fn go_name(cipher: &str) -> Option<&'static str> {
    CIPHERS.iter().find(|(name, _)| *name == cipher).map(|(_, go)| *go)
}

/// How many of [`CIPHERS`] each profile allows.
const MODERN: usize = 3;
const INTERMEDIATE: usize = 9;
const OLD: usize = 21;

/// Ciphers by the names that profiles use, with Go's names: the modern ones, then the intermediate, then the old ones, then
/// one that no profile but a custom one has.
const CIPHERS: [(&str, &str); 22] = [
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
    ("ECDHE-RSA-DES-CBC3-SHA", "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA"),
];

/// Names that a kubelet takes beside those above.
const ALIASES: [&str; 5] = [
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_RC4_128_SHA",
];
