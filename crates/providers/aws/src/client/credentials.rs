//! Who we are to AWS: the keys of a Secret, the profile in a Secret, or the official chain.
//!
//! Credentials end. They are asked for again a while before, and at once when AWS calls them expired, so that rotation needs
//! no restart. What they are is never printed.

use std::time::{Duration, SystemTime};

use aws_config::SdkConfig;
use aws_config::profile::ProfileFileCredentialsProvider;
use aws_config::provider_config::ProviderConfig;
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use machine::provider::SecretData;
use tokio::sync::Mutex;

use super::Fault;
use super::http::Connector;

/// Time for a request that was signed just before the end.
const MARGIN: Duration = Duration::from_secs(300);
/// The chain may have nothing to say of an end, as for keys in a file that somebody edits.
const LONGEST: Duration = Duration::from_secs(900);

/// Where credentials come from.
pub(super) enum Login {
    /// Keys that stay as they are until the Secret changes, which makes another client.
    Keys(Credentials),
    Renewed {
        source: SharedCredentialsProvider,
        kept: Mutex<Option<(Credentials, SystemTime)>>,
    },
}

impl Login {
    /// Reads a Secret: a profile under `credentials`, or a pair of keys.
    pub(super) fn from_secret(secret: &SecretData, region: &str, connector: &Connector) -> Result<Self, Fault> {
        let text = |key| secret.text(key).map(str::trim).filter(|text| !text.is_empty());
        if let Some(profile) = text("credentials") {
            return Ok(Self::renewed(SharedCredentialsProvider::new(profile_provider(profile, region, connector))));
        }
        match (text("aws_access_key_id"), text("aws_secret_access_key")) {
            (Some(id), Some(key)) => {
                let session = text("aws_session_token").map(str::to_owned);
                Ok(Self::Keys(Credentials::new(id, key, session, None, "Secret")))
            }
            _ => Err(Fault::Login(
                "the credentials Secret has neither a profile under credentials nor keys under aws_access_key_id and \
                 aws_secret_access_key"
                    .to_owned(),
            )),
        }
    }

    /// Environment, profile, web identity, container and instance, as AWS's own tools look for them.
    pub(super) fn from_chain(config: &SdkConfig) -> Result<Self, Fault> {
        let source = config.credentials_provider();
        source.map(Self::renewed).ok_or_else(|| Fault::Login("the chain of credentials is empty".to_owned()))
    }

    fn renewed(source: SharedCredentialsProvider) -> Self {
        Self::Renewed { source, kept: Mutex::new(None) }
    }

    pub(super) async fn credentials(&self) -> Result<Credentials, Fault> {
        let (source, kept) = match self {
            Self::Keys(credentials) => return Ok(credentials.clone()),
            Self::Renewed { source, kept } => (source, kept),
        };
        // Held while asking, so that a thousand machines ask once.
        let mut kept = kept.lock().await;
        let now = SystemTime::now();
        if let Some((credentials, until)) = kept.as_ref()
            && *until > now
        {
            return Ok(credentials.clone());
        }
        let credentials = source.provide_credentials().await.map_err(|error| Fault::Login(words(&error)))?;
        let end = credentials.expiry().and_then(|end| end.checked_sub(MARGIN));
        let until = end.unwrap_or(now + LONGEST).min(now + LONGEST);
        *kept = Some((credentials.clone(), until));
        Ok(credentials)
    }

    /// Lets go of what is kept. Whether asking again may give something else.
    pub(super) async fn forget(&self) -> bool {
        match self {
            Self::Keys(_) => false,
            Self::Renewed { kept, .. } => kept.lock().await.take().is_some(),
        }
    }
}

/// A profile may assume a role with a token from a file, but runs no program: that feature is not built.
#[allow(deprecated, reason = "the new names of these two types are in a crate that we do not use otherwise")]
fn profile_provider(profile: &str, region: &str, connector: &Connector) -> ProfileFileCredentialsProvider {
    use aws_config::profile::profile_file::{ProfileFileKind, ProfileFiles};
    let files = ProfileFiles::builder().with_contents(ProfileFileKind::Config, profile).build();
    let region = aws_config::Region::new(region.to_owned());
    let config = ProviderConfig::without_region().with_region(Some(region)).with_http_client(connector.clone());
    ProfileFileCredentialsProvider::builder().configure(&config).profile_files(files).profile_name("default").build()
}

/// An error with its causes. AWS's types keep keys and tokens out of them.
fn words(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words = format!("{words}: {error}");
        cause = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(entries: &[(&str, &str)]) -> SecretData {
        SecretData(entries.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect())
    }

    fn connector() -> Connector {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Connector::new(super::super::http::client(None).expect("a client can be made"))
    }

    async fn key_id(entries: &[(&str, &str)]) -> Result<String, Fault> {
        let login = Login::from_secret(&secret(entries), "us-east-1", &connector())?;
        login.credentials().await.map(|credentials| credentials.access_key_id().to_owned())
    }

    #[tokio::test]
    async fn keys_and_profiles_of_a_secret_are_read() {
        let keys = [("aws_access_key_id", "AKIA1\n"), ("aws_secret_access_key", "s")];
        assert_eq!(key_id(&keys).await.expect("keys"), "AKIA1");
        let profile = "[default]\naws_access_key_id = AKIA2\naws_secret_access_key = s\n";
        let both = [("credentials", profile), keys[0], keys[1]];
        assert_eq!(key_id(&both).await.expect("a profile"), "AKIA2");
    }

    #[tokio::test]
    async fn a_secret_without_keys_is_refused_by_the_names_of_what_is_missing() {
        let error = key_id(&[("aws_access_key_id", "AKIA1"), ("password", "hunter22")]).await.expect_err("half a key");
        let words = error.to_string();
        assert!(words.contains("aws_secret_access_key") && !words.contains("hunter22"), "{words}");
    }

    #[tokio::test]
    async fn a_profile_that_runs_a_program_is_refused() {
        let mark = tempfile::tempdir().expect("a folder").path().join("ran");
        let profile = format!("[default]\ncredential_process = touch {}\n", mark.display());
        assert!(key_id(&[("credentials", &profile)]).await.is_err());
        assert!(!mark.exists());
    }

    #[tokio::test]
    async fn what_ends_soon_is_asked_for_again() {
        #[derive(Debug)]
        struct Counting(std::sync::atomic::AtomicU32, Duration);
        impl ProvideCredentials for Counting {
            fn provide_credentials<'a>(&'a self) -> aws_credential_types::provider::future::ProvideCredentials<'a>
            where
                Self: 'a,
            {
                let count = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let end = SystemTime::now() + self.1;
                let credentials = Credentials::new(format!("key-{count}"), "s", None, Some(end), "test");
                aws_credential_types::provider::future::ProvideCredentials::ready(Ok(credentials))
            }
        }
        let ids = async |lasting: Duration| {
            let login = Login::renewed(SharedCredentialsProvider::new(Counting(0.into(), lasting)));
            let first = login.credentials().await.expect("given").access_key_id().to_owned();
            let second = login.credentials().await.expect("given").access_key_id().to_owned();
            assert!(login.forget().await);
            let third = login.credentials().await.expect("given").access_key_id().to_owned();
            [first, second, third]
        };
        assert_eq!(ids(Duration::from_secs(3600)).await, ["key-0", "key-0", "key-1"]);
        assert_eq!(ids(Duration::from_secs(60)).await, ["key-0", "key-1", "key-2"]);
    }
}
