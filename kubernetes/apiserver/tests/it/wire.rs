//! Plain HTTP against a server of the test's own.

use apiserver::{Running, Server};
use reqwest::{Client, Method, header::HeaderMap};
use serde_json::Value;

/// A server in memory and a client of its admin.
pub(crate) struct Wire {
    pub(crate) server: Running,
    client: Client,
    token: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    pub(crate) text: String,
}

impl Reply {
    pub(crate) fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or(&self.text)
    }
}

impl Wire {
    pub(crate) async fn start() -> Self {
        Self::of(Server::builder().in_memory().start().await.unwrap())
    }

    pub(crate) fn of(server: Running) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let certificate = reqwest::Certificate::from_pem(server.certificate_authority().as_bytes()).unwrap();
        let client = Client::builder().tls_certs_only([certificate]).build().unwrap();
        let token = server.admin_token().to_owned();
        Self { server, client, token }
    }

    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) -> reqwest::RequestBuilder {
        let method: Method = method.parse().unwrap();
        let mut request =
            self.client.request(method, format!("{}{path}", self.server.server())).bearer_auth(&self.token);
        if !content_type.is_empty() {
            request = request.header("content-type", content_type);
        }
        request.body(body.into())
    }

    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Reply {
        self.execute(request.build().unwrap()).await
    }

    pub(crate) async fn execute(&self, request: reqwest::Request) -> Reply {
        let response = self.client.execute(request).await.unwrap();
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or_default();
        Reply { code, headers, body, text }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(self.request("GET", path, "", "")).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Reply {
        self.send(self.request("POST", path, "application/json", body.to_string())).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Reply {
        self.send(self.request("PUT", path, "application/json", body.to_string())).await
    }

    pub(crate) async fn patch(&self, path: &str, kind: &str, body: &Value) -> Reply {
        let content_type = match kind {
            "apply" => "application/apply-patch+yaml".to_owned(),
            "json" => "application/json-patch+json".to_owned(),
            kind => format!("application/{kind}-patch+json"),
        };
        self.send(self.request("PATCH", path, &content_type, body.to_string())).await
    }

    pub(crate) async fn delete(&self, path: &str, body: &Value) -> Reply {
        self.send(self.request("DELETE", path, "application/json", body.to_string())).await
    }
}
