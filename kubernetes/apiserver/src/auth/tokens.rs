//! Bearer tokens: those given at the start, and signed ones for service accounts.
//!
//! A service account's token is a JWT signed with a key of this server. It ends with its time, with its account or with the
//! pod that it is bound to, whichever comes first, and survives a restart.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::User;
use crate::{
    object::{Name, text},
    store::Store,
};

/// Who issues the tokens, and for whom unless the request says otherwise.
pub(super) const ISSUER: &str = "https://kubernetes.default.svc";
/// The block size of SHA-256, which HMAC is defined over.
const BLOCK: usize = 64;

pub(crate) struct Tokens {
    fixed: RwLock<HashMap<String, User>>,
    key: Vec<u8>,
}

impl Tokens {
    pub(crate) fn new(key: Vec<u8>) -> Self {
        Self { fixed: RwLock::default(), key }
    }

    pub(crate) fn add(&self, token: &str, user: User) {
        self.fixed.write().insert(token.to_owned(), user);
    }

    /// The user of a token that is valid now.
    pub(crate) fn user(&self, store: &Store, token: &str) -> Option<User> {
        if let Some(user) = self.fixed.read().get(token) {
            return Some(user.clone());
        }
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !equal(&signature, &self.sign(signed.as_bytes())) {
            return None;
        }
        let claims = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        let claims: Value = serde_json::from_slice(&claims).ok()?;
        if claims["exp"].as_i64()? < jiff::Timestamp::now().as_second() {
            return None;
        }
        // A token for somebody else is none for us.
        if !claims["aud"].as_array().is_some_and(|audiences| audiences.iter().any(|audience| audience == ISSUER)) {
            return None;
        }
        let own = &claims["kubernetes.io"];
        let (namespace, account) = (text(&own["namespace"]), &own["serviceaccount"]);
        let name = text(&account["name"]);
        let stored = store.get("/serviceaccounts", &Name::new(namespace, name))?;
        let mut user = service_account(namespace, name, &stored.uid);
        let id = format!("JTI={}", text(&claims["jti"]));
        user.extra.insert(super::certificates::CREDENTIAL_ID.to_owned(), vec![id]);
        let is_valid = *stored.uid == *text(&account["uid"]) && super::bound::holds(store, &claims, &mut user);
        is_valid.then_some(user)
    }

    /// A token for the service account that `own` names, until `expires`, in seconds since 1970.
    pub(super) fn issue(&self, own: &Value, audiences: &[&str], expires: i64) -> String {
        let (namespace, name) = (text(&own["namespace"]), text(&own["serviceaccount"]["name"]));
        let audiences = if audiences.is_empty() { &[ISSUER] } else { audiences };
        let now = jiff::Timestamp::now().as_second();
        let header = json!({"alg": "HS256", "typ": "JWT"});
        let claims = json!({
            "aud": audiences, "exp": expires, "iat": now, "nbf": now, "iss": ISSUER,
            "jti": uuid::Uuid::new_v4().to_string(),
            "sub": format!("system:serviceaccount:{namespace}:{name}"),
            "kubernetes.io": own,
        });
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }

    /// HMAC-SHA-256 (RFC 2104).
    fn sign(&self, message: &[u8]) -> Vec<u8> {
        let mut block = [0; BLOCK];
        let key = if self.key.len() > BLOCK { Sha256::digest(&self.key).to_vec() } else { self.key.clone() };
        block[..key.len()].copy_from_slice(&key);
        let padded = |pad: u8| block.map(|byte| byte ^ pad);
        let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
        Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().to_vec()
    }
}

/// Compares without telling by its time where the difference is.
fn equal(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |seen, (one, other)| seen | (one ^ other)) == 0
}

fn service_account(namespace: &str, name: &str, uid: &str) -> User {
    User { uid: uid.to_owned(), ..User::service_account(namespace, name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_hmac_sha_256() {
        // The second test case of RFC 4231.
        let tokens = Tokens::new(b"Jefe".to_vec());
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(tokens.sign(b"what do ya want for nothing?")), expected);
    }
}
