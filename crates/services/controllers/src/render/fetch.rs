//! Fetches remote content for fragments: https only unless the pool's policy allows more, bounded in size and time.
//!
//! What a fragment's generation brought once is never fetched again: it is taken from memory, or after a restart out of the
//! rendered config that it went into, where the pin proves it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use api::machineconfiguration::MachineConfig;
use api::machinist::Pin;
use api::names;
use futures::StreamExt;
use parking_lot::Mutex;
use render::{Fetched, Need};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client};
use sha2::{Digest, Sha256};

use super::Render;
use super::compose::Input;

const CONNECT: Duration = Duration::from_secs(10);

/// Enough for a mirror's hop or two.
const REDIRECTS: usize = 5;

/// Fragment, generation and source: what content is remembered by.
type Key = (String, i64, String);

#[derive(Default)]
pub(super) struct Fetcher {
    contents: Mutex<HashMap<Key, Vec<u8>>>,
}

/// What a pool's policy allows.
#[derive(Clone, Copy)]
struct Allowed {
    remote: bool,
    insecure: bool,
}

/// How far one download may go, and whom it believes.
struct Bounds {
    bytes: usize,
    time: Duration,
    /// Beside the authorities of the system: those that the cluster's hosts trust too.
    authorities: Vec<Certificate>,
}

impl Render {
    /// Everything that is needed, or one sentence about what could not be had.
    pub(super) async fn fetch(&self, input: &Input, needs: &[Need]) -> Result<Fetched, String> {
        let pool = input.pool.metadata.name.as_deref().unwrap_or_default();
        let policy = self.context.world.policies.named(pool);
        let sources = policy.as_ref().and_then(|policy| policy.spec.sources.as_ref());
        let allowed = Allowed {
            remote: sources.and_then(|sources| sources.allow_remote).unwrap_or(true),
            insecure: sources.and_then(|sources| sources.allow_insecure).unwrap_or(false),
        };
        let bounds = Bounds {
            bytes: input.settings.remote_limit,
            time: self.context.settings.fetch_timeout,
            authorities: self.authorities()?,
        };
        let mut fetched = Fetched::default();
        for need in needs {
            let content = match self.remembered(input, need) {
                Some(content) => content,
                None => self.fetcher.fetch(need, allowed, &bounds).await.map_err(|why| {
                    format!(
                        "MachineConfig {}: spec.config.storage.files: {}: content of {} cannot be fetched: {why}",
                        need.fragment, need.path, need.source
                    )
                })?,
            };
            fetched.insert(need, content);
        }
        Ok(fetched)
    }

    fn authorities(&self) -> Result<Vec<Certificate>, String> {
        let config = self.context.world.controller_configs.named(names::CONTROLLER_CONFIG);
        let Some(bundle) = config.and_then(|config| config.spec.additional_trust_bundle.clone()) else {
            return Ok(Vec::new());
        };
        Certificate::from_pem_bundle(&bundle.0).map_err(|error| {
            format!("spec.additionalTrustBundle of ControllerConfig {} is no PEM: {error}", names::CONTROLLER_CONFIG)
        })
    }

    /// Content that this generation of the fragment brought before.
    fn remembered(&self, input: &Input, need: &Need) -> Option<Vec<u8>> {
        let key = (need.fragment.clone(), need.generation, need.source.clone());
        if let Some(content) = self.fetcher.contents.lock().get(&key) {
            return Some(content.clone());
        }
        let present = input.present.as_ref()?;
        let provenance = self.context.world.provenances.named(present.metadata.name.as_deref()?)?;
        let pin = provenance.pins.iter().find(|pin| is_about(pin, need))?;
        let content = embedded(present, &need.path).filter(|content| hash(content) == pin.hash)?;
        self.fetcher.contents.lock().insert(key, content.clone());
        Some(content)
    }
}

impl Fetcher {
    async fn fetch(&self, need: &Need, allowed: Allowed, bounds: &Bounds) -> Result<Vec<u8>, String> {
        check(&need.source, allowed)?;
        let fetching = download(need, allowed, bounds);
        let late = |_| format!("it took longer than {} s", bounds.time.as_secs());
        let content = tokio::time::timeout(bounds.time, fetching).await.map_err(late)??;
        let key = (need.fragment.clone(), need.generation, need.source.clone());
        let mut contents = self.contents.lock();
        // An edited fragment will never ask for its old content again.
        contents.retain(|(fragment, generation, _), _| *fragment != need.fragment || *generation == need.generation);
        contents.insert(key, content.clone());
        Ok(content)
    }
}

