//! Reads one entry of `clouds.yaml`: where the cloud is and how to log in.
//!
//! Nothing of the file is ever printed, because its passwords are in it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

/// A cloud that can be logged in to.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Cloud {
    /// Ends with `/v3`.
    pub(super) auth_url: String,
    /// The body of the request for a token.
    pub(super) login: Value,
    pub(super) region: Option<String>,
    /// `public`, `internal` or `admin`.
    pub(super) interface: String,
    pub(super) verify: bool,
    /// Addresses that replace those of the catalogue, by type of service.
    pub(super) endpoints: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct File {
    clouds: BTreeMap<String, Entry>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Auth,
    auth_type: Option<String>,
    region_name: Option<String>,
    regions: Vec<Region>,
    interface: Option<String>,
    endpoint_type: Option<String>,
    verify: Option<bool>,
    insecure: Option<bool>,
    profile: Option<String>,
    cloud: Option<String>,
    cert: Option<String>,
    compute_endpoint_override: Option<String>,
    network_endpoint_override: Option<String>,
    image_endpoint_override: Option<String>,
    volume_endpoint_override: Option<String>,
    volumev3_endpoint_override: Option<String>,
    block_storage_endpoint_override: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Region {
    Name(String),
    Entry { name: String },
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Auth {
    auth_url: Option<String>,
    username: Option<String>,
    user_id: Option<String>,
    password: Option<String>,
    project_name: Option<String>,
    project_id: Option<String>,
    tenant_name: Option<String>,
    tenant_id: Option<String>,
    domain_name: Option<String>,
    domain_id: Option<String>,
    user_domain_name: Option<String>,
    user_domain_id: Option<String>,
    project_domain_name: Option<String>,
    project_domain_id: Option<String>,
    default_domain: Option<String>,
    application_credential_id: Option<String>,
    application_credential_name: Option<String>,
    application_credential_secret: Option<String>,
}

/// The entry of a name, or what is wrong with it.
pub(super) fn parse(text: &str, name: &str) -> Result<Cloud, String> {
    // The parser's own words would show a part of the file.
    let file: File = serde_saphyr::from_str(text).map_err(|_| "it is not the YAML of a clouds.yaml".to_owned())?;
    let Some(entry) = file.clouds.get(name) else {
        let known: Vec<_> = file.clouds.keys().map(String::as_str).collect();
        return Err(format!("it has no cloud {name:?} but {known:?}; providerSpec.cloudName names one"));
    };
    read(entry).map_err(|what| format!("clouds.{name}: {what}"))
}

fn read(entry: &Entry) -> Result<Cloud, String> {
    if entry.profile.is_some() || entry.cloud.is_some() {
        return Err("profile is not supported; write its settings into the entry".to_owned());
    }
    if entry.cert.is_some() {
        return Err("client certificates are not supported; remove cert".to_owned());
    }
    let interface = entry.interface.as_deref().or(entry.endpoint_type.as_deref()).unwrap_or("public");
    let interface = interface.strip_suffix("URL").unwrap_or(interface);
    if !["public", "internal", "admin"].contains(&interface) {
        return Err(format!("interface {interface:?} must be public, internal or admin"));
    }
    let verify = entry.verify.unwrap_or(true) && !entry.insecure.unwrap_or(false);
    Ok(Cloud {
        auth_url: auth_url(entry.auth.auth_url.as_deref())?,
        login: login(entry)?,
        region: region(entry)?,
        interface: interface.to_owned(),
        verify,
        endpoints: endpoints(entry),
    })
}

fn region(entry: &Entry) -> Result<Option<String>, String> {
    let names = entry.regions.iter().map(|region| match region {
        Region::Name(name) | Region::Entry { name } => name.clone(),
    });
    let names: Vec<_> = names.collect();
    match (&entry.region_name, names.as_slice()) {
        (Some(name), _) => Ok(Some(name.clone()).filter(|name| !name.is_empty())),
        (None, []) => Ok(None),
        (None, [only]) => Ok(Some(only.clone())),
        (None, _) => Err(format!("regions are {names:?}; name one in region_name")),
    }
}

fn endpoints(entry: &Entry) -> BTreeMap<String, String> {
    let volume = entry.block_storage_endpoint_override.as_ref();
    let volume = volume.or(entry.volumev3_endpoint_override.as_ref()).or(entry.volume_endpoint_override.as_ref());
    let all = [
        ("compute", entry.compute_endpoint_override.as_ref()),
        ("network", entry.network_endpoint_override.as_ref()),
        ("image", entry.image_endpoint_override.as_ref()),
        ("volumev3", volume),
    ];
    all.into_iter().filter_map(|(name, url)| Some((name.to_owned(), url?.clone()))).collect()
}

fn auth_url(url: Option<&str>) -> Result<String, String> {
    let url = url.map(|url| url.trim_end_matches('/')).filter(|url| !url.is_empty());
    let url = url.ok_or("auth.auth_url is missing: write the address of keystone")?;
    let parsed = url::Url::parse(url).map_err(|_| "auth.auth_url is no address".to_owned())?;
    if !matches!(parsed.scheme(), "http" | "https") || !parsed.username().is_empty() || parsed.password().is_some() {
        return Err("auth.auth_url must begin with https:// or http:// and hold no password".to_owned());
    }
    if url.ends_with("/v2.0") {
        return Err("auth.auth_url is of identity v2.0; write that of v3".to_owned());
    }
    Ok(if url.ends_with("/v3") { url.to_owned() } else { format!("{url}/v3") })
}

fn login(entry: &Entry) -> Result<Value, String> {
    let auth = &entry.auth;
    let kind = entry.auth_type.as_deref().unwrap_or_default();
    let by_credential = auth.application_credential_id.is_some() || auth.application_credential_name.is_some();
    match kind {
        "v3applicationcredential" => application_credential(auth),
        "" | "password" | "v3password" if by_credential => application_credential(auth),
        "" | "password" | "v3password" => password(auth),
        other => Err(format!("auth_type {other:?} is not supported; use password or v3applicationcredential")),
    }
}

fn needed<'a>(value: Option<&'a String>, field: &str) -> Result<&'a str, String> {
    value.map(String::as_str).filter(|value| !value.is_empty()).ok_or_else(|| format!("auth.{field} is missing"))
}

