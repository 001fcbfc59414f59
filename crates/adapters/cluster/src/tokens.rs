//! Issues bootstrap tokens for new machines.
//!
//! The secret is generated here and returned once; the cluster stores only its hash. The crate `serving` decides what a
//! token gives access to.

use api::machinist::BootstrapToken;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serving::token::{Grant, object};

use crate::write::in_time;

/// Returns a random secret in characters that are valid in every HTTP header.
pub fn secret() -> String {
    URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>())
}

/// Stores a token for `grant` and returns its secret.
pub async fn issue(client: &Client, grant: &Grant) -> Result<String, Error> {
    let tokens: Api<BootstrapToken> = Api::all(client.clone());
    let secret = secret();
    in_time(tokens.create(&PostParams::default(), &object(grant, &secret))).await?;
    Ok(secret)
}
