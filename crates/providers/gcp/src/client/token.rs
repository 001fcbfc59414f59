//! How a client proves who it is: a key of a service account, or the metadata service of the machine it runs on.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::{Fault, read, words};

const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";
/// How long a signed request for a token holds; Google takes no more than an hour.
const LIFETIME: Duration = Duration::from_secs(3600);
/// A token is renewed this long before it ends, so that none ends on its way.
const EARLY: Duration = Duration::from_secs(60);

pub(super) struct Login {
    source: Source,
    token: Mutex<Option<(String, Instant)>>,
}

enum Source {
    Key(Box<Key>),
    /// The address of the metadata service.
    Metadata(String),
}

/// A service account's key.
struct Key {
    email: String,
    id: String,
    pair: RsaKeyPair,
    token_uri: String,
}

impl Login {
    /// With the file that Google gives for a service account. Also the project that it belongs to.
    pub(super) fn from_file(text: &str) -> Result<(Self, String), Fault> {
        let bad = |why: &str| Fault::Login(format!("service_account.json: {why}"));
        let file: Value = serde_json::from_str(text).map_err(|_| bad("it is no JSON"))?;
        let field = |name: &str| file[name].as_str().unwrap_or_default().to_owned();
        match file["type"].as_str() {
            Some("service_account") => {}
            other => {
                let why =
                    format!("type {:?} cannot be used; give the key of a service account", other.unwrap_or_default());
                return Err(bad(&why));
            }
        }
        let (email, token_uri) = (field("client_email"), field("token_uri"));
        if email.is_empty() || token_uri.is_empty() {
            return Err(bad("client_email or token_uri is missing"));
        }
        let pair = pair(&field("private_key")).ok_or_else(|| bad("private_key is no RSA key in PEM (PKCS #8)"))?;
        let key = Key { email, id: field("private_key_id"), pair, token_uri };
        Ok((Self { source: Source::Key(Box::new(key)), token: Mutex::default() }, field("project_id")))
    }

    pub(super) fn from_metadata(address: &str) -> Self {
        Self { source: Source::Metadata(address.to_owned()), token: Mutex::default() }
    }

    /// Lets the token go. Whether there was one to let go.
    pub(super) async fn forget(&self) -> bool {
        self.token.lock().await.take().is_some()
    }

    pub(super) async fn token(&self, http: &reqwest::Client) -> Result<String, Fault> {
        let mut kept = self.token.lock().await;
        if let Some((token, until)) = kept.as_ref()
            && *until > Instant::now()
        {
            return Ok(token.clone());
        }
        let answer = match &self.source {
            Source::Key(key) => ask_with(key, http).await?,
            Source::Metadata(address) => {
                let url = format!("{address}/computeMetadata/v1/instance/service-accounts/default/token");
                exchange(http.get(url).header("metadata-flavor", "Google")).await?
            }
        };
        let token = answer["access_token"].as_str().filter(|token| !token.is_empty());
        let token = token.ok_or_else(|| Fault::Login("Google gave no token".to_owned()))?.to_owned();
        let lives = Duration::from_secs(answer["expires_in"].as_u64().unwrap_or_default());
        *kept = Some((token.clone(), Instant::now() + lives.saturating_sub(EARLY)));
        Ok(token)
    }
}

async fn ask_with(key: &Key, http: &reqwest::Client) -> Result<Value, Fault> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let assertion = key.assertion(now).ok_or_else(|| Fault::Login("cannot sign a request for a token".to_owned()))?;
    // Neither has a character that a form would escape, but for the colons.
    let form = format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
    let request = http.post(&key.token_uri).header("content-type", "application/x-www-form-urlencoded");
    exchange(request.body(form)).await
}

/// What went wrong is told without the request, which is a credential.
async fn exchange(request: reqwest::RequestBuilder) -> Result<Value, Fault> {
    let response = request
        .send()
        .await
        .map_err(|error| Fault::Unreachable(format!("cannot ask for a token: {}", words(error))))?;
    let status = response.status().as_u16();
    let text = read(response).await.map_err(Fault::Unreachable)?;
    let answer: Value = serde_json::from_str(&text).unwrap_or_default();
    match status {
        200..300 => Ok(answer),
        500.. => Err(Fault::Unreachable(format!("HTTP status {status} instead of a token"))),
        _ => {
            let word = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
            let (error, description) = (word("error"), word("error_description"));
            Err(Fault::Login(
                format!("Google gives no token: HTTP status {status} {error} {description}").trim_end().to_owned(),
            ))
        }
    }
}

impl Key {
    /// A request for a token, signed with the key (RFC 7523).
    fn assertion(&self, now: Duration) -> Option<String> {
        let header = json!({"alg": "RS256", "typ": "JWT", "kid": self.id});
        let claims = json!({"iss": self.email, "scope": SCOPE, "aud": self.token_uri,
            "iat": now.as_secs(), "exp": (now + LIFETIME).as_secs()});
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(&claims));
        let mut signature = vec![0; self.pair.public().modulus_len()];
        self.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).ok()?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// A key from PEM.
fn pair(pem: &str) -> Option<RsaKeyPair> {
    let body = pem.split_once("-----BEGIN PRIVATE KEY-----")?.1.split_once("-----END PRIVATE KEY-----")?.0;
    let digits: String = body.chars().filter(|letter| !letter.is_whitespace()).collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(digits).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_used_says_why_and_not_what_is_in_it() {
        let told = |file: Value| Login::from_file(&file.to_string()).err().unwrap().to_string();
        assert!(told(json!({"type": "external_account"})).contains("external_account"));
        assert!(told(json!({"type": "service_account"})).contains("client_email"));
        let file = json!({"type": "service_account", "client_email": "a", "token_uri": "b", "private_key": "s3cret"});
        assert!(told(file.clone()).contains("private_key") && !told(file).contains("s3cret"));
    }
}