fn application_credential(auth: &Auth) -> Result<Value, String> {
    let secret = needed(auth.application_credential_secret.as_ref(), "application_credential_secret")?;
    let credential = match &auth.application_credential_id {
        Some(id) => json!({"id": id, "secret": secret}),
        None => {
            let name = needed(auth.application_credential_name.as_ref(), "application_credential_id")?;
            json!({"name": name, "secret": secret, "user": user(auth)?})
        }
    };
    let identity = json!({"methods": ["application_credential"], "application_credential": credential});
    Ok(json!({"auth": {"identity": identity}}))
}

fn password(auth: &Auth) -> Result<Value, String> {
    let mut user = user(auth)?;
    user["password"] = json!(needed(auth.password.as_ref(), "password")?);
    let identity = json!({"methods": ["password"], "password": {"user": user}});
    Ok(json!({"auth": {"identity": identity, "scope": {"project": project(auth)?}}}))
}

fn user(auth: &Auth) -> Result<Value, String> {
    if let Some(id) = &auth.user_id {
        return Ok(json!({"id": id}));
    }
    let name = needed(auth.username.as_ref(), "username")?;
    Ok(json!({"name": name, "domain": domain(auth, &auth.user_domain_id, &auth.user_domain_name)}))
}

fn project(auth: &Auth) -> Result<Value, String> {
    if let Some(id) = auth.project_id.as_ref().or(auth.tenant_id.as_ref()) {
        return Ok(json!({"id": id}));
    }
    let name = needed(auth.project_name.as_ref().or(auth.tenant_name.as_ref()), "project_name")?;
    Ok(json!({"name": name, "domain": domain(auth, &auth.project_domain_id, &auth.project_domain_name)}))
}

/// A domain of its own, else the common one, else the one that every cloud has.
fn domain(auth: &Auth, id: &Option<String>, name: &Option<String>) -> Value {
    match (id.as_ref(), name.as_ref()) {
        (Some(id), _) => json!({"id": id}),
        (None, Some(name)) => json!({"name": name}),
        (None, None) => match (&auth.domain_id, &auth.domain_name) {
            (Some(id), _) => json!({"id": id}),
            (None, Some(name)) => json!({"name": name}),
            (None, None) => json!({"id": auth.default_domain.as_deref().unwrap_or("default")}),
        },
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        let told = match parse(text, "mine") {
            Ok(cloud) => format!("{} {:?} {} {}", cloud.auth_url, cloud.region, cloud.interface, cloud.login),
            Err(error) => error,
        };
        expected.assert_eq(&told);
    }

    #[test]
    fn passwords_and_application_credentials_log_in() {
        check(
            "clouds: {mine: {auth: {auth_url: 'https://k:5000/', username: u, password: 0123, project_name: p, \
             user_domain_name: Default, project_domain_id: default}, region_name: r1, interface: internalURL}}",
            expect![[
                r#"https://k:5000/v3 Some("r1") internal {"auth":{"identity":{"methods":["password"],"password":{"user":{"domain":{"name":"Default"},"name":"u","password":"0123"}}},"scope":{"project":{"domain":{"id":"default"},"name":"p"}}}}"#
            ]],
        );
        check(
            "clouds: {mine: {auth_type: v3applicationcredential, auth: {auth_url: https://k/v3, \
             application_credential_id: a, application_credential_secret: s}}}",
            expect![[
                r#"https://k/v3 None public {"auth":{"identity":{"application_credential":{"id":"a","secret":"s"},"methods":["application_credential"]}}}"#
            ]],
        );
    }

    #[test]
    fn mistakes_are_named_and_nothing_secret_is() {
        check(
            "clouds: {other: {}}",
            expect![[r#"it has no cloud "mine" but ["other"]; providerSpec.cloudName names one"#]],
        );
        check(
            "clouds: {mine: {auth: {}}}",
            expect!["clouds.mine: auth.auth_url is missing: write the address of keystone"],
        );
        let at = |rest: &str| format!("clouds: {{mine: {{auth: {{auth_url: 'https://k/v3', {rest}}}}}}}");
        check(&at("username: u"), expect!["clouds.mine: auth.password is missing"]);
        check(&at("username: u, password: p"), expect!["clouds.mine: auth.project_name is missing"]);
        check(
            &at("application_credential_id: a"),
            expect!["clouds.mine: auth.application_credential_secret is missing"],
        );
        check(
            "clouds: {mine: {profile: rackspace}}",
            expect!["clouds.mine: profile is not supported; write its settings into the entry"],
        );
        check("password: [hunter2", expect!["it is not the YAML of a clouds.yaml"]);
        check(
            "clouds: {mine: {auth: {auth_url: https://k/v2.0}}}",
            expect!["clouds.mine: auth.auth_url is of identity v2.0; write that of v3"],
        );
        check(
            "clouds: {mine: {auth: {auth_url: 'https://u:p@k/v3'}}}",
            expect!["clouds.mine: auth.auth_url must begin with https:// or http:// and hold no password"],
        );
    }
}
