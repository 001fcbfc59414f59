//! HTTP as this provider uses it.

use std::time::Duration;

/// Services answer in milliseconds; a connection that takes longer is going nowhere.
const CONNECT: Duration = Duration::from_secs(10);
/// A page of a thousand servers takes tens of seconds on a busy cloud.
const WHOLE: Duration = Duration::from_secs(60);
/// A page of a thousand servers has about 4 MB.
const LARGEST_ANSWER: usize = 64 << 20;

/// Which servers are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Trust {
    /// Authorities besides the system's, in PEM.
    pub(super) authorities: Option<Vec<u8>>,
    /// `verify: false` of `clouds.yaml`.
    pub(super) anybody: bool,
}

pub(super) fn client(trust: &Trust) -> Result<reqwest::Client, String> {
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("machinist/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .timeout(WHOLE)
        // A redirect would carry the token elsewhere; OpenStack sends none.
        .redirect(reqwest::redirect::Policy::none())
        .tls_danger_accept_invalid_certs(trust.anybody);
    if let Some(authorities) = &trust.authorities {
        let certificates = reqwest::Certificate::from_pem_bundle(authorities).map_err(words)?;
        if certificates.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        builder = builder.tls_certs_merge(certificates);
    }
    builder.build().map_err(words)
}

/// The text of an answer of bearable size.
pub(super) async fn read(mut response: reqwest::Response) -> Result<String, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(words)? {
        if bytes.len() + chunk.len() > LARGEST_ANSWER {
            return Err(format!("the answer is larger than {LARGEST_ANSWER} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| "the answer is not text".to_owned())
}

/// An error with its causes, in one line and without the address.
pub(super) fn words(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut words = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}