fn check(source: &str, allowed: Allowed) -> Result<(), String> {
    if !allowed.remote {
        return Err("spec.sources.allowRemote of the pool's PoolPolicy is false".to_owned());
    }
    match source.split_once("://").map(|(scheme, _)| scheme) {
        Some("https") => Ok(()),
        Some("http") if allowed.insecure => Ok(()),
        Some("http") => {
            Err("only https is allowed; set spec.sources.allowInsecure in the pool's PoolPolicy to allow http"
                .to_owned())
        }
        Some(scheme) => Err(format!("the scheme {scheme} is not supported; use https")),
        None => Err("it is not a URL".to_owned()),
    }
}

async fn download(need: &Need, allowed: Allowed, bounds: &Bounds) -> Result<Vec<u8>, String> {
    let redirects = Policy::custom(move |attempt| {
        if attempt.previous().len() > REDIRECTS {
            attempt.error("too many redirects")
        } else if let Err(why) = check(attempt.url().as_str(), allowed) {
            attempt.error(why)
        } else {
            attempt.follow()
        }
    });
    let client = Client::builder().redirect(redirects).connect_timeout(CONNECT);
    let client = client.tls_certs_merge(bounds.authorities.clone()).build().map_err(|error| chain(&error))?;
    let request = client.get(&need.source).headers(headers(need)?);
    let response = request.send().await.map_err(|error| chain(&error))?;
    // A name may stand for any address, so the address is judged where the connection went.
    if response.remote_addr().is_some_and(|address| is_link_local(address.ip())) {
        return Err("its name stands for a link-local address".to_owned());
    }
    if !response.status().is_success() {
        return Err(format!("the server answered {}", response.status()));
    }
    let mut content = Vec::new();
    let mut chunks = response.bytes_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| chain(&error))?;
        if content.len() + chunk.len() > bounds.bytes {
            return Err(format!("it is larger than {} bytes", bounds.bytes));
        }
        content.extend_from_slice(&chunk);
    }
    Ok(content)
}

fn headers(need: &Need) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in &need.headers {
        let name: HeaderName = name.parse().map_err(|_| format!("{name:?} is not the name of a header"))?;
        // The value may be a credential, so a message about it does not show it.
        let value = HeaderValue::from_str(value).map_err(|_| format!("the value of header {name} is not allowed"))?;
        headers.append(name, value);
    }
    Ok(headers)
}

fn is_link_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_about(pin: &Pin, need: &Need) -> bool {
    pin.fragment == need.fragment && pin.generation == need.generation && pin.source == need.source
}

/// The bytes that a rendered config has embedded for a file.
fn embedded(rendered: &MachineConfig, path: &str) -> Option<Vec<u8>> {
    let config = ignition::parse(rendered.spec.config.as_ref()?).ok()?;
    let files = config.storage?.files?;
    let file = files.into_iter().find(|file| file.path == path)?;
    ignition::data_url::decode(&file.contents?.source?).ok()
}

fn hash(content: &[u8]) -> String {
    format!("sha256-{}", hex::encode(Sha256::digest(content)))
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(source: &str, allowed: Allowed) -> String {
        check(source, allowed).err().unwrap_or_default()
    }

    #[test]
    fn only_https_is_fetched_unless_the_policy_says_so() {
        let usual = Allowed { remote: true, insecure: false };
        assert_eq!(refused("https://example.org/a", usual), "");
        assert!(refused("http://example.org/a", usual).contains("allowInsecure"));
        assert_eq!(refused("http://example.org/a", Allowed { insecure: true, ..usual }), "");
        assert!(refused("ftp://example.org/a", usual).contains("ftp"));
        assert!(refused("https://example.org/a", Allowed { remote: false, ..usual }).contains("allowRemote"));
    }

    #[test]
    fn link_local_addresses_are_known_in_both_families() {
        assert!(is_link_local("169.254.169.254".parse().expect("an address")));
        assert!(is_link_local("fe80::1".parse().expect("an address")));
        assert!(is_link_local("::ffff:169.254.169.254".parse().expect("an address")));
        assert!(!is_link_local("10.0.0.1".parse().expect("an address")));
    }
}
