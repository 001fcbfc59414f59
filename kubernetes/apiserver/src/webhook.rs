//! Calls webhooks: one review goes out by HTTPS, one comes back.
//!
//! What is asked and what an answer means is for the callers to know; here are addresses, trust, time and the words that
//! the real server has for what goes wrong on the way. Every call is a connection of its own.

mod trust;

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::{
    object::{Name, text},
    server::Api,
};

/// More than any review: the largest object is much smaller.
const ANSWER_LIMIT: usize = 16 * 1024 * 1024;

/// Where a webhook is.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    /// As messages show it, without the query.
    url: String,
    /// The name its certificate must have.
    name: String,
    /// Where to connect to.
    host: String,
    port: u16,
    path: String,
}

/// Posts a review to the webhook of a `clientConfig`. The error says what went wrong as the real server would.
pub(crate) async fn post(
    api: &Api,
    config: &Value,
    query: &str,
    limit: Duration,
    review: &Value,
) -> Result<Value, String> {
    let (place, missing) = place(api, config)?;
    let shown = format!("{}{query}", place.url);
    let failed = |why: String| format!("Post {shown:?}: {why}");
    if let Some(missing) = missing {
        return Err(failed(missing));
    }
    let exchange = exchange(&place, query, text(&config["caBundle"]), review);
    let (status, kind, body) = match tokio::time::timeout(limit, exchange).await {
        Ok(answer) => answer.map_err(failed)?,
        Err(_) => return Err(failed("context deadline exceeded".to_owned())),
    };
    read(status, &kind, &body)
}

/// The place, and what is missing there if it is known before anybody is called.
fn place(api: &Api, config: &Value) -> Result<(Place, Option<String>), String> {
    if let Some(url) = config["url"].as_str() {
        let uri: Uri = url.parse().map_err(|error| format!("parse {url:?}: {error}"))?;
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let path = uri.path().to_owned();
        let bare = url.trim_end_matches('/');
        let url = if path == "/" { format!("{bare}/") } else { url.to_owned() };
        return Ok((Place { url, name: host.clone(), host, port: uri.port_u16().unwrap_or(443), path }, None));
    }
    let service = &config["service"];
    let (namespace, name) = (text(&service["namespace"]), text(&service["name"]));
    let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
    let path = match text(&service["path"]) {
        "" => "/".to_owned(),
        path => path.to_owned(),
    };
    let host = format!("{name}.{namespace}.svc");
    let url = format!("https://{host}:{port}{path}");
    let (address, missing) = match address(api, namespace, name, port) {
        Ok(address) => (address, None),
        Err(missing) => ((host.clone(), port), Some(missing)),
    };
    Ok((Place { url, name: host, host: address.0, port: address.1, path }, missing))
}

/// Where a service answers: one of its endpoints, which are all there is without a proxy, or else its own address.
fn address(api: &Api, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
    let service = api.store.get("/services", &Name::new(namespace, name));
    let service = service.ok_or_else(|| format!("service {name:?} not found"))?.value();
    if service["spec"]["type"] == "ExternalName" {
        return Ok((text(&service["spec"]["externalName"]).to_owned(), port));
    }
    let ports = service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(own) = ports.iter().find(|own| own["port"] == port) else {
        return Err(format!("no service port {port} found for service {name:?}"));
    };
    let index = api.store.read();
    let slices = index.collection("discovery.k8s.io/endpointslices");
    for slice in slices.into_iter().flat_map(|slices| slices.iter(Some(namespace), None)) {
        if slice.labels.get("kubernetes.io/service-name").is_none_or(|own| own != name) {
            continue;
        }
        let slice = slice.value();
        let ports = slice["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
        let wanted = text(&own["name"]);
        let found = ports.iter().find(|port| text(&port["name"]) == wanted).and_then(|port| port["port"].as_u64());
        let endpoints = slice["endpoints"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ready = endpoints.iter().find(|endpoint| endpoint["conditions"]["ready"] != false);
        let host = ready.and_then(|endpoint| endpoint["addresses"][0].as_str());
        if let (Some(host), Some(port)) = (host, found.and_then(|port| u16::try_from(port).ok())) {
            return Ok((host.to_owned(), port));
        }
    }
    match text(&service["spec"]["clusterIP"]) {
        "" | "None" => Err("cannot route to service with ClusterIP \"None\"".to_owned()),
        address => Ok((address.to_owned(), port)),
    }
}

/// One request over one connection: the status, the content type and the body of the answer.
async fn exchange(
    place: &Place,
    query: &str,
    authorities: &str,
    review: &Value,
) -> Result<(StatusCode, String, Bytes), String> {
    let plain = |error: &dyn std::fmt::Display| error.to_string();
    let bundle = STANDARD.decode(authorities).map_err(|error| plain(&error))?;
    let trust = trust::config(&bundle)?;
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await.map_err(|error| refused(place, &error))?;
    let name = ServerName::try_from(place.name.clone()).map_err(|error| plain(&error))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(trust));
    let stream = connector.connect(name, stream).await.map_err(|error| trust::complaint(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| plain(&error))?;
    let connection = tokio::spawn(connection);
    let request = Request::post(format!("{}{query}", place.path))
        .header(header::HOST, format!("{}:{}", place.name, place.port))
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|error| plain(&error))?;
    let answer = sender.send_request(request).await.map_err(|error| plain(&error))?;
    let status = answer.status();
    let kind = answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.to_owned();
    let body = Limited::new(answer.into_body(), ANSWER_LIMIT).collect().await.map_err(|error| plain(&error))?;
    connection.abort();
    Ok((status, kind, body.to_bytes()))
}

fn refused(place: &Place, error: &std::io::Error) -> String {
    let Place { host, port, .. } = place;
    match error.kind() {
        std::io::ErrorKind::ConnectionRefused => format!("dial tcp {host}:{port}: connect: connection refused"),
        _ => format!("dial tcp {host}:{port}: {error}"),
    }
}

/// The document in an answer.
fn read(status: StatusCode, kind: &str, body: &Bytes) -> Result<Value, String> {
    if !status.is_success() {
        let said = match kind.is_empty() || kind.starts_with("text/") {
            true => String::from_utf8_lossy(body).trim().to_owned(),
            false => String::new(),
        };
        return Err(match status.as_u16() {
            404 => "the server could not find the requested resource".to_owned(),
            400 => "the server rejected our request for an unknown reason".to_owned(),
            401 => "the server has asked for the client to provide credentials".to_owned(),
            500.. => {
                let said = if said.is_empty() { "unknown" } else { &said };
                format!("an error on the server ({said:?}) has prevented the request from succeeding")
            }
            code => format!("the server responded with the status code {code} but did not return more information"),
        });
    }
    if body.is_empty() {
        return Err(format!("0-length response with status code: {} and content type: {kind}", status.as_u16()));
    }
    let text = String::from_utf8_lossy(body);
    if !text.trim_start().starts_with(['{', '[']) {
        // Read as YAML, anything is a text.
        return Err("couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }".to_owned());
    }
    serde_json::from_slice(body)
        .map_err(|error| cel::go::json::complaint(body).unwrap_or_else(|| error.to_string()))
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))
}
