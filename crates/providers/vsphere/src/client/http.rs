//! HTTP as vCenter is spoken to.

use std::time::Duration;

use super::tls::Trust;

/// A connection that takes longer is going nowhere.
const CONNECT: Duration = Duration::from_secs(10);
/// A page of a few hundred machines takes a few seconds on a busy vCenter.
const WHOLE: Duration = Duration::from_secs(60);
/// A page of a few hundred machines has about 2 MB.
const LARGEST_ANSWER: usize = 64 << 20;

pub(super) fn client(trust: &Trust) -> Result<reqwest::Client, String> {
    let builder = reqwest::Client::builder()
        .user_agent(concat!("machinist/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT)
        .timeout(WHOLE)
        // A redirect would carry the session elsewhere; vCenter sends none.
        .redirect(reqwest::redirect::Policy::none());
    trust.apply(builder)?.build().map_err(words)
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
